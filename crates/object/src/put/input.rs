//! Where a stream comes from: standard input, or a command that is run for it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_core::{Error, ErrorKind, Result, Side};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use super::group::Group;
use crate::pipe;

/// How often it is looked at whether the run is cancelled, while nothing comes.
const LOOK: Duration = Duration::from_millis(100);

/// How long after the end of a stream the run may still be cancelled, before that end counts: Ctrl-C goes to a whole
/// pipeline, and its other end may be gone before haul hears of it.
const SETTLE: Duration = Duration::from_millis(50);

/// How long a command may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// A stream that is read to its end.
pub struct Input {
    file: File,
    child: Option<Child>,
    group: Option<Member>,
    name: String,
    cancel: Arc<AtomicBool>,
}

/// One stream of several.
struct Member {
    group: Arc<Group>,
    /// Nothing came of it.
    empty: bool,
    /// Its end was seen.
    ended: bool,
}

impl Input {
    /// What is already open.
    #[must_use]
    pub fn open(fd: OwnedFd, cancel: Arc<AtomicBool>) -> Self {
        pipe::widen(&fd);
        Self { file: File::from(fd), child: None, group: None, name: "standard input".to_owned(), cancel }
    }

    /// One of several streams that belong together.
    pub(super) fn of_group(fd: OwnedFd, name: &str, group: Arc<Group>, cancel: Arc<AtomicBool>) -> Self {
        pipe::widen(&fd);
        let member = Member { group, empty: true, ended: false };
        Self { file: File::from(fd), child: None, group: Some(member), name: name.to_owned(), cancel }
    }

    /// The output of a command. Its standard error and input are haul's own.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(mut command: Command, name: &str, cancel: Arc<AtomicBool>) -> Result<Self> {
        let failed = |error: &io::Error| Error::io(Side::Source, "run", error).on(name);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| failed(&error))?;
        let Some(stdout) = child.stdout.take() else {
            return Err(failed(&io::Error::other("it has no output")));
        };
        pipe::widen(&stdout);
        let file = File::from(OwnedFd::from(stdout));
        Ok(Self { file, child: Some(child), group: None, name: name.to_owned(), cancel })
    }

    /// Reads some bytes; 0 at the end of the stream.
    ///
    /// # Errors
    /// If it cannot be read, or the run is cancelled.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
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
                // What wrote it may have been interrupted with haul: then this is not the end.
                Ok(0) => return self.wanted("read").map(|()| 0),
                Ok(len) => {
                    if let Some(member) = &mut self.group {
                        member.empty = false;
                    }
                    return Ok(len);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    /// Nothing came for a moment.
    ///
    /// # Errors
    /// If another stream has failed, or the command that was to write has ended.
    fn writer_may_come(&self) -> Result<()> {
        let Some(Member { group, .. }) = &self.group else { return Ok(()) };
        group.check()?;
        let Some(status) = group.ended()? else { return Ok(()) };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let fd = PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::IN);
        // What came between the two looks is read first.
        if poll(&mut [fd], Some(&now)).is_ok_and(|ready| ready > 0) {
            return Ok(());
        }
        let cause = format!("the command that was to write it has ended ({status}) and has not");
        Err(Error::new(ErrorKind::Io, Side::Source, "read", cause).on(&self.name))
    }

    /// # Errors
    /// If the run is cancelled.
    fn wanted(&self, operation: &str) -> Result<()> {
        if !self.cancel.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Cancelled, Side::Local, operation, "interrupted").on(&self.name))
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::io(Side::Source, "read", error).on(&self.name)
    }

    /// Whether what was read is the whole stream: a command must have ended well, and nobody have interrupted what
    /// wrote it. Waits for both.
    ///
    /// # Errors
    /// If it failed, or the run is cancelled.
    pub(super) fn finish(&mut self) -> Result<()> {
        if let Some(member) = &mut self.group {
            if member.empty && !member.group.allows_empty() {
                let error = Error::new(ErrorKind::Io, Side::Source, "put the stream", "it is empty");
                return Err(error.on(&self.name).with_hint("--allow-empty makes an empty object"));
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
                    let cause = format!("it failed: {status}");
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
    /// Nobody reads any more.
    fn drop(&mut self) {
        if let Some(member) = self.group.as_ref().filter(|member| !member.ended) {
            member.group.fail(&self.name);
        }
        if let Some(child) = self.child.take() {
            end(child);
        }
    }
}

/// A command that still runs is asked to end, then made to.
pub(super) fn end(mut child: Child) {
    // A shell that ends leaves what it runs behind, so all of them are told.
    for pid in family(child.id()).into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
    let begun = std::time::Instant::now();
    while begun.elapsed() < GRACE {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// A process and all below it, as far as the kernel lists children.
fn family(root: u32) -> Vec<i32> {
    let mut all: Vec<i32> = i32::try_from(root).into_iter().collect();
    let mut at = 0;
    while let Some(pid) = all.get(at) {
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        at += 1;
    }
    all
}
