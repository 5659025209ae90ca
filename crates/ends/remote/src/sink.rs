//! A sink at the remote end.

use haul_core::sync::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use haul_codec::Packed;
use haul_core::sink::ArrivingContent;
use haul_core::{
    Answer, Batch, BatchData, Compress, Entry, Error, FinishReport, HardLink, HungOperation, Offer,
    PageHashes, PageReport, RelPath, Result, Said, Sink, SinkCaps, SliceData, Traffic, WriteDone,
};
use haul_spool::Spool;
use haul_wire::{FrameKind, Request, Response, check, encode};

use super::connection::SentContent;
use super::parts::{Gathered, WriteFrame, failed, fits};
use super::peer::{Peer, only, too_large, unexpected_answer};
use super::root::RemoteRoot;
use super::session::Session;
use super::state::{OnReply, Pick};
use super::third_party::broker::{Broker, Fetcher};

/// Directories to offer again in one request.
const DIRS: usize = 4096;

pub(super) struct PeerSink {
    root: RemoteRoot,
    /// The directories that were offered, and the number of restarts of the remote process at that time. The remote
    /// process sets their times at the end, so a new process has to be offered them again.
    dirs: Mutex<(Spool<Arc<Entry>>, u32)>,
    /// Asks the remote end to fetch content itself, in a third-party copy.
    fetcher: Option<Fetcher>,
}

impl PeerSink {
    pub(super) fn new(root: RemoteRoot) -> Self {
        let restarts = root.peer.session.restarts();
        Self { root, dirs: Mutex::new((Spool::default(), restarts)), fetcher: None }
    }

    /// The same sink, in a third-party copy from `source`.
    pub(super) fn fetching(self, broker: &Broker, source: RemoteRoot) -> Self {
        Self { fetcher: Some(broker.fetcher(source)), ..self }
    }

    fn peer(&self) -> &Peer {
        &self.root.peer
    }

    fn restarts(&self) -> u32 {
        self.peer().session.restarts()
    }

    /// Remembers the directories, which only the remote process knows otherwise.
    fn keep_dirs(&self, offers: &[Offer]) -> Result<()> {
        let mut dirs = self.dirs.lock();
        for offer in offers.iter().filter(|offer| offer.entry.is_dir()) {
            dirs.0.push(&offer.entry).map_err(|e| spool_failed(&e))?;
        }
        Ok(())
    }

    /// Offers the directories again to a remote process that was started again.
    fn repeat_dirs(&self) -> Result<()> {
        let restarts = self.restarts();
        let mut dirs = self.dirs.lock();
        if dirs.1 == restarts {
            return Ok(());
        }
        let mut failure = None;
        let reported = dirs.0.forwards(|entries: Vec<Arc<Entry>>| -> std::io::Result<()> {
            for entries in entries.chunks(DIRS) {
                if failure.is_some() {
                    break;
                }
                let offers: Vec<Offer> =
                    entries.iter().map(|entry| Offer { entry: entry.clone(), digest: None }).collect();
                failure = self.ask(&offers).err();
            }
            Ok(())
        });
        reported.map_err(|e| spool_failed(&e))?;
        dirs.1 = restarts;
        failure.map_or(Ok(()), Err)
    }

    fn ask(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        let root = self.root.id;
        let request = |offers| Request::Offer { root, offers };
        self.peer().call_each("offer", offers, &request, &only!(Answers))
    }
}

fn spool_failed(error: &std::io::Error) -> Error {
    Error::list("directories", error)
}

impl Sink for PeerSink {
    fn caps(&self) -> SinkCaps {
        SinkCaps {
            parts: true,
            delta: true,
            growing: true,
            fetches: self.fetcher.is_some(),
            ..SinkCaps::default()
        }
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        self.keep_dirs(offers)?;
        let answers = self.ask(offers)?;
        for (offer, answer) in offers.iter().zip(&answers) {
            if let Ok(Answer::Need { have, .. }) = answer {
                check::have(&offer.entry, have)?;
            }
        }
        Ok(answers)
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        let session = &self.peer().session;
        let BatchData { batch, slices, mut content, at_hand: _ } = data;
        let count = slices.len();
        if let Err(error) = check::batch(&batch) {
            return done(failed(count, &error.into()));
        }
        let wish = if fits(&batch) { self.peer().compress } else { Compress::Never };
        // Held until the connection has accepted all of it.
        let Packed { packing, sending: _sending } = self.peer().packer.pack(wish, &mut content);
        let mut parts = Vec::with_capacity(1);
        let whole =
            WriteFrame { batch, slices, packing, proof_follows: false, content: 0..content.bytes().len() };
        if let Err(error) = whole.encode(self.root.id, &mut parts) {
            return done(failed(count, &error.into()));
        }
        if let [part] = parts.as_mut_slice() {
            let on_reply = on_written(session, part.slices, done);
            let bytes = &content.bytes()[part.content.clone()];
            self.root.traffic.count(bytes.len(), packing.map(|packing| packing.method));
            session.submit(&mut part.frame, bytes, Pick::Write(bytes.len() as u64), None, on_reply);
            return;
        }
        let gathered = Arc::new(Gathered::new(parts.len(), done));
        for (at, part) in parts.iter_mut().enumerate() {
            let gathered = gathered.clone();
            let got: WriteDone = Box::new(move |outcomes| gathered.got(at, outcomes));
            let bytes = &content.bytes()[part.content.clone()];
            match &mut part.frame[..] {
                [] => got(failed(part.slices, &too_large("send"))),
                frame => {
                    self.root.traffic.count(bytes.len(), None);
                    let on_reply = on_written(session, part.slices, got);
                    session.submit(frame, bytes, Pick::Write(bytes.len() as u64), None, on_reply);
                }
            }
        }
    }

    fn write_arriving(
        &self,
        batch: &Arc<Batch>,
        slices: &[Result<SliceData>],
        content: &mut dyn ArrivingContent,
        done: &mut Option<WriteDone>,
    ) -> Result<()> {
        let [Ok(slice)] = slices else { return Ok(()) };
        let len = slice.data_len() as usize;
        if !content.is_at_hand() || !fits(batch) {
            return Ok(());
        }
        let whole = WriteFrame {
            batch: batch.clone(),
            slices: slices.to_vec(),
            packing: None,
            proof_follows: true,
            content: 0..len,
        };
        let mut parts = Vec::with_capacity(1);
        // An error is found again, and reported, when the slice is sent as a whole.
        let (Ok(()), [part]) = (whole.encode(self.root.id, &mut parts), parts.as_mut_slice()) else {
            return Ok(());
        };
        let Some(mut passing) = self.peer().packer.pass(self.peer().compress, len as u64, content) else {
            return Ok(());
        };
        let waiting = Arc::new(Mutex::new(done.take()));
        let answered = waiting.clone();
        let answer: WriteDone = Box::new(move |outcomes| {
            let done = answered.lock().take();
            if let Some(done) = done {
                done(outcomes);
            }
        });
        let mut withdrawn = None;
        let mut withdraw = |error| {
            *done = waiting.lock().take();
            withdrawn = Some(error);
        };
        let passing = SentContent::Passing { content: &mut passing, len, withdraw: &mut withdraw };
        self.root.traffic.count(len, None);
        let (session, pick) = (&self.peer().session, Pick::Write(len as u64));
        let on_reply = on_written(session, 1, answer);
        session.submit_with(&mut part.frame, passing, pick, None, on_reply);
        withdrawn.map_or(Ok(()), Err)
    }

    fn fetch(&self, batch: &Arc<Batch>, done: WriteDone) -> Option<WriteDone> {
        match &self.fetcher {
            Some(fetcher) => fetcher.fetch(&self.root, batch, done),
            None => Some(done),
        }
    }

    fn pages(&self, entry: &Arc<Entry>, slices: Range<u32>) -> Result<Vec<PageHashes>> {
        // An end that fetches content compares pages itself.
        if self.fetcher.as_ref().and_then(Fetcher::streams).is_some() {
            return Ok(Vec::new());
        }
        // The answers are kilobytes for each slice: on one connection that is new they would take many round trips.
        let bytes = slices.len() * PageHashes::MAX_LEN;
        let request = Request::PageHashes { root: self.root.id, entry: entry.clone(), slices };
        let response = self.peer().call_on(&request, Pick::Read(bytes as u64))?;
        only!(PageHashes)(response).ok_or_else(unexpected_answer)
    }

    fn flush(&self) {
        let session = &self.peer().session;
        session.ends();
        // On each connection that owes answers, behind the writes: a request on another connection would overtake them.
        let mut connections: Vec<Pick> =
            session.connections_owing().into_iter().map(Pick::Connection).collect();
        if connections.is_empty() {
            connections.push(Pick::Small);
        }
        let (sender, receiver) = crossbeam_channel::unbounded();
        for connection in connections {
            let sender = sender.clone();
            if let Ok(mut frame) = encode(FrameKind::Request, 0, &Request::Flush { root: self.root.id }, 0) {
                let on_reply: OnReply = Box::new(move |_| drop(sender));
                session.submit(&mut frame, &[], connection, None, on_reply);
            }
        }
        drop(sender);
        // Nothing is sent: the channel ends when the last answer, of whatever kind, has come.
        let _: std::result::Result<(), _> = receiver.recv();
    }

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        let root = self.root.id;
        let request = |paths: Vec<RelPath>| Request::Discard { root, paths };
        for paths in paths.chunks(200) {
            self.peer().tell(&request(paths.to_vec()))?;
        }
        Ok(())
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        let root = self.root.id;
        let request = |links| Request::Link { root, links };
        self.peer().call_each("link", links, &request, &only!(Answers))
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        let root = self.root.id;
        let request = |paths| Request::Remove { root, paths };
        self.peer().call_each("remove", paths, &request, &only!(Removed))
    }

    fn finish(&self) -> Result<FinishReport> {
        loop {
            self.repeat_dirs()?;
            let before = self.restarts();
            let report = self.peer().ask(&Request::Finish { root: self.root.id }, only!(Finish))?;
            // A remote process that was started again during this request did not know the directories.
            if before == self.restarts() && self.dirs.lock().1 == before {
                return Ok(report);
            }
        }
    }

    fn page_report(&self) -> Result<Option<PageReport>> {
        self.fetcher.as_ref().map_or(Ok(None), Fetcher::page_report)
    }

    fn hung(&self, timeout: Duration) -> Vec<HungOperation> {
        let mut hung = self.root.hung(timeout);
        if let Some(fetcher) = &self.fetcher {
            hung.append(&mut fetcher.hung(timeout));
        }
        hung
    }

    fn said(&self, from: u64) -> Result<Said> {
        self.root.said(from)
    }

    fn is_held_by_iops(&self) -> bool {
        self.root.is_held_by_iops() || self.fetcher.as_ref().is_some_and(Fetcher::is_held_by_iops)
    }

    fn streams(&self) -> u32 {
        let fetching = self.fetcher.as_ref().and_then(Fetcher::streams);
        fetching.unwrap_or_else(|| self.peer().streams())
    }

    fn traffic(&self) -> Traffic {
        self.root.traffic()
    }
}

/// Handles the response to a write.
fn on_written(session: &Arc<Session>, count: usize, done: WriteDone) -> OnReply {
    let session = session.clone();
    Box::new(move |reply| {
        let response = reply.and_then(|reply| session.open_reply(reply, None));
        let error = match response {
            Ok((Response::Write(outcomes), _)) if outcomes.len() == count => return done(outcomes),
            Ok((Response::Failed(error), _)) | Err(error) => error,
            Ok((Response::Gone, _)) => session.root_is_gone(),
            Ok(_) => unexpected_answer(),
        };
        done(failed(count, &error));
    })
}
