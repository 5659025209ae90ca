//! The state of a disk with a volatile write cache: its current blocks, its durable blocks, and its faults.

use std::ops::Range;
use std::sync::Arc;

use crate::content::{self, Random};

/// The unit in which unflushed writes are kept or lost.
pub const BLOCK: usize = 4096;

type DiskBlock = Arc<[u8; BLOCK]>;

/// All blocks of a disk; `None` is zeros. A copy shares the blocks.
pub(super) type DiskBlocks = Vec<Option<DiskBlock>>;

/// When the power is cut. Operations are counted from the call, the first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// At this write request: it is in the cache, and gets no answer.
    Write(u64),
    /// At this write request that holds file content (see [`DiskFault::content_only`]).
    Content(u64),
    /// At this flush: nothing of it is done.
    Flush(u64),
}

/// Which of the unflushed block writes survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// None.
    None,
    /// All.
    All,
    /// The first ones, in the order of writing.
    First(usize),
    /// A random subset; the seed decides which, and how many.
    Random(u64),
    /// All but those that hold file content (see [`DiskFault::content_only`]): names and lengths without data.
    NoContent,
}

impl Keep {
    /// One of the rules above: random subsets most of the time.
    #[must_use]
    pub fn any(seed: u64) -> Self {
        match seed % 8 {
            0 => Self::None,
            1 => Self::NoContent,
            2 => Self::All,
            _ => Self::Random(seed),
        }
    }
}

/// An operation of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// Reads.
    Read,
    /// Writes into the cache.
    Write,
    /// Flushes of the cache.
    Flush,
}

/// Operations that fail with `EIO`. A failed write changes nothing; a failed flush leaves the cache as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFault {
    op: DiskOp,
    bytes: Range<u64>,
    content_only: bool,
    skip: u64,
    times: u64,
}

impl DiskFault {
    /// All operations of this kind.
    #[must_use]
    pub fn of(op: DiskOp) -> Self {
        Self { op, bytes: 0..u64::MAX, content_only: false, skip: 0, times: u64::MAX }
    }

    /// Only those that touch this range of the disk. Flushes touch every range.
    #[must_use]
    pub fn bytes(self, bytes: Range<u64>) -> Self {
        Self { bytes, ..self }
    }

    /// Only writes of file content, as far as [`content::fill`] made it. So the metadata and the journal of the file
    /// system stay sound.
    #[must_use]
    pub fn content_only(self) -> Self {
        Self { content_only: true, ..self }
    }

    /// Not the first `skip` of them.
    #[must_use]
    pub fn skip(self, skip: u64) -> Self {
        Self { skip, ..self }
    }

    /// `times` of them, then no more.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    fn strikes(&mut self, op: DiskOp, touched: &Range<u64>, data: &[u8]) -> bool {
        let apart = touched.end <= self.bytes.start || self.bytes.end <= touched.start;
        if op != self.op || (apart && op != DiskOp::Flush) || (self.content_only && !holds_content(data)) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        let strikes = self.times > 0;
        self.times = self.times.saturating_sub(1);
        strikes
    }
}

/// Whether a block of `data` is file content, which has the pattern of [`content::fill`].
fn holds_content(data: &[u8]) -> bool {
    data.chunks(BLOCK).any(content::is_filled)
}

/// How many operations there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Operations that a [`DiskFault`] has failed.
    pub failed: u64,
}

/// The disk answers `EIO`: the power is off, or a fault says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskFailed;

#[derive(Debug)]
pub(super) struct DiskCache {
    current: DiskBlocks,
    durable: DiskBlocks,
    /// Block writes since the last flush, in their order. A block may be there more than once.
    unflushed: Vec<(usize, DiskBlock)>,
    counts: DiskCounts,
    faults: Vec<DiskFault>,
    cut: Option<(Trigger, Keep)>,
    off: bool,
}

impl DiskCache {
    pub(super) fn new(bytes: u64) -> Self {
        let blocks: DiskBlocks = vec![None; usize::try_from(bytes).unwrap().div_ceil(BLOCK)];
        Self {
            current: blocks.clone(),
            durable: blocks,
            unflushed: Vec::new(),
            counts: DiskCounts::default(),
            faults: Vec::new(),
            cut: None,
            off: false,
        }
    }

    pub(super) fn len(&self) -> u64 {
        (self.current.len() * BLOCK) as u64
    }

    pub(super) fn counts(&self) -> DiskCounts {
        self.counts
    }

    pub(super) fn is_off(&self) -> bool {
        self.off
    }

    pub(super) fn add(&mut self, fault: DiskFault) {
        self.faults.push(fault);
    }

    /// Forgets all faults and a cut that is still to come.
    pub(super) fn heal(&mut self) {
        self.faults.clear();
        self.cut = None;
    }

    pub(super) fn cut_at(&mut self, trigger: Trigger, keep: Keep) {
        self.cut = Some((trigger, keep));
    }

    fn failing(&mut self, op: DiskOp, touched: &Range<u64>, data: &[u8]) -> Result<(), DiskFailed> {
        if self.off {
            return Err(DiskFailed);
        }
        // All are asked, so that each counts for itself.
        let struck =
            self.faults.iter_mut().filter_map(|fault| fault.strikes(op, touched, data).then_some(()));
        if struck.count() > 0 {
            self.counts.failed += 1;
            return Err(DiskFailed);
        }
        Ok(())
    }

    pub(super) fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, DiskFailed> {
        let len = len.min(usize::try_from(self.len().saturating_sub(offset)).unwrap());
        self.failing(DiskOp::Read, &(offset..offset + len as u64), &[])?;
        self.counts.reads += 1;
        let mut data = vec![0; len];
        for (block, within, range) in pieces(offset, len) {
            if let Some(held) = &self.current[block] {
                data[range.clone()].copy_from_slice(&held[within..within + range.len()]);
            }
        }
        Ok(data)
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), DiskFailed> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= self.len()).ok_or(DiskFailed)?;
        self.failing(DiskOp::Write, &(offset..end), data)?;
        self.counts.writes += 1;
        for (block, within, range) in pieces(offset, data.len()) {
            let mut new = [0; BLOCK];
            if range.len() < BLOCK
                && let Some(held) = &self.current[block]
            {
                new.copy_from_slice(&held[..]);
            }
            new[within..within + range.len()].copy_from_slice(&data[range]);
            let new = Arc::new(new);
            self.current[block] = Some(Arc::clone(&new));
            self.unflushed.push((block, new));
        }
        self.count_down(DiskOp::Write, data)
    }

    pub(super) fn flush(&mut self) -> Result<(), DiskFailed> {
        self.failing(DiskOp::Flush, &(0..0), &[])?;
        self.counts.flushes += 1;
        self.count_down(DiskOp::Flush, &[])?;
        for (block, data) in self.unflushed.drain(..) {
            self.durable[block] = Some(data);
        }
        Ok(())
    }

    /// Cuts the power if this is the operation for it.
    fn count_down(&mut self, op: DiskOp, data: &[u8]) -> Result<(), DiskFailed> {
        let Some((trigger, keep)) = &mut self.cut else { return Ok(()) };
        let left = match trigger {
            Trigger::Write(left) if op == DiskOp::Write => left,
            Trigger::Content(left) if op == DiskOp::Write && holds_content(data) => left,
            Trigger::Flush(left) if op == DiskOp::Flush => left,
            Trigger::Write(_) | Trigger::Content(_) | Trigger::Flush(_) => return Ok(()),
        };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return Ok(());
        }
        let keep = *keep;
        self.cut_now(keep);
        Err(DiskFailed)
    }

    /// Cuts the power: from now on everything fails, till [`DiskCache::power_on`].
    pub(super) fn cut_now(&mut self, keep: Keep) {
        if self.off {
            return;
        }
        self.off = true;
        let mut chosen = chooser(keep);
        for (number, (block, data)) in self.unflushed.drain(..).enumerate() {
            if chosen(number, &data[..]) {
                self.durable[block] = Some(data);
            }
        }
        self.heal();
    }

    /// Turns the power on. After a cut, the disk has its durable blocks. No fault is left.
    pub(super) fn power_on(&mut self) {
        if self.off {
            self.current.clone_from(&self.durable);
        }
        self.off = false;
        self.heal();
    }

    /// All that is written, flushed or not.
    pub(super) fn snapshot(&self) -> DiskBlocks {
        self.current.clone()
    }

    /// Puts back the blocks of a [`DiskCache::snapshot`], durably.
    pub(super) fn restore(&mut self, blocks: &DiskBlocks) {
        self.durable.clone_from(blocks);
        self.current.clone_from(blocks);
        self.unflushed.clear();
        self.off = false;
        self.heal();
    }
}

/// Says of a block write, by its number and content, whether it survives.
type SurvivalChooser = dyn FnMut(usize, &[u8]) -> bool;

fn chooser(keep: Keep) -> Box<SurvivalChooser> {
    match keep {
        Keep::None => Box::new(|_, _| false),
        Keep::All => Box::new(|_, _| true),
        Keep::First(count) => Box::new(move |number, _| number < count),
        Keep::NoContent => Box::new(|_, data| !holds_content(data)),
        Keep::Random(seed) => {
            let mut random = Random::new(seed);
            let percent = [5, 25, 50, 75, 95][usize::try_from(random.between(0, 5)).unwrap()];
            // Runs of blocks, as a disk keeps whole requests, and single ones.
            let most = [1, 1, 8, 64][usize::try_from(random.between(0, 4)).unwrap()];
            let (mut left, mut kept) = (0, false);
            Box::new(move |_, _| {
                if left == 0 {
                    left = random.between(1, most + 1);
                    kept = random.between(0, 100) < percent;
                }
                left -= 1;
                kept
            })
        }
    }
}

/// The blocks that a range touches: number, place within the block, place within the range.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (usize, usize, Range<usize>)> {
    let begin = usize::try_from(offset).unwrap();
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= len {
            return None;
        }
        let within = (begin + at) % BLOCK;
        let count = (BLOCK - within).min(len - at);
        let piece = ((begin + at) / BLOCK, within, at..at + count);
        at += count;
        Some(piece)
    })
}
