//! Where a stream goes on this machine: an open file descriptor, or a file that gets its name at the end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_core::{Digest, Error, ErrorKind, Result, Side};
use rustix::fs::{FlockOperation, flock};

use crate::store::Object;

/// Where the bytes of an object go, in order.
pub struct Output {
    file: File,
    staged: Option<Staged>,
}

/// A file that is not complete.
struct Staged {
    temporary: PathBuf,
    path: PathBuf,
    /// Bytes that an earlier run left.
    there: u64,
}

impl Output {
    /// What is already open, as standard output.
    #[must_use]
    pub fn open(fd: OwnedFd) -> Self {
        crate::pipe::widen(&fd);
        Self { file: File::from(fd), staged: None }
    }

    /// The file at `path`. Until it is complete it has another name beside it, made from its own, the object's mark and
    /// whether it is read `raw`: what an interrupted run left there of the same object is gone on with.
    ///
    /// # Errors
    /// If it cannot be made, or another haul is at work on it.
    pub fn stage(path: &Path, object: &Object, raw: bool) -> Result<Self> {
        let failed = |operation: &str, error: &io::Error| {
            Error::io(Side::Destination, operation, error).on(path.as_os_str().as_bytes())
        };
        let mut name = path.file_name().unwrap_or_default().as_bytes().to_vec();
        name.push(0);
        name.extend_from_slice(object.etag.as_bytes());
        if raw {
            name.extend_from_slice(b"\0raw");
        }
        let digest = Digest::of(&name).to_string();
        let temporary = path.with_file_name(format!(".haul-{}.part", &digest[..16]));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&temporary);
        let file = file.map_err(|error| failed("make", &error))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let error =
                Error::new(ErrorKind::Busy, Side::Destination, "write", "another haul is writing this file");
            return Err(error.on(path.as_os_str().as_bytes()));
        }
        let there = file.metadata().map_err(|error| failed("look at", &error))?.len();
        let there = if there > object.len { 0 } else { there };
        file.set_len(there).map_err(|error| failed("cut", &error))?;
        Ok(Self { file, staged: Some(Staged { temporary, path: path.to_owned(), there }) })
    }

    /// Bytes that an earlier run left of the same object.
    pub(super) fn there(&self) -> u64 {
        self.staged.as_ref().map_or(0, |staged| staged.there)
    }

    /// What an earlier run left is of no use: begins anew.
    ///
    /// # Errors
    /// If the file cannot be cut.
    pub(super) fn restart(&mut self) -> Result<()> {
        let cut = self.file.set_len(0);
        cut.map_err(|error| self.failed("cut", &error))?;
        self.staged.iter_mut().for_each(|staged| staged.there = 0);
        Ok(())
    }

    /// Hands over what an earlier run left, and stands behind it then.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn reread(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut left = self.there();
        let mut buffer = vec![0; if left > 0 { 1 << 20 } else { 0 }];
        while left > 0 {
            let room = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let read = self.file.read(&mut buffer[..room]);
            let read = read.map_err(|error| self.failed("read again", &error))?;
            if read == 0 {
                return Err(self.failed("read again", &io::Error::from(io::ErrorKind::UnexpectedEof)));
            }
            take(&buffer[..read]);
            left -= read as u64;
        }
        Ok(())
    }

    /// Writes the next bytes. `false`: the reader has had enough.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<bool> {
        match self.file.write_all(bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self.staged.is_none() => Ok(false),
            Err(error) => Err(self.failed("write", &error)),
        }
    }

    /// All of it was written and verified: makes it durable and gives a file its name.
    ///
    /// # Errors
    /// If that fails.
    pub(super) fn finish(self) -> Result<()> {
        let Some(staged) = &self.staged else { return Ok(()) };
        let sync = |path: &Path| File::open(path).and_then(|dir| dir.sync_all());
        let parent = staged.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        self.file
            .sync_all()
            .and_then(|()| fs::rename(&staged.temporary, &staged.path))
            .and_then(|()| sync(parent.unwrap_or(Path::new("."))))
            .map_err(|error| self.failed("finish", &error))
    }

    /// What was written is wrong: a file is taken away.
    pub(super) fn discard(&self) {
        if let Some(staged) = &self.staged {
            // If it stays, it is verified again before it gets its name.
            let _ = fs::remove_file(&staged.temporary);
        }
    }

    fn failed(&self, operation: &str, error: &io::Error) -> Error {
        let name =
            self.staged.as_ref().map_or(&b"standard output"[..], |staged| staged.path.as_os_str().as_bytes());
        Error::io(Side::Destination, operation, error).on(name)
    }
}
