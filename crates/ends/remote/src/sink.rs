//! A sink at the remote end.

use haul_core::sync::{Mutex, MutexGuard};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use haul_codec::Packed;
use haul_core::{
    Answer, Batch, BatchData, Compress, Entry, Error, FinishReport, HardLink, HungOperation, Offer, Outcome,
    Packing, PageHashes, RelPath, Result, Sink, SliceData, Traffic, WriteDone,
};
use haul_spool::Spool;
use haul_wire::{FrameError, Kind, MAX_BODY, Request, Response, check, encode};

use super::pair::{Fetcher, Pair};
use super::session::{OnReply, Pick, Session};
use super::{Peer, Root, strange, too_large};

/// Folders told of again at once.
const DIRS: usize = 4096;

pub(super) struct PeerSink {
    root: Root,
    /// The folders that the remote process was told of, and how often the remote end had been started anew by then. It
    /// sets their times at the end; one that was started since has to be told again.
    dirs: Mutex<(Spool<Arc<Entry>>, u32)>,
    /// What has content fetched by the remote end itself.
    fetcher: Option<Fetcher>,
}

impl PeerSink {
    pub(super) fn new(root: Root) -> Self {
        let restarts = root.peer.session.lock().restarts;
        Self { root, dirs: Mutex::new((Spool::default(), restarts)), fetcher: None }
    }

    /// With content that the remote end fetches from `source` itself.
    pub(super) fn fetching(self, pair: &Pair, source: Root) -> Self {
        Self { fetcher: Some(pair.fetcher(source)), ..self }
    }

    fn peer(&self) -> &Peer {
        &self.root.peer
    }

    fn restarts(&self) -> u32 {
        self.peer().session.lock().restarts
    }

    fn lock_dirs(&self) -> MutexGuard<'_, (Spool<Arc<Entry>>, u32)> {
        self.dirs.lock()
    }

    /// Remembers what only the remote process knows.
    fn keep_dirs(&self, offers: &[Offer]) -> Result<()> {
        let mut dirs = self.lock_dirs();
        for offer in offers.iter().filter(|offer| offer.entry.is_dir()) {
            dirs.0.push(&offer.entry).map_err(|e| spool_failed(&e))?;
        }
        Ok(())
    }

    /// Tells a remote process that was started anew of the folders.
    fn repeat_dirs(&self) -> Result<()> {
        let restarts = self.restarts();
        let mut dirs = self.lock_dirs();
        if dirs.1 == restarts {
            return Ok(());
        }
        let mut failure = None;
        let told = dirs.0.forwards(|entries: Vec<Arc<Entry>>| -> std::io::Result<()> {
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
        told.map_err(|e| spool_failed(&e))?;
        dirs.1 = restarts;
        failure.map_or(Ok(()), Err)
    }

    fn ask(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        let root = self.root.id;
        let request = |offers| Request::Offer { root, offers };
        self.peer().call_each("offer", offers, &request, &|response| match response {
            Response::Answers(answers) => Some(answers),
            _ => None,
        })
    }
}

fn spool_failed(error: &std::io::Error) -> Error {
    Error::list("folders", error)
}

impl Sink for PeerSink {
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
        // Kept until all of it was taken.
        let Packed { packing, sending: _sending } = self.peer().packer.pack(wish, &mut content);
        let mut parts = Vec::with_capacity(1);
        let whole = Part { batch, slices, packing, content: 0..content.bytes().len() };
        if let Err(error) = whole.encode(self.root.id, &mut parts) {
            return done(failed(count, &error.into()));
        }
        if let [part] = parts.as_mut_slice() {
            let on_reply = on_written(session, part.slices, done);
            let bytes = &content.bytes()[part.content.clone()];
            self.root.travelled.count(bytes.len(), packing.map(|packing| packing.method));
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
                    self.root.travelled.count(bytes.len(), None);
                    let on_reply = on_written(session, part.slices, got);
                    session.submit(frame, bytes, Pick::Write(bytes.len() as u64), None, on_reply);
                }
            }
        }
    }

    fn fetch(&self, batch: &Arc<Batch>, done: WriteDone) -> Option<WriteDone> {
        match &self.fetcher {
            Some(fetcher) => fetcher.fetch(&self.root, batch, done),
            None => Some(done),
        }
    }

    fn pages(&self, entry: &Arc<Entry>, slices: Range<u32>) -> Result<Vec<PageHashes>> {
        // An end that fetches by itself compares by itself.
        if self.fetcher.as_ref().and_then(Fetcher::streams).is_some() {
            return Ok(Vec::new());
        }
        // The answers are kilobytes for each slice: on one connection that is new they would take many round trips.
        let bytes = slices.len() * PageHashes::MAX_LEN;
        let request = Request::PageHashes { root: self.root.id, entry: entry.clone(), slices };
        match self.peer().call_on(&request, Pick::Read(bytes as u64))? {
            Response::PageHashes(pages) => Ok(pages),
            _ => Err(strange()),
        }
    }

    fn has_parts(&self) -> bool {
        true
    }

    fn flush(&self) {
        let session = &self.peer().session;
        session.is_ending();
        // On each connection that owes answers, behind the writes that they are for: a lone request on another connection would
        // overtake them.
        let mut connections: Vec<Pick> =
            session.lock().connections_owing().into_iter().map(Pick::Connection).collect();
        if connections.is_empty() {
            connections.push(Pick::Small);
        }
        let (sender, receiver) = crossbeam_channel::unbounded();
        for connection in connections {
            let sender = sender.clone();
            if let Ok(mut frame) = encode(Kind::Request, 0, &Request::Flush { root: self.root.id }, 0) {
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
            match self.peer().call(&request(paths.to_vec()))? {
                Response::Done => {}
                _ => return Err(strange()),
            }
        }
        Ok(())
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        let root = self.root.id;
        let request = |links| Request::Link { root, links };
        self.peer().call_each("link", links, &request, &|response| match response {
            Response::Answers(answers) => Some(answers),
            _ => None,
        })
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        let root = self.root.id;
        let request = |paths| Request::Remove { root, paths };
        self.peer().call_each("remove", paths, &request, &|response| match response {
            Response::Removed(outcomes) => Some(outcomes),
            _ => None,
        })
    }

    fn finish(&self) -> Result<FinishReport> {
        loop {
            self.repeat_dirs()?;
            let before = self.restarts();
            let Response::Finish(report) = self.peer().call(&Request::Finish { root: self.root.id })? else {
                return Err(strange());
            };
            // A remote end that was started anew under this very request had not been told of the folders.
            if before == self.restarts() && self.lock_dirs().1 == before {
                return Ok(report);
            }
        }
    }

    fn hung(&self, patience: Duration) -> Vec<HungOperation> {
        let mut hung = self.root.hung(patience);
        if let Some(fetcher) = &self.fetcher {
            hung.append(&mut fetcher.hung(patience));
        }
        hung
    }

    fn streams(&self) -> u32 {
        let fetching = self.fetcher.as_ref().and_then(Fetcher::streams);
        fetching.unwrap_or_else(|| self.peer().streams())
    }

    fn traffic(&self) -> Traffic {
        self.root.traffic()
    }
}

pub(super) fn failed(count: usize, error: &Error) -> Vec<Result<Outcome>> {
    vec![Err(error.clone()); count]
}

/// What to do with the response to a write.
fn on_written(session: &Arc<Session>, count: usize, done: WriteDone) -> OnReply {
    let session = session.clone();
    Box::new(move |reply| {
        let response = reply.and_then(|reply| session.open_reply(reply, None));
        let error = match response {
            Ok((Response::Write(outcomes), _)) if outcomes.len() == count => return done(outcomes),
            Ok((Response::Failed(error), _)) | Err(error) => error,
            Ok((Response::Gone, _)) => session.unreachable("the far end lost what it had open"),
            Ok(_) => strange(),
        };
        done(failed(count, &error));
    })
}

/// A batch, or a part of one, that is to become one frame.
struct Part {
    batch: Arc<Batch>,
    slices: Vec<Result<SliceData>>,
    /// Only of a batch that fits into one frame.
    packing: Option<Packing>,
    content: Range<usize>,
}

/// Whether a batch surely fits into one frame, all but what may be megabytes being far below half of it.
pub(super) fn fits(batch: &Batch) -> bool {
    let len = |entry: &Arc<Entry>| -> usize {
        let xattrs = entry.xattrs.iter().map(|(name, value)| name.len() + value.len());
        entry.path.as_bytes().len() + xattrs.sum::<usize>()
    };
    batch.entries.iter().map(len).sum::<usize>() < MAX_BODY / 2
}

/// What became of it. An empty frame is one slice that does not fit into any.
struct EncodedPart {
    frame: Vec<u8>,
    slices: usize,
    content: Range<usize>,
}

impl Part {
    /// Encodes it; one whose description is too large for a frame (it takes megabytes of extended attributes) in
    /// halves.
    fn encode(
        self,
        root: haul_wire::RootId,
        into: &mut Vec<EncodedPart>,
    ) -> std::result::Result<(), FrameError> {
        let Self { batch, slices, packing, content } = self;
        let count = slices.len();
        let request = Request::Write { root, batch, slices, packing };
        check::request(&request, content.len())?;
        match encode(Kind::Request, 0, &request, content.len()) {
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
            Self { batch, slices, packing: None, content }.encode(root, into)?;
        }
        Ok(())
    }
}

/// Some slices of a batch, with only the entries that they are of.
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

/// Puts the outcomes of parts together again.
struct Gathered(Mutex<Gathering>);

struct Gathering {
    outcomes: Vec<Vec<Result<Outcome>>>,
    missing: usize,
    done: Option<WriteDone>,
}

impl Gathered {
    fn new(parts: usize, done: WriteDone) -> Self {
        Self(Mutex::new(Gathering { outcomes: vec![Vec::new(); parts], missing: parts, done: Some(done) }))
    }

    fn got(&self, at: usize, outcomes: Vec<Result<Outcome>>) {
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
