//! A stream into one or several objects.
//!
//! One thread reads, hashes and cuts; each target has threads of its own that send parts. A stream that fits one part
//! is one request. Nothing appears under the name before the input is known to be whole.

mod cut;
mod encode;
mod estimate;
mod group;
mod input;
mod plan;
mod resume;
mod target;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use haul_core::{Error, ErrorKind, Result, Side};

use crate::client::Client;
use crate::sidecar::{Proof, Recorded};
use crate::store::PutOptions;
use cut::Cutter;
pub use encode::Encode;
use encode::Feed;
pub use estimate::{Estimate, estimate};
pub use group::{Group, WITH_OTHERS, count_pipes};
pub use input::Input;
use plan::Plan;
use target::Upstream;
pub(crate) use target::run_name;

/// The memory, in bytes, that a process takes besides content.
pub const OVERHEAD: u64 = 40 << 20;

/// Where a stream goes.
pub struct Target {
    /// The bucket.
    pub client: Client,
    /// The object.
    pub key: String,
}

/// How it goes there.
#[derive(Clone, Debug)]
pub struct PutSettings {
    /// What is asked for about the object.
    pub options: PutOptions,
    /// Memory for content in bytes, at least 24 MiB and what [`Encode::least`] says.
    pub memory: u64,
    /// Parts that the store takes for one object.
    pub max_parts: u32,
    /// Whether an empty stream makes an object.
    pub allow_empty: bool,
    /// Parts that an earlier run left are used.
    pub resume: bool,
}

/// Where a stream stands. Bytes.
#[derive(Debug, Default)]
pub struct PutStatus {
    /// Read so far, in the form in which it is stored.
    pub read: AtomicU64,
    /// Read so far, as it came.
    pub plain: AtomicU64,
    /// Whether its end was seen.
    pub ended: AtomicBool,
    /// Taken by the stores, over all targets.
    pub sent: AtomicU64,
    /// Found there from an earlier run, over all targets.
    pub resumed: AtomicU64,
}

/// An object that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The length of the stream in bytes.
    pub len: u64,
    /// The object: the same, unless it was encoded.
    pub proof: Proof,
    /// Parts that it has; 0 if it went in one request.
    pub parts: u32,
}

/// How it ended.
pub struct PutOutcome {
    /// What is wrong with the input, if something is: then nothing was made anywhere.
    pub input: Option<Error>,
    /// For each target: what was made, or why nothing was. `None` if the input decided.
    pub targets: Vec<Option<Result<Stored>>>,
}

/// Moves a stream into its targets, encoded as `encode` says.
///
/// # Errors
/// If it cannot begin.
pub fn put(
    input: &mut Input,
    encode: Encode,
    targets: &[Target],
    settings: &PutSettings,
    status: &Arc<PutStatus>,
) -> Result<PutOutcome> {
    let (feed, memory) = Feed::new(input, encode, settings.memory)?;
    let encoding = feed.encoding();
    let mut cutter = Cutter::new(feed, Plan::new(settings.max_parts), settings.memory.saturating_sub(memory));
    let mut ups: Vec<Upstream<'_>> =
        targets.iter().map(|target| Upstream::new(target, settings, encoding, status)).collect();
    let fed = thread::scope(|scope| {
        for up in &mut ups {
            up.prepare();
        }
        let mut feed = || -> Result<()> {
            let mut waiting = None;
            loop {
                let part = cutter.next()?;
                status.read.store(cutter.proof_len(), Ordering::Relaxed);
                let plain = cutter.feed().plain_len().unwrap_or(cutter.proof_len());
                status.plain.store(plain, Ordering::Relaxed);
                let Some(part) = part.map(Arc::new) else { break };
                if ups.iter().all(Upstream::has_failed) {
                    return Ok(());
                }
                // The first part waits for a second one, or for the end that makes it the only one.
                if part.number == 1 && !cutter.ended() {
                    waiting = Some(part);
                    continue;
                }
                if part.number == 1 {
                    return whole(&mut cutter, &mut ups, &part.payload, settings);
                }
                for up in &mut ups {
                    up.begin(scope);
                    if let Some(first) = &waiting {
                        up.feed(Arc::clone(first));
                    }
                    up.feed(Arc::clone(&part));
                }
                waiting = None;
            }
            status.ended.store(true, Ordering::Relaxed);
            match waiting {
                Some(only) => return whole(&mut cutter, &mut ups, &only.payload, settings),
                None if cutter.proof_len() == 0 => {
                    let empty = crate::payload::Payload::from_bytes(Vec::new());
                    return whole(&mut cutter, &mut ups, &empty, settings);
                }
                None => {}
            }
            cutter.feed().finish()
        };
        let fed = feed();
        for up in &mut ups {
            up.close();
        }
        fed
    });
    // All parts were sent, or failed.
    let made = fed.and_then(|()| recorded(&mut cutter));
    let (len, crc64) = (cutter.feed().plain_len().unwrap_or(cutter.proof_len()), cutter.crc64());
    let recorded = made.as_ref().ok();
    let done = haul_threads::each(ups, "end", |up| match recorded {
        Some(recorded) => Some(up.commit(recorded, len, crc64)),
        None => up.give_up(),
    })?;
    Ok(PutOutcome { input: made.err(), targets: done })
}

/// What is to be recorded of what was cut.
fn recorded(cutter: &mut Cutter<'_>) -> Result<Recorded> {
    let (stored, feed) = (cutter.proof(), cutter.feed());
    Ok(Recorded { stored, encoding: feed.encoding(), plain: feed.plain()? })
}

/// The stream is one part: one request for each target, once the input is known to be whole.
fn whole(
    cutter: &mut Cutter<'_>,
    ups: &mut [Upstream<'_>],
    payload: &crate::payload::Payload,
    settings: &PutSettings,
) -> Result<()> {
    cutter.feed().finish()?;
    let recorded = recorded(cutter)?;
    let len = cutter.feed().plain_len().unwrap_or(recorded.stored.len);
    if len == 0 && !settings.allow_empty {
        let error = Error::new(ErrorKind::Io, Side::Source, "put the stream", "it is empty");
        return Err(error.with_hint("--allow-empty makes an empty object"));
    }
    let recorded = &recorded;
    haul_threads::each(ups.iter_mut().collect(), "put", |up| up.write_whole(payload, recorded, len))?;
    Ok(())
}
