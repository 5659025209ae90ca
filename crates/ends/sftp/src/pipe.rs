//! The pipes of an ssh process. Reads and writes of an abandoned connection end.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// How often a wait for a descriptor checks whether the connection was abandoned.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// When a connection last received bytes, and whether it was abandoned.
#[derive(Debug)]
pub(super) struct Life {
    origin: Instant,
    /// When bytes last arrived, in milliseconds after `origin`.
    heard: AtomicU64,
    /// Whether any bytes have arrived.
    began: AtomicBool,
    ended: AtomicBool,
}

impl Life {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            origin: Instant::now(),
            heard: AtomicU64::new(0),
            began: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Bytes have arrived, or a wait for them begins.
    pub(super) fn heard(&self) {
        self.heard.store(self.now(), Ordering::Relaxed);
    }

    /// Whether bytes came at all.
    pub(super) fn was_heard(&self) -> bool {
        self.began.load(Ordering::Relaxed)
    }

    pub(super) fn silent_for(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.heard.load(Ordering::Relaxed)))
    }

    /// Abandons the connection: its reader and its writer end within a second.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// One end of a pipe.
pub(super) struct PipeEnd {
    file: File,
    life: Arc<Life>,
}

impl PipeEnd {
    pub(super) fn new(fd: OwnedFd, life: Arc<Life>) -> io::Result<Self> {
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        Ok(Self { file: fd.into(), life })
    }

    /// Repeats an attempt until it succeeds, the pipe ends, or the connection is abandoned.
    fn patiently(
        &mut self,
        flags: PollFlags,
        mut attempt: impl FnMut(&mut File) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            if self.life.is_ended() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            match attempt(&mut self.file) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match poll(&mut [PollFd::from_borrowed_fd(self.file.as_fd(), flags)], Some(&LOOK)) {
                        Ok(_) | Err(rustix::io::Errno::INTR) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

impl PipeEnd {
    /// Writes all of both.
    pub(super) fn write_both(&mut self, first: &[u8], second: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < first.len() {
            let written = self.write_vectored(&[IoSlice::new(&first[done..]), IoSlice::new(second)])?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            done += written;
        }
        self.write_all(&second[done - first.len()..])
    }
}

impl Read for PipeEnd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.patiently(PollFlags::IN, |file| file.read(buffer))?;
        self.life.began.store(true, Ordering::Relaxed);
        self.life.heard();
        Ok(read)
    }
}

impl Write for PipeEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.patiently(PollFlags::OUT, |file| file.write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.patiently(PollFlags::OUT, |file| file.write_vectored(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
