//! The sink of several sinks.

use std::sync::Arc;
use std::time::Duration;

use haul_core::sync::Mutex;
use haul_core::{
    Answer, BatchData, BufferPool, Error, ErrorKind, FinishReport, HardLink, HungOperation, Location, Note,
    Offer, RelPath, Result, Retry, Side, Sink, SinkCaps, Traffic, WriteDone,
};

use haul_engine::{no_entry_fits_below, one_each};

use super::answers::join;
use super::state::{EndState, FanOut, SharedFanOut};
use super::write::write;
use crate::mistakes::at_host;

/// How often a call of one sink is repeated after an error that may pass.
const REPEATS: u32 = 3;

/// One of several destinations.
pub(crate) struct FanOutEnd {
    at: Location,
    sink: Result<Arc<dyn Sink>>,
}

impl FanOutEnd {
    /// `sink`: the error if it could not be opened.
    pub(crate) fn new(at: &Location, sink: Result<Arc<dyn Sink>>) -> Self {
        Self { at: at.clone(), sink: sink.map_err(|error| at_host(error, Side::Destination, at)) }
    }
}

impl FanOut {
    /// A sink of these ends. Copies of content are in buffers of `pool`.
    ///
    /// # Errors
    /// The error of the first end, if none could be opened.
    pub(crate) fn new(ends: Vec<FanOutEnd>, pool: BufferPool, note: Note) -> Result<Self> {
        let (mut sinks, mut states) = (Vec::new(), Vec::new());
        for FanOutEnd { at, sink } in ends {
            states.push(EndState { at, lost: Mutex::new(sink.as_ref().err().cloned()) });
            sinks.push(sink.ok());
        }
        let shared = SharedFanOut { ends: states, files: Mutex::default(), left: Mutex::default(), note };
        shared.ends.iter().for_each(|end| shared.tell_lost(end));
        if let Some(error) = shared.error_of_all() {
            return Err(error);
        }
        Ok(Self { sinks, shared: Arc::new(shared), pool })
    }

    /// Asks all ends that are not lost, at the same time. `None`: the end is lost, perhaps by this call.
    ///
    /// # Errors
    /// `Cancelled`; the error of the first end, if all are lost.
    fn ask_all<T: Send>(
        &self,
        call: &(dyn Fn(usize, &dyn Sink) -> Result<T> + Sync),
    ) -> Result<Vec<Option<T>>> {
        let ask = |(end, sink): (usize, &Arc<dyn Sink>)| (end, self.ask(end, &**sink, call));
        let mut all: Vec<Option<T>> = self.sinks.iter().map(|_| None).collect();
        for (end, answer) in haul_threads::each(self.open().collect(), "destination", ask)? {
            match answer {
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                Err(error) => {
                    self.shared.lose(end, &error);
                    self.shared.files.lock().lose(end);
                }
                Ok(answer) => all[end] = Some(answer),
            }
        }
        match self.shared.error_of_all() {
            Some(error) => Err(error),
            None => Ok(all),
        }
    }

    /// Repeats a call that may succeed the next time.
    fn ask<T>(&self, end: usize, sink: &dyn Sink, call: &dyn Fn(usize, &dyn Sink) -> Result<T>) -> Result<T> {
        let mut left = REPEATS;
        loop {
            match call(end, sink) {
                Err(error) if error.retry() != Retry::Never && left > 0 => left -= 1,
                answer => return answer.map_err(|error| self.shared.named(end, error)),
            }
        }
    }

    /// Joins the answers of all ends for each of `paths`.
    fn joined(&self, paths: &[&RelPath], answers: Vec<Option<Vec<Result<Answer>>>>) -> Vec<Result<Answer>> {
        let mut answers: Vec<_> = answers.into_iter().map(|all| all.map(Vec::into_iter)).collect();
        let mut joined = Vec::with_capacity(paths.len());
        for path in paths {
            let next = |(end, all): (usize, &mut Option<std::vec::IntoIter<Result<Answer>>>)| {
                Some(all.as_mut()?.next()?.map_err(|error| self.shared.named(end, error)))
            };
            let of_ends: Vec<Option<Result<Answer>>> = answers.iter_mut().enumerate().map(next).collect();
            let answer = join(of_ends.iter().flatten().cloned().collect());
            if let Some(Ok(Answer::Need { .. })) = answer {
                self.shared.files.lock().answered(path, &of_ends);
            }
            joined.extend(answer);
        }
        joined
    }
}

/// The error of a further name at a destination where the first one is another file, which stays. The others have the
/// first name, so the engine does not copy this one on its own.
fn first_name_is_left(link: &HardLink) -> Error {
    let cause = "its first name stays as it is at this destination";
    let error = Error::new(ErrorKind::InUse, Side::Destination, "link", cause).on(link.entry.path.as_bytes());
    error.with_hint("copy to this destination in a run of its own")
}

impl Sink for FanOut {
    fn caps(&self) -> SinkCaps {
        let all: Vec<SinkCaps> = self.open().map(|(_, sink)| sink.caps()).collect();
        let most = |count: fn(&SinkCaps) -> u32| all.iter().map(count).max().unwrap_or_default();
        SinkCaps {
            durable: all.iter().all(|caps| caps.durable),
            stages: all.iter().all(|caps| caps.stages),
            writers: most(|caps| caps.writers),
            writers_per_stream: most(|caps| caps.writers_per_stream),
            ..SinkCaps::default()
        }
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        let paths: Vec<_> = offers.iter().map(|offer| &offer.entry.path).collect();
        if offers.iter().any(|offer| offer.entry.is_stream()) {
            let cause = "several destinations take files whose length is known";
            let refuse = |path: &&RelPath| {
                let error = Error::new(ErrorKind::Unsupported, Side::Destination, "write", cause);
                Err(error.on(path.as_bytes()))
            };
            return Ok(paths.iter().map(refuse).collect());
        }
        let offer = |end, sink: &dyn Sink| {
            let answers = one_each(sink.offer(offers)?, offers.len(), Side::Destination, "compare")?;
            // An end that cannot create the root takes no entry. The others go on.
            let is_root = |offer: &Offer| offer.entry.path.is_root() && offer.entry.is_dir();
            let root = offers.iter().zip(&answers).find(|(offer, _)| is_root(offer));
            if let Some((_, Err(error))) = root
                && no_entry_fits_below(error)
            {
                return Err(error.clone().with_retry(Retry::Never));
            }
            self.shared.left.lock().note(end, offers, &answers);
            Ok(answers)
        };
        Ok(self.joined(&paths, self.ask_all(&offer)?))
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        write(self, data, done);
    }

    fn flush(&self) {
        self.open().for_each(|(_, sink)| sink.flush());
    }

    fn hung(&self, timeout: Duration) -> Vec<HungOperation> {
        self.open().flat_map(|(_, sink)| sink.hung(timeout)).collect()
    }

    fn is_held_by_iops(&self) -> bool {
        self.open().any(|(_, sink)| sink.is_held_by_iops())
    }

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        let mut files = self.shared.files.lock();
        paths.iter().for_each(|path| files.discard(path));
        drop(files);
        self.ask_all(&|_, sink| sink.discard(paths)).map(drop)
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        let paths: Vec<_> = links.iter().map(|link| &link.entry.path).collect();
        let link = |end, sink: &dyn Sink| {
            let is_left: Vec<bool> = self.shared.left.lock().are_left(end, links);
            let ready = links.iter().zip(&is_left).filter(|(_, is_left)| !**is_left);
            let ready: Vec<HardLink> = ready.map(|(link, _)| link.clone()).collect();
            let mut answers =
                one_each(sink.link(&ready)?, ready.len(), Side::Destination, "link")?.into_iter();
            let answer = |(link, is_left): (&HardLink, &bool)| {
                if *is_left { Some(Err(first_name_is_left(link))) } else { answers.next() }
            };
            Ok(links.iter().zip(&is_left).filter_map(answer).collect())
        };
        Ok(self.joined(&paths, self.ask_all(&link)?))
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        let remove =
            |_, sink: &dyn Sink| one_each(sink.remove(paths)?, paths.len(), Side::Destination, "remove");
        let answers = self.ask_all(&remove)?;
        let mut answers: Vec<_> = answers.into_iter().flatten().map(Vec::into_iter).collect();
        let next =
            |_: &RelPath| -> Vec<Result<()>> { answers.iter_mut().filter_map(Iterator::next).collect() };
        Ok(paths.iter().map(next).map(|removed| removed.into_iter().collect()).collect())
    }

    fn finish(&self) -> Result<FinishReport> {
        let reports = self.ask_all(&|_, sink| sink.finish())?;
        match self.shared.lost_error() {
            Some(error) => Err(error),
            None => {
                Ok(FinishReport { notes: reports.into_iter().flatten().flat_map(|one| one.notes).collect() })
            }
        }
    }

    fn streams(&self) -> u32 {
        self.open().map(|(_, sink)| sink.streams()).sum()
    }

    fn traffic(&self) -> Traffic {
        let mut all = Traffic::default();
        for traffic in self.sinks.iter().flatten().map(|sink| sink.traffic()) {
            all.wire_bytes += traffic.wire_bytes;
            all.matched_bytes += traffic.matched_bytes;
            all.resumed_bytes += traffic.resumed_bytes;
            all.method = all.method.or(traffic.method);
            all.tcp = all.tcp.or(traffic.tcp);
        }
        all
    }
}
