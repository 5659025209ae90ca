//! The only asynchronous code of this crate runs here: the library of the protocol requires it.

use std::future::Future;
use std::sync::OnceLock;

use haul_core::{Error, ErrorKind, Result, Side};
use tokio::runtime::{Builder, Runtime};

/// Threads that read from and write to all connections. Signing and hashing happen on the threads that call.
const THREADS: usize = 2;

static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();

/// The runtime of all connections.
///
/// # Errors
/// `Io` if the system refuses its threads.
pub(super) fn runtime() -> Result<&'static Runtime> {
    let made = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("smb").enable_all();
        // Tokio panics if a thread cannot be started.
        let built = haul_threads::caught(|| builder.build());
        built.map_err(|error| error.cause().to_owned())?.map_err(|error| error.to_string())
    });
    made.as_ref().map_err(|cause| Error::new(ErrorKind::Io, Side::Local, "start the threads for SMB", cause))
}

/// Runs a future to its end on the calling thread.
///
/// # Errors
/// As [`runtime`].
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> Result<T> {
    Ok(runtime()?.block_on(future))
}
