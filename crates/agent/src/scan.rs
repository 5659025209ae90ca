//! Walks that the local end fetches part by part.

use haul_core::sync::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use haul_core::source::ScanBatch;
use haul_core::{Error, ErrorKind, Failure, Result, ScanOptions, Side, Source};
use haul_wire::{FrameKind, Response, ScanPart, check, encode};

use crate::reply::ReplyDuty;

/// Entries in a part, and their weight in bytes, at which it is sent.
const PART_LEN: usize = check::PART_LEN;
const PART_WEIGHT: usize = check::PART_WEIGHT;
/// A heavier entry is reported as an error: it would not fit into a frame.
const ENTRY_WEIGHT: usize = 3 * 1024 * 1024;
/// A slow walk sends a part at least this often.
const PART_TIME: Duration = Duration::from_millis(50);
/// The walk waits while this many parts are not acknowledged.
const PARTS_KEPT: u64 = 24;

/// A walk, the parts of it that are not acknowledged, and the requests for later parts.
pub(crate) struct ServedScan {
    state: Mutex<ScanState>,
    room: Condvar,
}

struct ScanState {
    collecting: ScanBatch,
    /// The entries that the walk still expects.
    expected: Option<u64>,
    weight: usize,
    last_cut: Instant,
    /// The number of parts so far.
    cut: u64,
    /// Parts before this one have arrived.
    acked: u64,
    /// Frames of parts, kept to be sent again.
    ready: BTreeMap<u64, Arc<Vec<u8>>>,
    waiting: HashMap<u64, Vec<ReplyDuty>>,
    /// The number of all parts, once the walk has ended.
    total: Option<u64>,
    cancelled: bool,
}

impl ServedScan {
    /// Starts the walk.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(crate) fn start(source: Arc<dyn Source>, options: ScanOptions) -> Result<Arc<Self>> {
        let scan = Arc::new(Self {
            state: Mutex::new(ScanState {
                collecting: ScanBatch::default(),
                expected: None,
                weight: 0,
                last_cut: Instant::now(),
                cut: 0,
                acked: 0,
                ready: BTreeMap::new(),
                waiting: HashMap::new(),
                total: None,
                cancelled: false,
            }),
            room: Condvar::new(),
        });
        let walk = scan.clone();
        thread::Builder::new()
            .name("haul-scan".to_owned())
            .spawn(move || {
                let result = source.scan(&options, &|found| walk.found(found));
                walk.finish(result);
            })
            .map_err(|error| Error::io(Side::Local, "start a thread", &error))?;
        Ok(scan)
    }

    /// Answers with a part, now or as soon as there is one.
    pub(crate) fn next(&self, part: u64, acked: u64, reply: ReplyDuty) {
        let mut state = self.state.lock();
        if acked > state.acked {
            state.acked = acked;
            state.ready = state.ready.split_off(&acked);
            self.room.notify_all();
        }
        if let Some(frame) = state.ready.get(&part) {
            let frame = frame.clone();
            drop(state);
            reply.send_frame(&frame);
        } else if state.cancelled {
            drop(state);
            reply.send(&Response::Done);
        } else if state.total.is_some_and(|total| part >= total) {
            drop(state);
            reply.send(&nothing_more());
        } else {
            state.waiting.entry(part).or_default().push(reply);
        }
    }

    /// Ends the walk and answers all requests that wait.
    pub(crate) fn cancel(&self) {
        let waiting = {
            let mut state = self.state.lock();
            state.cancelled = true;
            state.ready.clear();
            self.room.notify_all();
            std::mem::take(&mut state.waiting)
        };
        for reply in waiting.into_values().flatten() {
            reply.send(&Response::Done);
        }
    }

    fn found(&self, found: ScanBatch) -> ControlFlow<()> {
        let mut parts = Vec::new();
        {
            let mut state = self.state.lock();
            state.expected = found.expected;
            state.collecting.excluded += found.excluded;
            for left in found.left_out {
                state.weight += 32 + left.path.as_bytes().len();
                state.collecting.left_out.push(left);
                parts.extend(state.cut_if_full());
            }
            for failure in found.errors {
                state.weight += 256 + failure.path.as_bytes().len();
                state.collecting.errors.push(failure);
                parts.extend(state.cut_if_full());
            }
            for entry in found.entries {
                let weight = entry.weight();
                if weight > ENTRY_WEIGHT {
                    let why = "its extended attributes are larger than the protocol allows";
                    let error = Error::new(ErrorKind::Unsupported, Side::Source, "list", why);
                    let path = entry.path;
                    state.collecting.errors.push(Failure { error: error.on(path.as_bytes()), path });
                } else {
                    state.weight += weight;
                    state.collecting.entries.push(entry);
                }
                parts.extend(state.cut_if_full());
            }
            // The first part goes at once, so that the first files are copied while the walk goes on.
            if state.cut == 0 || state.last_cut.elapsed() >= PART_TIME {
                parts.extend(state.cut());
            }
        }
        for (number, found) in parts {
            self.publish(number, &Response::Scan(ScanPart { found, last: false }));
        }
        let state = self.state.lock();
        let full = |state: &mut ScanState| !state.cancelled && state.cut > state.acked + PARTS_KEPT;
        let state = self.room.wait_while(state, full);
        if state.cancelled { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn finish(&self, result: Result<()>) {
        let (number, found) = {
            let mut state = self.state.lock();
            let number = state.cut;
            state.cut += 1;
            state.total = Some(state.cut);
            (number, std::mem::take(&mut state.collecting))
        };
        let response = match result {
            Ok(()) => Response::Scan(ScanPart { found, last: true }),
            Err(error) => Response::Failed(error),
        };
        self.publish(number, &response);
        let beyond: Vec<ReplyDuty> = {
            let mut state = self.state.lock();
            std::mem::take(&mut state.waiting)
                .into_iter()
                .flat_map(|(part, replies)| {
                    if part > number {
                        replies
                    } else {
                        state.waiting.insert(part, replies);
                        Vec::new()
                    }
                })
                .collect()
        };
        for reply in beyond {
            reply.send(&nothing_more());
        }
    }

    /// Keeps a part and answers the requests that wait for it.
    fn publish(&self, number: u64, response: &Response) {
        let frame = encode(FrameKind::Response, 0, response, 0).or_else(|_| {
            let why = "a part of the list is larger than the protocol allows";
            let error = Error::new(ErrorKind::Unsupported, Side::Source, "list", why);
            encode(FrameKind::Response, 0, &Response::Failed(error), 0)
        });
        let Ok(frame) = frame.map(Arc::new) else { return };
        let waiting = {
            let mut state = self.state.lock();
            if state.cancelled {
                return;
            }
            state.ready.insert(number, frame.clone());
            state.waiting.remove(&number).unwrap_or_default()
        };
        for reply in waiting {
            reply.send_frame(&frame);
        }
    }
}

impl ScanState {
    fn cut_if_full(&mut self) -> Option<(u64, ScanBatch)> {
        let len = self.collecting.entries.len() + self.collecting.errors.len();
        if len >= PART_LEN || self.weight >= PART_WEIGHT { self.cut() } else { None }
    }

    fn cut(&mut self) -> Option<(u64, ScanBatch)> {
        self.last_cut = Instant::now();
        self.weight = 0;
        let mut found = std::mem::take(&mut self.collecting);
        if found == ScanBatch::default() {
            return None;
        }
        found.expected = self.expected;
        let number = self.cut;
        self.cut += 1;
        Some((number, found))
    }
}

/// The answer to a request for a part after the last one.
fn nothing_more() -> Response {
    Response::Scan(ScanPart { found: ScanBatch::default(), last: true })
}
