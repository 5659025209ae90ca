//! What `put`, `get`, `ls` and `rm` have in common: stores that are opened, and progress that is looked at.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use haul_core::{Limit, ObjectPlace, Progress, Result, Side, Totals};
use haul_object::{Client, StoreSettings};
use haul_streams::encoding::Encoding;

use crate::render::{Console, Stored, print_line};

/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// The rate is that of so many looks.
const LOOKS: usize = 15;

/// What is known of a stream at a moment.
pub(super) struct Standing {
    /// The counts.
    pub(super) totals: Totals,
    /// The length of the stream is known.
    pub(super) ended: bool,
    /// What holds it back.
    pub(super) limit: Limit,
}

/// How a stream is stored, if not as it came, for the summary.
pub(super) fn stored_as(encoding: Encoding, len: u64) -> Option<Stored> {
    (!encoding.is_plain()).then(|| Stored { encoding: encoding.to_string(), bytes: len })
}

/// Opens a store; what it has to say is shown.
///
/// # Errors
/// If the settings make no sense.
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

/// Does `work` while progress is shown.
pub(super) fn watched<T>(
    console: &Console,
    look: impl Fn() -> Standing + Sync,
    work: impl FnOnce() -> T,
) -> T {
    let begun = Instant::now();
    thread::scope(|scope| {
        let (done, ended) = bounded::<()>(0);
        let look = &look;
        let ticker = move || {
            let mut seen = VecDeque::new();
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let Standing { totals, ended, limit } = look();
                let now = begun.elapsed().as_secs_f64();
                let moved = totals.sent_bytes;
                seen.push_back((now, moved));
                if seen.len() > LOOKS {
                    seen.pop_front();
                }
                let (since, from) = seen.front().copied().unwrap_or((now, moved));
                let rate = if now > since { moved.saturating_sub(from) as f64 / (now - since) } else { 0.0 };
                let left = totals.found_bytes.saturating_sub(moved + totals.resumed_bytes);
                let eta_seconds = (ended && rate > 0.0).then(|| left as f64 / rate);
                console.progress(&Progress {
                    totals,
                    scan_done: ended,
                    seconds: now,
                    rate,
                    streams: 0,
                    method: None,
                    tcp: None,
                    limit,
                    eta_seconds,
                });
            }
        };
        // Without this thread nothing is shown, and all is done the same.
        let _ = thread::Builder::new().name("progress".to_owned()).spawn_scoped(scope, ticker);
        let result = work();
        drop(done);
        result
    })
}
