//! The input of a stream: standard input, a named pipe, or the output of a command.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_core::{Digest, Error, ErrorKind, PageChecks, PageReport, Result, Side};
use haul_members::Scanner;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::group::StreamGroup;
use super::pages::StreamPages;
use super::process::{not_started, terminate};
use crate::fifo::widen;
use crate::sha256::StreamSha256;

/// How often cancellation is checked while nothing arrives.
const LOOK: Duration = Duration::from_millis(100);

/// How long after the end of a stream the run may still be cancelled before that end counts. Ctrl-C signals a whole
/// pipeline, and the writer may die before haul handles the signal.
const SETTLE: Duration = Duration::from_millis(50);
/// Bytes that the scanner takes at a time: some pages of a database.
const SCANNED: usize = 128 * 1024;

/// A stream that is read to its end.
pub struct Input {
    file: File,
    child: Option<Child>,
    group: Option<GroupMember>,
    name: String,
    cancel: Arc<AtomicBool>,
    sha256: StreamSha256,
    scanner: Option<Scanner>,
    pages: Option<StreamPages>,
}

/// One stream of a group.
struct GroupMember {
    group: Arc<StreamGroup>,
    /// It was empty so far.
    empty: bool,
    /// It has reached its end.
    ended: bool,
}

impl Input {
    /// Reads an open descriptor.
    #[must_use]
    pub fn open(fd: OwnedFd, cancel: Arc<AtomicBool>) -> Self {
        Self::of(fd, "standard input", cancel)
    }

    fn of(fd: OwnedFd, name: &str, cancel: Arc<AtomicBool>) -> Self {
        widen(&fd);
        Self {
            file: File::from(fd),
            child: None,
            group: None,
            name: name.to_owned(),
            cancel,
            sha256: StreamSha256::default(),
            scanner: Some(Scanner::default()),
            pages: None,
        }
    }

    /// Reads one stream of a group.
    pub(super) fn of_group(
        fd: OwnedFd,
        name: &str,
        group: Arc<StreamGroup>,
        cancel: Arc<AtomicBool>,
    ) -> Self {
        let mut input = Self::of(fd, name, cancel);
        input.group = Some(GroupMember { group, empty: true, ended: false });
        input
    }

    /// Reads the output of a command. Its standard input and standard error are haul's own.
    ///
    /// # Errors
    /// The error of starting it.
    pub fn run(mut command: Command, name: &str, cancel: Arc<AtomicBool>) -> Result<Self> {
        let failed = |error: &io::Error| Error::io(Side::Source, "run", error).on(name);
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| not_started(&command, name, Side::Source, &error))?;
        let Some(stdout) = child.stdout.take() else {
            return Err(failed(&io::Error::other("it has no output")));
        };
        let mut input = Self::of(stdout.into(), name, cancel);
        input.child = Some(child);
        Ok(input)
    }

    /// Hashes the stream by SHA-256 too, if `wanted`.
    #[must_use]
    pub fn hashing(mut self, wanted: bool) -> Self {
        self.sha256 = StreamSha256::new(wanted);
        self
    }

    /// Does not look for members: the caller does.
    pub(crate) fn unscanned(mut self) -> Self {
        self.scanner = None;
        self
    }

    /// Checks the pages of database files in the stream, which is known by this name, if they are `wanted`.
    #[must_use]
    pub fn checking(mut self, wanted: Option<PageChecks>, name: &[u8]) -> Self {
        if let Some(checks) = wanted {
            let (pages, scanner) = StreamPages::new(checks, name);
            (self.pages, self.scanner) = (Some(pages), Some(scanner));
        }
        self
    }

    /// The findings about pages, if they are checked.
    pub(super) fn page_report(&self) -> Option<PageReport> {
        self.pages.as_ref().map(StreamPages::report)
    }

    /// The SHA-256 of the stream.
    #[must_use]
    pub fn sha256(&self) -> Option<Digest> {
        self.sha256.digest()
    }

    /// Takes the scanner, which has the records of the members of the stream.
    pub(super) fn take_scanner(&mut self) -> Scanner {
        self.scanner.take().unwrap_or_default()
    }

    /// Reads some bytes; 0 at the end of the stream.
    ///
    /// # Errors
    /// `Cancelled`, the failure of the group, the error of reading, or `BadPages`.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            self.wanted("read")?;
            let wait = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
            let ready = poll(&mut [PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::IN)], Some(&wait));
            match ready {
                Ok(0) => {
                    self.writer_may_come()?;
                    continue;
                }
                Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(self.failed(&error.into())),
            }
            match self.file.read(buffer) {
                // If the run is cancelled, the writer may have been too: then this is not the end.
                Ok(0) => return self.wanted("read").map(|()| 0),
                Ok(len) => {
                    if let Some(member) = &mut self.group {
                        member.empty = false;
                    }
                    self.sha256.update(&buffer[..len]);
                    self.scan(&buffer[..len])?;
                    return Ok(len);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    /// Shows bytes to the scanner, and checks their pages.
    fn scan(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(scanner) = &mut self.scanner else { return Ok(()) };
        // In steps, so that the check ends soon after the first bad page, however much one read returned.
        for step in bytes.chunks(SCANNED) {
            scanner.push(step);
            if let Some(pages) = &mut self.pages {
                pages.push(scanner, step)?;
            }
        }
        Ok(())
    }

    /// Checks, while nothing arrives, that a writer may still come.
    ///
    /// # Errors
    /// The failure of the group, or that the command has ended.
    fn writer_may_come(&self) -> Result<()> {
        let Some(GroupMember { group, .. }) = &self.group else { return Ok(()) };
        group.check()?;
        let Some(status) = group.ended()? else { return Ok(()) };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let fd = PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::IN);
        // Bytes that arrived since the last poll are read first.
        if poll(&mut [fd], Some(&now)).is_ok_and(|ready| ready > 0) {
            return Ok(());
        }
        let cause = format!("the command that was to write it has ended ({status}) and has not");
        Err(Error::new(ErrorKind::Io, Side::Source, "read", cause).on(&self.name))
    }

    /// # Errors
    /// `Cancelled` if the run is.
    fn wanted(&self, operation: &str) -> Result<()> {
        if !self.cancel.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Cancelled, Side::Local, operation, "interrupted").on(&self.name))
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::io(Side::Source, "read", error).on(&self.name)
    }

    /// Checks that the stream is complete: the command has succeeded and nobody has interrupted the writer. Waits for
    /// both.
    ///
    /// # Errors
    /// `BadPages`, `Cancelled`, or that the command or the group has failed.
    pub fn finish(&mut self) -> Result<()> {
        if let (Some(pages), Some(scanner)) = (&mut self.pages, &self.scanner) {
            pages.finish(scanner)?;
        }
        if let Some(member) = &mut self.group {
            if member.empty && !member.group.allows_empty() {
                let error = Error::new(ErrorKind::Io, Side::Source, "put the stream", "it is empty");
                return Err(error.on(&self.name).with_hint("--allow-empty makes an empty file or object"));
            }
            member.ended = true;
        }
        if let Some(member) = &self.group {
            member.group.finish(&|| self.wanted("run"))?;
        }
        while let Some(child) = &mut self.child {
            let status = child
                .try_wait()
                .map_err(|error| Error::io(Side::Source, "wait for", &error).on(&self.name))?;
            if status.is_some() {
                self.child = None;
            }
            self.wanted("run")?;
            match status {
                Some(status) if !status.success() => {
                    let cause = haul_core::program::ending(status);
                    return Err(Error::new(ErrorKind::Io, Side::Source, "run", cause).on(&self.name));
                }
                Some(_) => {}
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        let ended = std::time::Instant::now();
        while ended.elapsed() < SETTLE {
            self.wanted("read")?;
            std::thread::sleep(Duration::from_millis(5));
        }
        self.wanted("read")
    }
}

impl Drop for Input {
    /// Stops a command whose output nobody reads any more.
    fn drop(&mut self) {
        if let Some(member) = self.group.as_ref().filter(|member| !member.ended) {
            member.group.fail(&self.name);
        }
        if let Some(child) = self.child.take() {
            terminate(child);
        }
    }
}
