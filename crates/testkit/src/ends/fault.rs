//! Decorators that make chosen calls of a source or sink fail, wait, hang or lie.
//!
//! An [`EndFaults`] counts the calls of each kind; an [`EndFault`] names a kind, the numbers of the calls that it
//! affects, and its effect. Without faults the decorators change nothing.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use haul_core::filter::RulesAbove;
use haul_core::sink::{ArrivingContent, CloneRead};
use haul_core::source::{ScanVisit, TakeArriving};
use haul_core::sync::{Condvar, Mutex};
use haul_core::{
    Answer, Batch, BatchData, Digest, Entry, Error, FinishReport, HardLink, HungOperation, Offer, Outcome,
    PageHashes, PageReport, RelPath, Result, Said, ScanOptions, Sha256, Side, Sink, SinkCaps, SliceData,
    Source, SourceCaps, Traffic, WriteDone,
};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Source::root`].
    Root,
    /// [`Source::scan`].
    Scan,
    /// [`Source::lookup`] and [`Source::holds`].
    Lookup,
    /// [`Source::read`] and [`Source::read_changed`].
    Read,
    /// [`Source::digest`].
    Digest,
    /// [`Source::remove_unchanged`].
    RemoveSource,
    /// [`Sink::offer`].
    Offer,
    /// [`Sink::write`].
    Write,
    /// [`Sink::pages`].
    Pages,
    /// [`Sink::discard`].
    Discard,
    /// [`Sink::link`].
    Link,
    /// [`Sink::remove`].
    Remove,
    /// [`Sink::finish`].
    Finish,
}

/// The effect of a fault on a call.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The call as a whole fails.
    Fail(Error),
    /// The call answers, and each item of its answer is this error. As [`Effect::Fail`] where a call has no items.
    FailEach(Error),
    /// The call waits before it goes on.
    Delay(Duration),
    /// The call waits until [`EndFaults::release`].
    Hang,
    /// The last byte of the content is missing ([`Call::Read`] and [`Call::Write`] only).
    ShortContent,
    /// The first byte of the content is another one ([`Call::Read`] and [`Call::Write`] only).
    WrongContent,
}

impl Effect {
    /// The call fails with this error of the operating system.
    #[must_use]
    pub fn errno(side: Side, errno: i32) -> Self {
        Self::Fail(Error::io(side, "do", &io::Error::from_raw_os_error(errno)))
    }
}

/// A fault: the calls that it affects, and its effect.
#[derive(Clone, Debug)]
pub struct EndFault {
    /// The kind of call.
    pub call: Call,
    /// The numbers of the calls of this kind, from 0.
    pub which: Range<u64>,
    /// The effect on these calls.
    pub effect: Effect,
}

#[derive(Default)]
struct FaultState {
    faults: Vec<EndFault>,
    counts: Vec<(Call, u64)>,
    released: bool,
}

/// The faults of one source or sink, or of both, and the counts of their calls.
#[derive(Default)]
pub struct EndFaults {
    state: Mutex<FaultState>,
    released: Condvar,
}

impl EndFaults {
    /// No faults yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Adds a fault. Of several that affect a call, the first one counts.
    pub fn add(&self, call: Call, which: Range<u64>, effect: Effect) {
        self.state.lock().faults.push(EndFault { call, which, effect });
    }

    /// How many calls of this kind there were.
    #[must_use]
    pub fn count(&self, call: Call) -> u64 {
        let state = self.state.lock();
        state.counts.iter().find(|(other, _)| *other == call).map_or(0, |(_, count)| *count)
    }

    /// Lets all calls go on that hang, now and later.
    pub fn release(&self) {
        self.state.lock().released = true;
        self.released.notify_all();
    }

    /// Counts a call; waits if it has to; its effect if it is another one.
    fn meet(&self, call: Call) -> Option<Effect> {
        let mut state = self.state.lock();
        let number = match state.counts.iter_mut().find(|(other, _)| *other == call) {
            Some((_, count)) => {
                *count += 1;
                *count - 1
            }
            None => {
                state.counts.push((call, 1));
                0
            }
        };
        let affects = |fault: &&EndFault| fault.call == call && fault.which.contains(&number);
        match state.faults.iter().find(affects).map(|fault| fault.effect.clone())? {
            Effect::Delay(time) => {
                drop(state);
                thread::sleep(time);
                None
            }
            Effect::Hang => {
                drop(self.released.wait_while(state, |state| !state.released));
                None
            }
            effect => Some(effect),
        }
    }

    /// A call without items.
    fn whole<T>(&self, call: Call, make: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.meet(call) {
            Some(Effect::Fail(error) | Effect::FailEach(error)) => Err(error),
            _ => make(),
        }
    }

    /// A call that answers with `count` items.
    fn each<T>(
        &self,
        call: Call,
        count: usize,
        make: impl FnOnce() -> Result<Vec<Result<T>>>,
    ) -> Result<Vec<Result<T>>> {
        match self.meet(call) {
            Some(Effect::Fail(error)) => Err(error),
            Some(Effect::FailEach(error)) => Ok((0..count).map(|_| Err(error.clone())).collect()),
            _ => make(),
        }
    }

    fn content(&self, effect: Option<Effect>, data: &mut BatchData) {
        let len = data.content.bytes().len();
        match effect {
            Some(Effect::FailEach(error)) => {
                data.slices.iter_mut().for_each(|slice| *slice = Err(error.clone()));
                data.content.truncate(0);
            }
            Some(Effect::ShortContent) => data.content.truncate(len.saturating_sub(1)),
            Some(Effect::WrongContent) => {
                if let Some(byte) = data.content.bytes_mut().first_mut() {
                    *byte ^= 1;
                }
            }
            _ => {}
        }
    }

    fn read(&self, make: impl FnOnce() -> Result<BatchData>) -> Result<BatchData> {
        match self.meet(Call::Read) {
            Some(Effect::Fail(error)) => Err(error),
            effect => {
                let mut data = make()?;
                self.content(effect, &mut data);
                Ok(data)
            }
        }
    }
}

/// A source with faults.
pub struct FaultySource {
    source: Arc<dyn Source>,
    faults: Arc<EndFaults>,
}

impl FaultySource {
    /// Decorates `source`.
    #[must_use]
    pub fn new(source: Arc<dyn Source>, faults: &Arc<EndFaults>) -> Self {
        Self { source, faults: Arc::clone(faults) }
    }
}

#[deny(clippy::missing_trait_methods, reason = "a method that is not passed on would change the source")]
impl Source for FaultySource {
    fn caps(&self) -> SourceCaps {
        self.source.caps()
    }

    fn root(&self) -> Result<Option<Entry>> {
        self.faults.whole(Call::Root, || self.source.root())
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        self.faults.whole(Call::Scan, || self.source.scan(options, visit))
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        self.faults.each(Call::Lookup, paths.len(), || self.source.lookup(paths))
    }

    fn holds(&self, paths: &[RelPath]) -> Result<Vec<Result<bool>>> {
        self.faults.each(Call::Lookup, paths.len(), || self.source.holds(paths))
    }

    fn above(&self, names: &[Vec<u8>]) -> Result<RulesAbove> {
        self.faults.whole(Call::Root, || self.source.above(names))
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        self.faults.read(|| self.source.read(batch))
    }

    /// The faults are those of [`Source::read`], so nothing is taken while it arrives.
    fn read_arriving(&self, batch: &Arc<Batch>, _take: &mut TakeArriving<'_>) -> Result<Option<BatchData>> {
        self.read(batch).map(Some)
    }

    fn read_changed(&self, batch: &Arc<Batch>, pages: &PageHashes) -> Result<BatchData> {
        self.faults.read(|| self.source.read_changed(batch, pages))
    }

    fn prehash(&self, options: &ScanOptions, stop: &AtomicBool) {
        self.source.prehash(options, stop);
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        self.faults.each(Call::Digest, paths.len(), || self.source.digest(paths))
    }

    fn sha256(&self, paths: &[RelPath]) -> Result<Vec<Result<Sha256>>> {
        self.faults.each(Call::Digest, paths.len(), || self.source.sha256(paths))
    }

    fn hashed(&self) -> Option<u64> {
        self.source.hashed()
    }

    fn remove_unchanged(&self, entries: &[Entry]) -> Result<Vec<Result<()>>> {
        self.faults.each(Call::RemoveSource, entries.len(), || self.source.remove_unchanged(entries))
    }

    fn stop(&self) {
        self.source.stop();
    }

    fn said(&self, from: u64) -> Result<Said> {
        self.source.said(from)
    }

    fn page_report(&self) -> Result<Option<PageReport>> {
        self.source.page_report()
    }

    fn hung(&self, timeout: Duration) -> Vec<HungOperation> {
        self.source.hung(timeout)
    }

    fn is_held_by_iops(&self) -> bool {
        self.source.is_held_by_iops()
    }

    fn ending(&self) {
        self.source.ending();
    }

    fn streams(&self) -> u32 {
        self.source.streams()
    }

    fn traffic(&self) -> Traffic {
        self.source.traffic()
    }

    fn local_file(&self, entry: &Entry) -> Option<Result<File>> {
        self.source.local_file(entry)
    }
}

/// A sink with faults.
pub struct FaultySink {
    sink: Arc<dyn Sink>,
    faults: Arc<EndFaults>,
}

impl FaultySink {
    /// Decorates `sink`.
    #[must_use]
    pub fn new(sink: Arc<dyn Sink>, faults: &Arc<EndFaults>) -> Self {
        Self { sink, faults: Arc::clone(faults) }
    }
}

#[deny(clippy::missing_trait_methods, reason = "a method that is not passed on would change the sink")]
impl Sink for FaultySink {
    fn caps(&self) -> SinkCaps {
        self.sink.caps()
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        self.faults.each(Call::Offer, offers.len(), || self.sink.offer(offers))
    }

    fn write(&self, mut data: BatchData, done: WriteDone) {
        match self.faults.meet(Call::Write) {
            Some(Effect::Fail(error)) => {
                let outcomes = data.slices.iter().map(|_| Err(error.clone())).collect();
                drop(data);
                done(outcomes);
            }
            Some(effect) => {
                self.faults.content(Some(effect), &mut data);
                // Content that was damaged on its way has not stayed in the memory of the reader.
                data.at_hand = false;
                self.sink.write(data, done);
            }
            None => self.sink.write(data, done),
        }
    }

    /// The faults are those of [`Sink::write`], so the content is collected for it.
    fn write_arriving(
        &self,
        _batch: &Arc<Batch>,
        _slices: &[Result<SliceData>],
        _content: &mut dyn ArrivingContent,
        _done: &mut Option<WriteDone>,
    ) -> Result<()> {
        Ok(())
    }

    fn fetch(&self, batch: &Arc<Batch>, done: WriteDone) -> Option<WriteDone> {
        self.sink.fetch(batch, done)
    }

    fn pages(&self, entry: &Arc<Entry>, slices: Range<u32>) -> Result<Vec<PageHashes>> {
        self.faults.whole(Call::Pages, || self.sink.pages(entry, slices))
    }

    fn flush(&self) {
        self.sink.flush();
    }

    fn said(&self, from: u64) -> Result<Said> {
        self.sink.said(from)
    }

    fn page_report(&self) -> Result<Option<PageReport>> {
        self.sink.page_report()
    }

    fn hung(&self, timeout: Duration) -> Vec<HungOperation> {
        self.sink.hung(timeout)
    }

    fn is_held_by_iops(&self) -> bool {
        self.sink.is_held_by_iops()
    }

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        self.faults.whole(Call::Discard, || self.sink.discard(paths))
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        self.faults.each(Call::Link, links.len(), || self.sink.link(links))
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        self.faults.each(Call::Remove, paths.len(), || self.sink.remove(paths))
    }

    fn finish(&self) -> Result<FinishReport> {
        self.faults.whole(Call::Finish, || self.sink.finish())
    }

    fn streams(&self) -> u32 {
        self.sink.streams()
    }

    fn traffic(&self) -> Traffic {
        self.sink.traffic()
    }

    fn clone_file(
        &self,
        entry: &Entry,
        file: &File,
        read: Option<&CloneRead<'_>>,
    ) -> Result<Option<Outcome>> {
        self.sink.clone_file(entry, file, read)
    }
}
