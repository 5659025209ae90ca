//! Shared by `put`, `get`, `ls` and `rm`: opening stores and showing progress.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use haul_core::event::{Action, Content, Done};
use haul_core::{
    Changes, Digest, EntryKind, Error, ErrorKind, IpFamily, Limit, ObjectPlace, Progress, Result, Side,
    Totals,
};
use haul_engine::{Cancel, least_eta};
use haul_job::Observer;
use haul_object::{Client, Object, StoreSettings};
use haul_streams::encoding::Encoding;
use haul_streams::get::{CheckedBy, Got};

use crate::args::{GivenArgs, StoreArgs};
use crate::render::{Console, StoredEncoding, print_line};
use crate::settings::store_settings;
use crate::standard_streams;

/// Interval of progress updates.
const LOOK: Duration = Duration::from_millis(200);

/// Number of updates over which the rate is averaged.
const LOOKS: usize = 15;

/// The progress of a stream.
pub(super) struct StreamProgress {
    /// The counts.
    pub(super) totals: Totals,
    /// The length of the stream is known.
    pub(super) ended: bool,
    /// The bottleneck.
    pub(super) limit: Limit,
}

/// The encoding of a stored stream for the summary; `None` if it has none.
pub(super) fn stored_as(encoding: Encoding, len: u64) -> Option<StoredEncoding> {
    (!encoding.is_plain()).then(|| StoredEncoding { encoding: encoding.to_string(), bytes: len })
}

/// Opens a store and shows its messages.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if the settings are invalid.
pub(super) fn open(
    place: &ObjectPlace,
    side: Side,
    settings: &StoreSettings,
    cancel: Arc<AtomicBool>,
    console: Option<&Arc<Console>>,
) -> Result<Client> {
    let console = console.map(Arc::clone);
    let notes = move |text: &str| match &console {
        Some(console) => console.note(text),
        None => print_line(text),
    };
    haul_object::open(place, side, settings, cancel, Arc::new(notes))
}

/// Standard input, unless it is a terminal.
///
/// # Errors
/// [`ErrorKind::Usage`] with the hint if it is one; if it is closed; the error of duplicating it.
pub(super) fn stdin(hint: &str) -> Result<OwnedFd> {
    if std::io::stdin().is_terminal() {
        let error = Error::new(ErrorKind::Usage, Side::Local, "read standard input", "it is a terminal");
        return Err(error.with_hint(hint));
    }
    standard_streams::input().map_err(|error| Error::io(Side::Source, "read standard input", &error))
}

/// Opens a store for a command that is no run, over `family`.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if the settings are invalid.
pub(super) fn open_alone(
    place: &ObjectPlace,
    side: Side,
    store: &StoreArgs,
    family: Option<IpFamily>,
    given: &GivenArgs,
) -> Result<Client> {
    open(place, side, &store_settings(store, family, given, place), Cancel::default().flag(), None)
}

/// Lists an object that was downloaded, and reports if its content could not be verified.
pub(super) fn report_object(console: &Console, object: &Object, got: Got) {
    report_copied(console, object.key.as_bytes(), got.len, (got.digest, got.sha256));
    if got.checked == Some(CheckedBy::Length) && object.len > 0 {
        console.note("no digest is recorded for this object: only its length was verified");
    }
}

/// Runs `work` while a thread shows progress.
pub(super) fn watched<T>(
    console: &Console,
    look: impl Fn() -> StreamProgress + Sync,
    work: impl FnOnce() -> T,
) -> T {
    let begun = Instant::now();
    thread::scope(|scope| {
        let (done, ended) = bounded::<()>(0);
        let look = &look;
        let ticker = move || {
            let mut seen = VecDeque::new();
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let StreamProgress { totals, ended, limit } = look();
                let now = begun.elapsed().as_secs_f64();
                let moved = totals.sent_bytes;
                seen.push_back((now, moved));
                if seen.len() > LOOKS {
                    seen.pop_front();
                }
                let (since, from) = seen.front().copied().unwrap_or((now, moved));
                let rate = if now > since { moved.saturating_sub(from) as f64 / (now - since) } else { 0.0 };
                let left = totals.found_bytes.saturating_sub(moved + totals.resumed_bytes);
                let eta_seconds =
                    (ended && rate > 0.0 && left > 0).then(|| (left as f64 / rate).max(least_eta(now)));
                console.progress(&Progress {
                    totals,
                    scan_done: ended,
                    seconds: now,
                    rate,
                    limit,
                    eta_seconds,
                    ..Progress::default()
                });
            }
        };
        // Without this thread only the progress is missing.
        let _ = thread::Builder::new().name("progress".to_owned()).spawn_scoped(scope, ticker);
        let result = work();
        drop(done);
        result
    })
}

/// Reports an object or a file of `len` bytes that was copied. Whether it replaced one is not known. `sha256` is of the
/// same bytes as the digest; without that, none is known.
pub(super) fn report_copied(
    console: &Console,
    name: &[u8],
    len: u64,
    (digest, sha256): (Option<Digest>, Option<Digest>),
) {
    let (kind, changes) = (Some(&EntryKind::File), Changes::NONE);
    let content = digest.map_or(Content::Unknown, Content::Digest);
    console.entry(name, Done { action: Action::Copied, kind, changes, len, content });
    // Without a digest, the entry itself counts as one that the manifest lacks.
    if digest.is_some() {
        console.sha256(name, sha256);
    }
}
