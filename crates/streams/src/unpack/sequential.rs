//! Unpacks a stream while it passes: from a pipe, which cannot be read at any place, nor again.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::sync::Mutex;
use haul_core::{Error, ErrorKind, FinishReport, Result, Side, Totals};
use haul_members::{IndexFault, MemberHead, MemberWatch, Scanner};

use super::member_files::{FileDone, MemberFiles, SequentialSettings};
use super::scan::refused;
use crate::get::GetStatus;
use crate::put::Input;

/// Bytes read at once, while they are in the cache of the CPU.
const PIECE: usize = 256 << 10;

/// The beginning that tells the format: the first header of tar.
const BEGINNING: usize = 512;

/// The hint of an error within a stream.
pub(super) const KEPT: &str = "the files before this place are complete, and there are no others";

/// A stream that is unpacked while it passes.
pub struct SequentialStream {
    input: Input,
    /// The bytes that were read to recognise the format.
    beginning: Vec<u8>,
    name: String,
}

/// The outcome.
pub struct SequentialOutcome {
    /// The counts.
    pub totals: Totals,
    /// The messages of the sink.
    pub report: FinishReport,
    /// Why the rest of the stream was not unpacked.
    pub ended: Result<()>,
}

/// Shows the members to the files.
struct UnpackWatch(Arc<Mutex<MemberFiles>>);

impl MemberWatch for UnpackWatch {
    fn begins(&mut self, member: u32, head: &MemberHead) {
        self.0.lock().begin(member, head);
    }

    fn content(&mut self, member: u32, start: u64, bytes: &[u8]) {
        self.0.lock().content(member, start, bytes);
    }

    fn ends(&mut self, member: u32, len: u64) {
        self.0.lock().end(member, len);
    }
}

impl SequentialStream {
    /// Reads the beginning of a stream.
    ///
    /// # Errors
    /// `Usage` if it is neither xbstream nor tar, `Io` if it is empty; those of reading.
    pub fn open(fd: OwnedFd, name: &str, cancel: Arc<AtomicBool>) -> Result<Self> {
        let mut input = Input::open(fd, cancel).unscanned();
        let (mut beginning, mut len) = (vec![0; BEGINNING], 0);
        while len < BEGINNING {
            let read = input.read(&mut beginning[len..])?;
            if read == 0 {
                break;
            }
            len += read;
        }
        beginning.truncate(len);
        if beginning.is_empty() {
            return Err(Error::new(ErrorKind::Io, Side::Source, "unpack the stream", "it is empty").on(name));
        }
        let mut scanner = Scanner::default();
        scanner.push(&beginning);
        if scanner.is_known() {
            return Ok(Self { input, beginning, name: name.to_owned() });
        }
        Err(refused(&IndexFault::Unknown, name))
    }

    /// Whether its members have modes, owners and times: it is no xbstream.
    #[must_use]
    pub fn has_metadata(&self) -> bool {
        !self.beginning.starts_with(b"XBSTCK01")
    }

    /// Unpacks it. Files that are not complete do not stay.
    pub fn unpack(
        mut self,
        settings: SequentialSettings,
        status: &GetStatus,
        done: &FileDone<'_>,
    ) -> SequentialOutcome {
        let sink = Arc::clone(&settings.sink);
        let files = Arc::new(Mutex::new(MemberFiles::new(settings)));
        let ended = self.pass(&files, status, done);
        let mut files = files.lock();
        let ended = ended.and_then(|()| files.link());
        if ended.is_err() {
            files.discard();
        }
        files.tell(done);
        let (finished, totals) = (sink.finish(), files.totals());
        match finished {
            Ok(report) => SequentialOutcome { totals, report, ended },
            Err(error) => {
                SequentialOutcome { totals, report: FinishReport::default(), ended: ended.and(Err(error)) }
            }
        }
    }

    /// Reads the stream to its end, and writes all files.
    fn pass(
        &mut self,
        files: &Arc<Mutex<MemberFiles>>,
        status: &GetStatus,
        done: &FileDone<'_>,
    ) -> Result<()> {
        let mut scanner = Scanner::with(Some(Box::new(UnpackWatch(Arc::clone(files)))));
        let mut piece = vec![0; PIECE];
        let beginning = std::mem::take(&mut self.beginning);
        piece[..beginning.len()].copy_from_slice(&beginning);
        let mut len = beginning.len();
        while len > 0 {
            status.written.fetch_add(len as u64, Ordering::Relaxed);
            scanner.push(&piece[..len]);
            let mut files = files.lock();
            files.settle(false)?;
            files.tell(done);
            drop(files);
            if let Some(fault) = scanner.fault() {
                return Err(self.broken(fault));
            }
            len = self.input.read(&mut piece)?;
        }
        scanner.check_end().map_err(|fault| self.broken(&fault))?;
        self.input.finish()?;
        files.lock().settle(true)
    }

    fn broken(&self, fault: &IndexFault) -> Error {
        refused(fault, &self.name).with_hint(KEPT)
    }
}
