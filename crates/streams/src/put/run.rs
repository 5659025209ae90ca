//! Moves one stream into its targets.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, Scope};

use haul_core::{Error, ErrorKind, Result, Side};

use super::cut::{Cutter, StreamPart};
use super::encode::{Encode, EncodedInput};
use super::input::Input;
use super::plan::PartPlan;
use super::settings::{PutOutcome, PutSettings, PutStatus, PutTarget};
use super::upstream::Upstream;
use crate::index_file;
use crate::sidecar::NewRecord;

/// Moves a stream into its targets, encoded as `encode` says.
///
/// # Errors
/// That of starting a thread or of the recipients. All later errors are in the outcome.
pub fn put(
    input: &mut Input,
    encode: Encode,
    targets: &[PutTarget],
    settings: &PutSettings,
    status: &Arc<PutStatus>,
) -> Result<PutOutcome> {
    let (feed, memory) = EncodedInput::new(input, encode, settings.memory)?;
    let encoding = feed.encoding();
    let takes_slices = targets.iter().all(|target| matches!(target, PutTarget::File(_)));
    let plan = if takes_slices { PartPlan::slices() } else { PartPlan::new(settings.max_parts) };
    let mut cutter = Cutter::new(feed, plan, settings.memory.saturating_sub(memory));
    let mut ups: Vec<Upstream<'_>> =
        targets.iter().map(|target| Upstream::new(target, settings, encoding, status)).collect();
    let fed = thread::scope(|scope| {
        for up in &mut ups {
            up.prepare();
        }
        let fed = feed_targets(scope, &mut cutter, &mut ups, settings, status);
        if fed.is_err() {
            status.pace.lift();
            ups.iter().for_each(Upstream::stop);
        }
        for up in &mut ups {
            up.close();
        }
        fed
    });
    // By now every part was sent or has failed.
    let made = fed.and_then(|()| recorded(&mut cutter));
    let (len, crc64) = (cutter.feed().plain_len().unwrap_or(cutter.proof_len()), cutter.crc64());
    let keeps = settings.resume && made.as_ref().is_err_and(|error| error.kind() == ErrorKind::Cancelled);
    let recorded = made.as_ref().ok();
    // A short stream is read as fast as an index of it.
    let index = recorded.filter(|_| len > index_file::SHORT).map(|_| cutter.feed().index());
    let indexed = index.as_ref().and_then(|index| index.as_deref().ok());
    let done = haul_threads::each(ups, "end", |up| match recorded {
        Some(recorded) => Some(up.commit(recorded, (len, crc64), indexed)),
        None => up.give_up(keeps),
    })?;
    let unindexed = index.and_then(std::result::Result::err);
    let (sha256, pages) = (input.sha256(), input.page_report());
    Ok(PutOutcome { input: made.err(), targets: done, sha256, pages, unindexed })
}

/// Cuts the stream and hands each part to all targets. The caller closes the targets.
fn feed_targets<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    cutter: &mut Cutter<'_>,
    ups: &mut [Upstream<'a>],
    settings: &PutSettings,
    status: &PutStatus,
) -> Result<()> {
    let mut waiting = None;
    loop {
        let part = cutter.next()?;
        status.read.store(cutter.proof_len(), Ordering::Relaxed);
        let plain = cutter.feed().plain_len().unwrap_or(cutter.proof_len());
        status.plain.store(plain, Ordering::Relaxed);
        status.ended.store(cutter.ended(), Ordering::Relaxed);
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
            return whole(cutter, ups, &part, settings);
        }
        for up in &mut *ups {
            up.begin(scope);
            if let Some(first) = &waiting {
                up.feed(first);
            }
            up.feed(&part);
        }
        waiting = None;
    }
    status.ended.store(true, Ordering::Relaxed);
    match waiting {
        Some(only) => return whole(cutter, ups, &only, settings),
        None if cutter.proof_len() == 0 => {
            let empty = Arc::new(StreamPart::empty());
            return whole(cutter, ups, &empty, settings);
        }
        None => {}
    }
    cutter.feed().finish()
}

/// The record of the stream.
fn recorded(cutter: &mut Cutter<'_>) -> Result<NewRecord> {
    let (stored, feed) = (cutter.proof(), cutter.feed());
    Ok(NewRecord { stored, encoding: feed.encoding(), plain: feed.plain()? })
}

/// The stream is one part: one request for each target, once the input is known to be complete.
fn whole(
    cutter: &mut Cutter<'_>,
    ups: &mut [Upstream<'_>],
    part: &Arc<StreamPart>,
    settings: &PutSettings,
) -> Result<()> {
    cutter.feed().finish()?;
    let recorded = recorded(cutter)?;
    let len = cutter.feed().plain_len().unwrap_or(recorded.stored.len);
    if len == 0 && !settings.allow_empty {
        let error = Error::new(ErrorKind::Io, Side::Source, "put the stream", "it is empty");
        return Err(error.with_hint("--allow-empty makes an empty file or object"));
    }
    let recorded = &recorded;
    haul_threads::each(ups.iter_mut().collect(), "put", |up| up.write_whole(part, recorded, len))?;
    Ok(())
}
