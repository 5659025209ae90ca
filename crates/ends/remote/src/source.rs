//! A source at the remote end.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use haul_core::filter::RulesAbove;
use haul_core::source::{ScanVisit, TakeArriving};
use haul_core::{
    Batch, BatchData, Digest, Entry, Error, HungOperation, PageHashes, PageReport, RelPath, Result, Retry,
    Said, ScanOptions, Sha256, Source, SourceCaps, Traffic,
};
use haul_wire::{FrameKind, Request, Response, ScanId, ScanPart, encode};

use super::peer::{only, unexpected_answer};
use super::requests::ATTEMPTS;
use super::root::RemoteRoot;
use super::state::{OnReply, Pick, RawReply};

/// Parts of a scan that are asked for at once: enough that the link's delay does not limit a walk.
const PARTS_AHEAD: u64 = 8;

pub(super) struct PeerSource {
    pub(super) root: RemoteRoot,
    pub(super) caps: SourceCaps,
}

impl Source for PeerSource {
    fn caps(&self) -> SourceCaps {
        self.caps
    }

    fn ending(&self) {
        self.root.peer.session.ends();
    }

    fn stop(&self) {
        // If it cannot be told, the session has ended or ends soon, which ends the program too.
        let _: Result<()> = self.root.peer.tell(&Request::Stop { root: self.root.id });
    }

    fn said(&self, from: u64) -> Result<Said> {
        self.root.said(from)
    }

    fn root(&self) -> Result<Option<Entry>> {
        self.root.peer.ask(&Request::Root { root: self.root.id }, only!(Root))
    }

    fn above(&self, names: &[Vec<u8>]) -> Result<RulesAbove> {
        self.root.peer.ask(&Request::Above { root: self.root.id, names: names.to_vec() }, only!(Above))
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        let (sender, receiver) = crossbeam_channel::unbounded();
        let id = self.root.peer.next_scan.fetch_add(1, Ordering::Relaxed);
        let start = Request::ScanStart { root: self.root.id, scan: id, options: options.clone() };
        let lost = BTreeMap::new();
        let mut scan = RemoteScan { source: self, id, start, sender, next: 0, asked: 0, lost, waited: 0 };
        let result = scan.run(&receiver, visit);
        scan.end();
        match result? {
            ScanEnd::Done => Ok(()),
            ScanEnd::Gone => {
                let session = &self.root.peer.session;
                let started_anew = || session.unreachable("the far haul was started anew during the scan");
                Err(if scan.next == 0 { session.root_is_gone() } else { started_anew() })
            }
        }
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        let root = self.root.id;
        let request = |paths| Request::Lookup { root, paths };
        self.root.peer.call_each("look up", paths, &request, &only!(Lookup))
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        Ok(self.root.peer.read_whole(&self.request(batch, None), batch, &self.root.traffic)?.0)
    }

    fn read_arriving(&self, batch: &Arc<Batch>, take: &mut TakeArriving<'_>) -> Result<Option<BatchData>> {
        Ok(self.root.peer.read(&self.request(batch, None), batch, &self.root.traffic, take)?.0)
    }

    fn read_changed(&self, batch: &Arc<Batch>, pages: &PageHashes) -> Result<BatchData> {
        let request = self.request(batch, Some(pages.clone()));
        Ok(self.root.peer.read_whole(&request, batch, &self.root.traffic)?.0)
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        let root = self.root.id;
        let request = |paths| Request::Digest { root, paths };
        self.root.peer.call_each("hash", paths, &request, &only!(Digest))
    }

    fn sha256(&self, paths: &[RelPath]) -> Result<Vec<Result<Sha256>>> {
        let root = self.root.id;
        let request = |paths| Request::Sha256 { root, paths };
        self.root.peer.call_each("hash", paths, &request, &only!(Sha256))
    }

    fn hashed(&self) -> Option<u64> {
        self.root.hashed()
    }

    fn remove_unchanged(&self, entries: &[Entry]) -> Result<Vec<Result<()>>> {
        let root = self.root.id;
        let request = |entries| Request::RemoveUnchanged { root, entries };
        if entries.is_empty() {
            return self.root.peer.ask(&request(Vec::new()), only!(Removed));
        }
        self.root.peer.call_each("remove", entries, &request, &only!(Removed))
    }

    fn page_report(&self) -> Result<Option<PageReport>> {
        self.root.page_report()
    }

    fn hung(&self, timeout: Duration) -> Vec<HungOperation> {
        self.root.hung(timeout)
    }

    fn is_held_by_iops(&self) -> bool {
        self.root.is_held_by_iops()
    }

    fn streams(&self) -> u32 {
        self.root.peer.streams()
    }

    fn traffic(&self) -> Traffic {
        self.root.traffic()
    }
}

impl PeerSource {
    /// The request for the content of a batch.
    fn request(&self, batch: &Arc<Batch>, pages: Option<PageHashes>) -> Request {
        let compress = self.root.peer.compress;
        Request::Read { root: self.root.id, batch: batch.clone(), pages, compress, proof_may_follow: true }
    }
}

/// How a scan ended.
enum ScanEnd {
    /// All entries were visited, or the visitor stopped the scan.
    Done,
    /// The remote process does not know the scan: it was started again.
    Gone,
}

/// A scan that is fetched part by part.
struct RemoteScan<'a> {
    source: &'a PeerSource,
    id: ScanId,
    /// The request that starts it.
    start: Request,
    sender: Sender<(u64, Result<RawReply>)>,
    /// The next part to visit. All earlier parts are acknowledged.
    next: u64,
    /// The number of parts that were asked for.
    asked: u64,
    /// How often each part was lost with its connection.
    lost: BTreeMap<u64, u32>,
    /// How often the scan has waited since the last part, as other connections may be dead too.
    waited: u32,
}

impl RemoteScan<'_> {
    fn run(&mut self, receiver: &Receiver<(u64, Result<RawReply>)>, visit: ScanVisit<'_>) -> Result<ScanEnd> {
        let mut early: BTreeMap<u64, ScanPart> = BTreeMap::new();
        loop {
            // Before its first part has arrived, the remote end may not know the scan.
            let ahead = if self.next == 0 { 1 } else { PARTS_AHEAD };
            while self.asked < self.next + ahead {
                self.ask(self.asked)?;
                self.asked += 1;
            }
            let Ok((part, reply)) = receiver.recv() else { return Err(unexpected_answer()) };
            let answer = reply.and_then(|reply| self.source.root.peer.session.open_reply(reply, None));
            match answer {
                Ok((Response::Scan(found), _)) => {
                    self.lost.remove(&part);
                    self.waited = 0;
                    early.insert(part, found);
                }
                // A part that could not be made ends the scan where it is; parts before it may be on their way, but
                // the scan as a whole has failed.
                Ok((Response::Failed(error), _)) => return Err(error),
                Ok((Response::Gone, _)) => return Ok(ScanEnd::Gone),
                Ok(_) => return Err(unexpected_answer()),
                Err(error) if error.retry() == Retry::OtherStream => self.ask_again(part, error)?,
                Err(error) => return Err(error),
            }
            while let Some(ready) = early.remove(&self.next) {
                self.next += 1;
                let last = ready.last;
                if visit(ready.found) == ControlFlow::Break(()) || last {
                    return Ok(ScanEnd::Done);
                }
            }
        }
    }

    /// Asks again for a lost part, unless it was lost too often: the part itself may kill the connections.
    fn ask_again(&mut self, part: u64, error: Error) -> Result<()> {
        let lost = self.lost.entry(part).or_default();
        *lost += 1;
        if *lost == ATTEMPTS {
            return Err(error.with_retry(Retry::Never));
        }
        // Parts that were lost together cost one wait.
        if *lost > self.waited {
            self.waited = *lost;
            std::thread::sleep(Duration::from_millis(100) * self.waited);
        }
        self.ask(part)
    }

    fn ask(&self, part: u64) -> Result<()> {
        let next = Request::ScanNext { scan: self.id, part, acked: self.next };
        // The answer to the start is the first part. A scan that was started already does not start again.
        let request = if part == 0 { &self.start } else { &next };
        let mut frame = encode(FrameKind::Request, 0, request, 0).map_err(Error::from)?;
        let sender = self.sender.clone();
        let on_reply: OnReply = Box::new(move |reply| {
            let _ = sender.send((part, reply));
        });
        self.source.root.peer.session.submit(&mut frame, &[], Pick::Small, None, on_reply);
        Ok(())
    }

    /// Ends the scan at the remote end. Parts that still arrive are dropped.
    fn end(&self) {
        // Waits for the response, so that the request is repeated if its connection dies. Otherwise the remote end
        // would keep the scan.
        let _ = self.source.root.peer.call(&Request::ScanEnd { scan: self.id });
    }
}
