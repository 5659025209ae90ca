//! A write to several sinks.

use std::sync::Arc;

use haul_core::sync::Mutex;
use haul_core::{
    Batch, BatchData, BufferPool, Error, ErrorKind, Outcome, Result, Retry, Side, Sink, WriteDone,
};

use super::files::SliceResult;
use super::state::{FanOut, SharedFanOut};

/// One write, until all ends have answered it.
struct PendingWrite {
    shared: Arc<SharedFanOut>,
    batch: Arc<Batch>,
    state: Mutex<PendingWriteState>,
}

struct PendingWriteState {
    /// The errors of slices that could not be read.
    unread: Vec<Option<Error>>,
    /// The results of each slice at each end.
    results: Vec<Vec<SliceResult>>,
    /// How many ends have not answered, and one more until all have the content.
    open: usize,
    done: Option<WriteDone>,
}

/// Writes the slices of a batch to the ends that need them.
pub(super) fn write(fan_out: &FanOut, data: BatchData, done: WriteDone) {
    let results = vec![vec![None; fan_out.shared.count()]; data.slices.len()];
    let unread = data.slices.iter().map(|read| read.as_ref().err().cloned()).collect();
    let pending = Arc::new(PendingWrite {
        shared: Arc::clone(&fan_out.shared),
        batch: Arc::clone(&data.batch),
        state: Mutex::new(PendingWriteState { unread, results, open: 1, done: Some(done) }),
    });
    let mut needed = needed(fan_out, &data);
    let last = needed.pop();
    // Each copy goes to its sink before the next one is made, so that no thread waits for a buffer while it has one.
    for (end, sink, slices) in needed {
        pending.write(end, sink, copy_of(&data, &slices, &fan_out.pool), slices);
    }
    if let Some((end, sink, slices)) = last {
        let is_whole = slices.len() == data.slices.len();
        let part = if is_whole { Ok(data) } else { copy_of(&data, &slices, &fan_out.pool) };
        pending.write(end, sink, part, slices);
    }
    pending.end_one();
}

/// An end that needs slices, and the positions of these slices in the batch.
type NeededSlices<'a> = (usize, &'a Arc<dyn Sink>, Vec<usize>);

fn needed<'a>(fan_out: &'a FanOut, data: &BatchData) -> Vec<NeededSlices<'a>> {
    let files = fan_out.shared.files.lock();
    let mut needed = Vec::new();
    for (end, sink) in fan_out.open() {
        let is_needed = |at: &usize| {
            let slice = data.batch.get(*at).filter(|_| data.slices[*at].is_ok());
            slice.is_some_and(|(entry, slice)| files.needs(&entry.path, slice.index, end))
        };
        let slices: Vec<usize> = (0..data.slices.len()).filter(is_needed).collect();
        if !slices.is_empty() {
            needed.push((end, sink, slices));
        }
    }
    needed
}

/// A copy of the slices at these positions, which were read.
fn copy_of(data: &BatchData, positions: &[usize], pool: &BufferPool) -> Result<BatchData> {
    let mut content = pool.take();
    let (mut batch, mut slices) = (Batch { again: data.batch.again, ..Batch::default() }, Vec::new());
    let mut wanted = positions.iter().peekable();
    let mut used = 0;
    for (at, read) in data.slices.iter().enumerate() {
        let len = read.as_ref().map_or(0, |read| read.data_len() as usize);
        let range = used..used + len;
        used += len;
        if wanted.next_if_eq(&&at).is_none() {
            continue;
        }
        let (Some((entry, slice)), Some(bytes)) = (data.batch.get(at), data.content.bytes().get(range))
        else {
            let cause = "a slice has other content than it says";
            return Err(Error::new(ErrorKind::Protocol, Side::Local, "copy the slice", cause));
        };
        if batch.entries.last() != Some(entry) {
            batch.entries.push(Arc::clone(entry));
        }
        batch.slices.push(haul_core::Slice { entry: batch.entries.len() as u32 - 1, ..slice });
        slices.push(read.clone());
        let Some(place) = content.grow(bytes.len()) else {
            let cause = "it has more content than fits into a buffer";
            return Err(Error::new(ErrorKind::Protocol, Side::Local, "copy the slice", cause));
        };
        place.copy_from_slice(bytes);
    }
    Ok(BatchData { batch: Arc::new(batch), slices, content, at_hand: data.at_hand })
}

impl PendingWrite {
    /// Writes these slices to an end.
    fn write(
        self: &Arc<Self>,
        end: usize,
        sink: &Arc<dyn Sink>,
        part: Result<BatchData>,
        slices: Vec<usize>,
    ) {
        let part = match part {
            Ok(part) => part,
            Err(error) => return self.answer(end, &slices, vec![Err(error); slices.len()]),
        };
        self.state.lock().open += 1;
        let pending = Arc::clone(self);
        sink.write(
            part,
            Box::new(move |outcomes| {
                pending.answer(end, &slices, outcomes);
                pending.end_one();
            }),
        );
    }

    /// Notes the outcomes of an end for the slices at these positions.
    fn answer(&self, end: usize, positions: &[usize], outcomes: Vec<Result<Outcome>>) {
        let mut state = self.state.lock();
        let mut outcomes = outcomes.into_iter();
        for at in positions {
            let missing = || {
                let cause = "a slice has no answer";
                Err(Error::new(ErrorKind::Protocol, Side::Destination, "write", cause))
            };
            let outcome = outcomes.next().unwrap_or_else(missing);
            if let Some(place) = state.results.get_mut(*at).and_then(|ends| ends.get_mut(end)) {
                *place = Some(outcome.map_err(|error| self.shared.named(end, error)));
            }
        }
    }

    /// One end has answered. The last one settles the write.
    fn end_one(&self) {
        let mut state = self.state.lock();
        state.open -= 1;
        if state.open > 0 {
            return;
        }
        let Some(done) = state.done.take() else { return };
        let (unread, results) = (std::mem::take(&mut state.unread), std::mem::take(&mut state.results));
        drop(state);
        let mut lost = Vec::new();
        let mut files = self.shared.files.lock();
        let mut outcomes: Vec<Result<Outcome>> = Vec::with_capacity(results.len());
        for (at, (unread, results)) in unread.into_iter().zip(results).enumerate() {
            outcomes.push(match (unread, self.batch.get(at)) {
                (Some(error), _) => Err(error),
                (None, Some((entry, slice))) => {
                    files.settle(&entry.path, slice.index, results, &mut |end, error| {
                        lost.push((end, error.clone()));
                    })
                }
                (None, None) => Ok(Outcome::Stored),
            });
        }
        lost.iter().for_each(|(end, _)| files.lose(*end));
        drop(files);
        for (end, error) in &lost {
            self.shared.lose(*end, error);
        }
        if let Some(error) = self.shared.error_of_all() {
            for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_ok()) {
                *outcome = Err(error.clone().with_retry(Retry::Never));
            }
        }
        done(outcomes);
    }
}
