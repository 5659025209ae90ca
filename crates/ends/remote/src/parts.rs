//! Writes that do not fit into one frame: cut into parts, whose outcomes are put together again.

use haul_core::sync::Mutex;
use std::ops::Range;
use std::sync::Arc;

use haul_core::{Batch, Entry, Error, Outcome, Packing, Result, SliceData, WriteDone};
use haul_wire::{FrameError, FrameKind, MAX_BODY, Request, check, encode};

/// The outcomes of `count` slices that all failed with this error.
pub(super) fn failed(count: usize, error: &Error) -> Vec<Result<Outcome>> {
    vec![Err(error.clone()); count]
}

/// A batch, or a part of one, that is to become one frame.
pub(super) struct WriteFrame {
    pub(super) batch: Arc<Batch>,
    pub(super) slices: Vec<Result<SliceData>>,
    /// Only of a batch that fits into one frame.
    pub(super) packing: Option<Packing>,
    /// Whether the proof of the only slice follows the content.
    pub(super) proof_follows: bool,
    pub(super) content: Range<usize>,
}

/// Whether a batch certainly fits into one frame. Only paths and extended attributes can be large.
pub(super) fn fits(batch: &Batch) -> bool {
    let len = |entry: &Arc<Entry>| -> usize {
        let xattrs = entry.xattrs.iter().map(|(name, value)| name.len() + value.len());
        entry.path.as_bytes().len() + xattrs.sum::<usize>()
    };
    batch.entries.iter().map(len).sum::<usize>() < MAX_BODY / 2
}

/// An encoded part. An empty frame stands for a slice that does not fit into any frame.
pub(super) struct EncodedPart {
    pub(super) frame: Vec<u8>,
    pub(super) slices: usize,
    pub(super) content: Range<usize>,
}

impl WriteFrame {
    /// Encodes it. Splits it in halves if its description is too large for a frame, which takes megabytes of extended
    /// attributes.
    pub(super) fn encode(
        self,
        root: haul_wire::RootId,
        into: &mut Vec<EncodedPart>,
    ) -> std::result::Result<(), FrameError> {
        let Self { batch, slices, packing, proof_follows, content } = self;
        let count = slices.len();
        let request = Request::Write { root, batch, slices, packing, proof_follows };
        check::request(&request, content.len())?;
        match encode(FrameKind::Request, 0, &request, content.len()) {
            Ok(frame) => {
                into.push(EncodedPart { frame, slices: count, content });
                return Ok(());
            }
            Err(FrameError::TooLarge) if count > 1 => {}
            Err(FrameError::TooLarge) => {
                into.push(EncodedPart { frame: Vec::new(), slices: count, content });
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let Request::Write { batch, mut slices, .. } = request else { return Ok(()) };
        let second = slices.split_off(count / 2);
        let len: u64 = slices.iter().flatten().map(SliceData::data_len).sum();
        let middle = content.start + usize::try_from(len).unwrap_or(usize::MAX);
        let halves = [(0, slices, content.start..middle), (count / 2, second, middle..content.end)];
        for (from, slices, content) in halves {
            let batch = Arc::new(part_of(&batch, from, slices.len()));
            Self { batch, slices, packing: None, proof_follows: false, content }.encode(root, into)?;
        }
        Ok(())
    }
}

/// Some slices of a batch, with their entries only.
fn part_of(batch: &Batch, from: usize, count: usize) -> Batch {
    let mut part = Batch { again: batch.again, ..Batch::default() };
    let mut kept = None;
    for (entry, mut slice) in batch.iter().skip(from).take(count) {
        if kept != Some(slice.entry) {
            kept = Some(slice.entry);
            part.entries.push(entry.clone());
        }
        slice.entry = u32::try_from(part.entries.len() - 1).unwrap_or(u32::MAX);
        part.slices.push(slice);
    }
    part
}

/// Collects the outcomes of all parts.
pub(super) struct Gathered(Mutex<Gathering>);

struct Gathering {
    outcomes: Vec<Vec<Result<Outcome>>>,
    missing: usize,
    done: Option<WriteDone>,
}

impl Gathered {
    pub(super) fn new(parts: usize, done: WriteDone) -> Self {
        Self(Mutex::new(Gathering { outcomes: vec![Vec::new(); parts], missing: parts, done: Some(done) }))
    }

    pub(super) fn got(&self, at: usize, outcomes: Vec<Result<Outcome>>) {
        let (all, done) = {
            let mut gathering = self.0.lock();
            gathering.outcomes[at] = outcomes;
            gathering.missing -= 1;
            if gathering.missing > 0 {
                return;
            }
            (std::mem::take(&mut gathering.outcomes), gathering.done.take())
        };
        if let Some(done) = done {
            done(all.into_iter().flatten().collect());
        }
    }
}
