//! The only asynchronous code: the HTTP client requires it.

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use tokio::runtime::{Builder, Runtime};

use crate::fault::{FailureClass, Fault};

/// Threads that drive all connections. Hashing and cutting happen elsewhere, and two threads move a few GB per second.
const THREADS: usize = 2;

static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();

fn runtime() -> Result<&'static Runtime, Fault> {
    let made = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("http").enable_all();
        // Tokio panics if a thread cannot be started.
        let built = haul_threads::caught(|| builder.build());
        built.map_err(|error| error.cause().to_owned())?.map_err(|error| error.to_string())
    });
    made.as_ref()
        .map_err(|cause| Fault::new(FailureClass::Final, format!("threads cannot be started: {cause}")))
}

/// Runs a request to its end on the calling thread.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    runtime()?.block_on(future)
}

/// The library's retries of credential requests: few, so that missing credentials are noticed within seconds. The
/// requests themselves are retried for longer.
pub(crate) fn retry_of_logins() -> RetryConfig {
    let backoff = BackoffConfig { max_backoff: Duration::from_secs(1), ..BackoffConfig::default() };
    RetryConfig { max_retries: 2, retry_timeout: Duration::from_secs(10), backoff }
}

/// The library's connection options for credential requests.
pub(crate) fn options_of_logins() -> ClientOptions {
    ClientOptions::new().with_connect_timeout(Duration::from_secs(2))
}
