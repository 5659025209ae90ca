//! A thread that panics ends the run, and a batch that an end forgets has failed. No thread waits for either.

use std::ops::ControlFlow;
use std::sync::Arc;

use haul_core::source::ScanVisit;
use haul_core::{
    Answer, Batch, BatchData, Buffer, ChainingValue, Changes, Digest, Entry, EntryKind, FinishReport,
    HardLink, Offer, Outcome, RelPath, Report, Result, ScanBatch, ScanOptions, Sink, SinkCaps, SliceData,
    Source, SourceCaps, WriteDone,
};

use super::runs::{Events, options};
use crate::{Cancel, EndPair, copy};

/// Which method of the ends fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PanicPoint {
    Scan,
    Offer,
    Read,
    Write,
    /// No panic: the sink drops the callback of a write.
    DropsCallback,
    /// No panic: the sink reports a whole file as one slice of several.
    StoresPart,
}

struct Fake(PanicPoint);

impl Fake {
    fn panic_at(&self, at: PanicPoint) {
        assert!(self.0 != at, "on purpose");
    }
}

impl Source for Fake {
    fn caps(&self) -> SourceCaps {
        SourceCaps::default()
    }

    fn root(&self) -> Result<Option<Entry>> {
        Ok(None)
    }

    fn scan(&self, _: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        self.panic_at(PanicPoint::Scan);
        for number in 0..100 {
            let path = RelPath::new(format!("f{number}").as_bytes()).unwrap();
            let entries = vec![Entry::new(path, EntryKind::File, 0)];
            if visit(ScanBatch { entries, ..ScanBatch::default() }) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        Ok(paths.iter().map(|_| Ok(None)).collect())
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        self.panic_at(PanicPoint::Read);
        let empty = SliceData { extents: Vec::new(), value: ChainingValue([0; 32]) };
        let slices = batch.slices.iter().map(|_| Ok(empty.clone())).collect();
        Ok(BatchData { batch: batch.clone(), slices, content: Buffer::default(), at_hand: false })
    }

    fn digest(&self, _: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        Ok(Vec::new())
    }
}

impl Sink for Fake {
    fn caps(&self) -> SinkCaps {
        SinkCaps::default()
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        self.panic_at(PanicPoint::Offer);
        Ok(offers.iter().map(|_| Ok(Answer::Need { changes: Changes::NEW, have: Vec::new() })).collect())
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        self.panic_at(PanicPoint::Write);
        if self.0 == PanicPoint::StoresPart {
            return done(vec![Ok(Outcome::Stored); data.slices.len()]);
        }
        assert!(self.0 == PanicPoint::DropsCallback, "nothing is written in these tests");
        drop(done);
    }

    fn flush(&self) {}

    fn discard(&self, _: &[RelPath]) -> Result<()> {
        Ok(())
    }

    fn link(&self, _: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        Ok(Vec::new())
    }

    fn remove(&self, _: &[RelPath]) -> Result<Vec<Result<()>>> {
        Ok(Vec::new())
    }

    fn finish(&self) -> Result<FinishReport> {
        Ok(FinishReport::default())
    }
}

fn run(fault: PanicPoint) -> Report {
    let fake = Arc::new(Fake(fault));
    let part =
        EndPair { source: fake.clone(), sink: fake, preview: None, view: None, other_sources: Vec::new() };
    copy(&[part], options(), &Events::default(), &Cancel::default())
}

#[test]
fn a_thread_that_panics_ends_the_run_with_an_error() {
    for fault in [PanicPoint::Scan, PanicPoint::Offer, PanicPoint::Read, PanicPoint::Write] {
        let report = run(fault);
        assert!(report.fatal.is_some_and(|error| error.cause().contains("on purpose")));
    }
}

#[test]
fn a_batch_whose_callback_is_dropped_has_failed() {
    let report = run(PanicPoint::DropsCallback);
    assert_eq!((report.totals.failed, report.fatal), (100, None));
}

#[test]
fn a_file_of_one_slice_that_is_stored_but_not_committed_has_failed() {
    let report = run(PanicPoint::StoresPart);
    assert_eq!((report.totals.failed, report.fatal), (100, None));
}
