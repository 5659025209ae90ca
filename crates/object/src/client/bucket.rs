//! One bucket of a store, and the loop that every request goes through.

use haul_core::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use haul_core::location::{ObjectKind, ObjectPlace};
use haul_core::path::printable;
use haul_core::text::without_errno;
use haul_core::{Error, ErrorKind, Note, Result, Side};

use super::budget::ContentBudget;
use super::limiter::ConcurrencyLimiter;
use super::positions::ListingPositions;
use super::retry::RetryPolicy;
use crate::az::Azure;
use crate::fault::{FailureClass, Fault};
use crate::gs;
use crate::meter::Requests;
use crate::s3;
use crate::settings::StoreSettings;
use crate::store::{Checksum, Object, PutOptions, RequestProgress, Store, Terms};

/// The most requests with content in flight, unless the user gives another number.
const AT_ONCE: usize = 24;

/// Slices, or batches of small objects, that are worth reading at a time.
const READERS: usize = 10;

/// The same from a store that answers within [`NEAR`]: more of them only push each other out of the cache of the CPU.
const READERS_NEAR: usize = 4;

/// A store is near if its quickest answer took less.
const NEAR: Duration = Duration::from_millis(3);

/// The most requests with little or no content in flight.
pub const MANY_AT_ONCE: usize = 256;

/// Requests that remove one object each.
const REMOVALS: usize = 16;

/// How a server that expects TLS ends a connection without it.
const WITHOUT_TLS: [&str; 2] = ["reset by peer", "closed before message completed"];

/// One bucket of a store. Many threads may use it at once; calls block and are retried.
pub struct Client {
    pub(super) store: Box<dyn Store>,
    place: ObjectPlace,
    endpoint: String,
    pub(super) side: Side,
    pub(super) timeout: Duration,
    /// The option that sets the timeout.
    timeout_option: &'static str,
    requests: Arc<Requests>,
    /// The most requests in flight that the user allows; 0: haul chooses.
    streams: u32,
    /// Admits requests that send content.
    pub(super) sent: ContentBudget,
    /// Admits requests for content.
    pub(super) received: ContentBudget,
    pub(super) limiter: ConcurrencyLimiter,
    /// Limits the requests with little or no content, as trees make them.
    pub(super) small_limiter: ConcurrencyLimiter,
    pub(super) cancel: Arc<AtomicBool>,
    notify: Note,
    /// The last success of any request.
    last_success: Mutex<Option<Instant>>,
    /// The microseconds of the quickest answer.
    quickest: AtomicU64,
    /// The store supports MD5 only, not the checksum of its provider.
    pub(super) md5: AtomicBool,
    /// The refusal of the credentials was reported.
    refusal_reported: AtomicBool,
    /// The store's warning was reported.
    warning_reported: AtomicBool,
    /// The wait for the store was reported.
    wait_reported: AtomicBool,
    /// The store cannot delete several objects by one request.
    pub(super) one_by_one: AtomicBool,
    /// The positions of the listings in progress.
    pub(super) positions: ListingPositions,
}

/// Opens the bucket of a location, without a request. `cancel` cancels all requests; `notify` receives messages for the
/// user.
///
/// # Errors
/// `Usage` if the settings are invalid, `Unreachable` if there are no credentials, else that of loading certificates.
pub fn open(
    place: &ObjectPlace,
    side: Side,
    settings: &StoreSettings,
    cancel: Arc<AtomicBool>,
    notify: Note,
) -> Result<Client> {
    let requests = Arc::new(Requests::default());
    let store: Box<dyn Store> = match place.kind {
        ObjectKind::S3 => Box::new(s3::open(&place.bucket, settings, Arc::clone(&requests))?),
        ObjectKind::Gs => Box::new(gs::open(&place.bucket, settings, Arc::clone(&requests))?),
        ObjectKind::Az => Box::new(Azure::new(&place.bucket, settings, Arc::clone(&requests))?),
    };
    Ok(Client {
        store,
        place: place.clone(),
        endpoint: settings.endpoint.clone().unwrap_or_default(),
        side,
        timeout: settings.timeout,
        timeout_option: settings.timeout_option,
        requests,
        streams: settings.streams,
        sent: ContentBudget::new(Arc::clone(&settings.pace.outbound)),
        received: ContentBudget::new(Arc::clone(&settings.pace.inbound)),
        limiter: ConcurrencyLimiter::new(at_once(settings.streams, AT_ONCE)),
        small_limiter: ConcurrencyLimiter::new(at_once(settings.streams, MANY_AT_ONCE)),
        cancel,
        notify,
        last_success: Mutex::new(None),
        quickest: AtomicU64::new(u64::MAX),
        md5: AtomicBool::new(false),
        refusal_reported: AtomicBool::new(false),
        warning_reported: AtomicBool::new(false),
        wait_reported: AtomicBool::new(false),
        one_by_one: AtomicBool::new(false),
        positions: ListingPositions::default(),
    })
}

/// The most requests in flight, where haul would choose `usual`.
fn at_once(streams: u32, usual: usize) -> usize {
    if streams > 0 { streams as usize } else { usual }
}

impl Client {
    /// The counts of requests.
    #[must_use]
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The number of slices, or batches of small objects, that are worth reading at a time.
    #[must_use]
    pub fn readers(&self) -> u32 {
        let is_near = u128::from(self.quickest.load(Ordering::Relaxed)) < NEAR.as_micros();
        at_once(self.streams, if is_near { READERS_NEAR } else { READERS }) as u32
    }

    /// The most requests with content in flight.
    #[must_use]
    pub fn at_once(&self) -> usize {
        at_once(self.streams, AT_ONCE)
    }

    /// Whether a request is to end: the run is cancelled, or nobody wants the answer any more.
    pub(super) fn has_ended(&self, unwanted: Option<&AtomicBool>) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is_set(&self.cancel) || unwanted.is_some_and(is_set)
    }

    /// The most requests in flight to remove objects.
    pub(super) fn removals_at_once(&self) -> usize {
        at_once(self.streams, REMOVALS)
    }

    /// The provider's limits and features.
    #[must_use]
    pub fn terms(&self) -> &'static Terms {
        self.store.terms()
    }

    /// The kind of store.
    #[must_use]
    pub fn kind(&self) -> ObjectKind {
        self.place.kind
    }

    /// Checks that objects can be written with these options, without a request.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`], naming the option that the provider lacks.
    pub fn check_options(&self, options: &PutOptions) -> Result<()> {
        self.store.check_options(options).map_err(|fault| {
            Error::new(ErrorKind::Usage, self.side, "write", fault.message).on(self.name(""))
        })
    }

    /// The location of an object, as the user writes it.
    #[must_use]
    pub fn name(&self, key: &str) -> String {
        ObjectPlace { key: key.to_owned(), ..self.place.clone() }.to_string()
    }

    /// The configured endpoint; empty for the provider's own.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Reports a message to the user.
    pub fn notify(&self, text: &str) {
        (self.notify)(text);
    }

    /// The error of a request that is conditional on an object's ETag.
    pub(super) fn changed_or(&self, fault: &Fault, operation: &str, object: &Object) -> Error {
        if fault.class == FailureClass::Condition {
            let error =
                Error::new(ErrorKind::SourceChanged, self.side, operation, "it is another object by now");
            return error.on(self.name(&object.key));
        }
        self.error(fault, operation, &object.key)
    }

    /// The side that errors are attributed to.
    #[must_use]
    pub fn side(&self) -> Side {
        self.side
    }

    pub(super) fn error(&self, fault: &Fault, operation: &str, key: &str) -> Error {
        let error = fault.error(self.side, operation, &self.name(key), self.store.terms().credentials);
        let was_reached = fault.status != 0 || self.last_success.lock().is_some();
        if was_reached || fault.class != FailureClass::Again {
            return error;
        }
        let more = match self.timeout_option {
            "" => String::new(),
            option => format!("; {option} sets how long haul tries"),
        };
        error.with_hint(format!("check --endpoint and the firewalls on the way{more}"))
    }

    /// Repeats a request until it succeeds or a retry would not help.
    pub(super) fn ask<T>(
        &self,
        request: impl FnMut(&RequestProgress<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.ask_unless(None, request)
    }

    pub(super) fn ask_unless<T>(
        &self,
        unwanted: Option<&AtomicBool>,
        mut request: impl FnMut(&RequestProgress<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut retry = RetryPolicy::new(self.timeout);
        loop {
            let tell = || self.report_wait("no answer from", "silence", self.timeout);
            let at = RequestProgress::new(retry.stall(), &self.cancel, unwanted).telling(&tell);
            if at.is_abandoned() {
                return Err(Fault::new(FailureClass::Abandoned, "interrupted"));
            }
            let answer = request(&at);
            if !self.warning_reported.load(Ordering::Relaxed)
                && let Some(warning) = self.store.warning()
                && !self.warning_reported.swap(true, Ordering::Relaxed)
            {
                self.notify(&warning);
            }
            let fault = match answer {
                Ok(answer) => {
                    self.quickest.fetch_min(at.age_micros(), Ordering::Relaxed);
                    self.note_success();
                    return Ok(answer);
                }
                Err(fault) => fault,
            };
            let last_success = *self.last_success.lock();
            if fault.class == FailureClass::SlowDown {
                self.limiter.slow_down();
                self.small_limiter.slow_down();
            }
            if !retry.allows(&fault, last_success) {
                return Err(retry.exhausted(fault));
            }
            if matches!(fault.class, FailureClass::Login | FailureClass::Expired)
                && !self.refusal_reported.swap(true, Ordering::Relaxed)
            {
                let why = printable(fault.message.as_bytes());
                self.notify(&format!("the credentials are refused ({why}): waiting for new ones"));
            }
            let is_told = matches!(fault.class, FailureClass::Login | FailureClass::Expired);
            if retry.is_long() && !is_told {
                let outcome = if fault.status == 0 { "no answer from" } else { "no success at" };
                self.report_wait(outcome, &fault.reason(), retry.limit_after(&fault, last_success));
            }
            retry.wait(&fault, || self.has_ended(unwanted));
            self.requests.retried();
        }
    }

    /// Tells the user once that no request has succeeded yet, if none ever did.
    fn report_wait(&self, outcome: &str, why: &str, longest: Duration) {
        if self.last_success.lock().is_some() || self.wait_reported.swap(true, Ordering::Relaxed) {
            return;
        }
        let (store, most) = (self.shown_endpoint(), longest.as_secs());
        let mut why = without_errno(why);
        if let Some(host) = store.strip_prefix("http://")
            && WITHOUT_TLS.iter().any(|text| why.contains(text))
        {
            why = format!("{why}; is it https://{host}?");
        }
        self.notify(&format!("{outcome} {store} yet ({why}); trying for up to {most} s"));
    }

    /// The endpoint, or the bucket at the provider's own.
    fn shown_endpoint(&self) -> String {
        if self.endpoint.is_empty() { self.name("") } else { self.endpoint.clone() }
    }

    fn note_success(&self) {
        *self.last_success.lock() = Some(Instant::now());
        self.limiter.succeeded();
        self.small_limiter.succeeded();
        if self.refusal_reported.swap(false, Ordering::Relaxed) {
            self.notify("the credentials are taken again");
        }
    }

    pub(super) fn check(&self) -> Checksum {
        if self.md5.load(Ordering::Relaxed) { Checksum::Md5 } else { self.store.terms().check }
    }
}
