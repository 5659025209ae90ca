//! The local output of a stream: an open file descriptor, or a file that is renamed into place when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haul_core::path::printable;
use haul_core::text::bytes;
use haul_core::{Digest, Error, ErrorKind, Result, Side};
use rustix::fs::{FlockOperation, flock};

use haul_object::Object;

use super::settings::Got;
use super::special;
use crate::sha256::StreamSha256;

/// Bytes of one write: they stay in the cache of the CPU while the kernel copies them.
const PIECE: usize = 128 * 1024;

/// Takes the bytes of an object or a file in order.
pub struct ContentOutput {
    /// Dropped before `file`, which has the lock.
    staged: Option<StagedFile>,
    file: File,
    /// For messages.
    name: Vec<u8>,
    /// Nothing was written yet to a terminal, which takes only text.
    takes_text: bool,
    sha256: StreamSha256,
}

/// A file that is not complete.
struct StagedFile {
    temporary: PathBuf,
    path: PathBuf,
    /// Bytes that an earlier run left.
    there: u64,
    /// It was renamed or removed.
    is_gone: bool,
}

impl Drop for StagedFile {
    /// Removes a file without content, which no later run needs.
    fn drop(&mut self) {
        if !self.is_gone && fs::metadata(&self.temporary).is_ok_and(|now| now.len() == 0) {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

impl ContentOutput {
    /// Writes to an open descriptor, such as standard output.
    #[must_use]
    pub fn open(fd: OwnedFd) -> Self {
        crate::fifo::widen(&fd);
        let file = File::from(fd);
        let takes_text = file.is_terminal();
        let name = b"standard output".to_vec();
        Self { file, name, staged: None, takes_text, sha256: StreamSha256::default() }
    }

    /// Writes into the character device or the pipe at `path`; else to a file there. Until it is complete, the file has a
    /// temporary name beside it, which depends on its name, the object's ETag and `raw`: a later run of the same download
    /// resumes it.
    ///
    /// # Errors
    /// The error of opening it, or that another process holds its lock.
    pub fn stage(path: &Path, object: &Object, raw: bool) -> Result<Self> {
        let mut state = object.etag.as_bytes().to_vec();
        if raw {
            state.extend_from_slice(b"\0raw");
        }
        Self::stage_state(path, &state, object.len)
    }

    /// The same for other content of `len` bytes, whose state has this name.
    ///
    /// # Errors
    /// As [`ContentOutput::stage`].
    pub fn stage_state(path: &Path, state: &[u8], len: u64) -> Result<Self> {
        if let Some(fd) = special::open(path)? {
            return Ok(Self { name: path.as_os_str().as_bytes().to_vec(), ..Self::open(fd) });
        }
        let failed = |operation: &str, error: &io::Error| {
            Error::io(Side::Destination, operation, error).on(path.as_os_str().as_bytes())
        };
        let mut name = path.file_name().unwrap_or_default().as_bytes().to_vec();
        name.push(0);
        name.extend_from_slice(state);
        let digest = Digest::of(&name).to_string();
        let temporary = path.with_file_name(format!(".haul-{}.part", &digest[..16]));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&temporary);
        let file = file.map_err(|error| match (error.kind(), path.parent()) {
            (io::ErrorKind::NotFound, Some(parent)) => {
                let parent = printable(parent.as_os_str().as_bytes());
                failed("make", &error).with_hint(format!("make its directory first: mkdir {parent}"))
            }
            _ => failed("make", &error),
        })?;
        // A file that was renamed or removed before this lock is nobody's any more.
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() || !is_named(&file, &temporary) {
            let error =
                Error::new(ErrorKind::Busy, Side::Destination, "write", "another haul is writing this file");
            return Err(error.on(path.as_os_str().as_bytes()));
        }
        let there = file.metadata().map_err(|error| failed("look at", &error))?.len();
        let there = if there > len { 0 } else { there };
        file.set_len(there).map_err(|error| failed("cut", &error))?;
        let name = path.as_os_str().as_bytes().to_vec();
        let staged = Some(StagedFile { temporary, path: path.to_owned(), there, is_gone: false });
        Ok(Self { file, name, staged, takes_text: false, sha256: StreamSha256::default() })
    }

    /// Hashes the content by SHA-256 too, if `wanted`.
    #[must_use]
    pub fn hashing(self, wanted: bool) -> Self {
        Self { sha256: StreamSha256::new(wanted), ..self }
    }

    /// Ends the output after the last write: renames a verified file into place, and removes one whose content is
    /// wrong. Adds the SHA-256 of the output, including the bytes of an earlier run.
    ///
    /// # Errors
    /// That of the get, or of the rename.
    pub(super) fn end(mut self, got: Result<Got>) -> Result<Got> {
        match got {
            Ok(got) => {
                let sha256 = self.sha256.digest();
                if got.checked.is_some() {
                    self.finish()?;
                }
                Ok(Got { sha256, ..got })
            }
            Err(error) => {
                if error.kind() == ErrorKind::Corrupt {
                    self.discard();
                }
                Err(self.naming_rest(error))
            }
        }
    }

    /// The error of a full disk, with the file that fills it.
    fn naming_rest(&self, error: Error) -> Error {
        let Some(staged) = self.staged.as_ref().filter(|_| error.kind() == ErrorKind::NoSpace) else {
            return error;
        };
        let held = self.file.metadata().map_or(0, |now| now.len());
        if held == 0 {
            // It is removed.
            return error;
        }
        let file = printable(staged.temporary.as_os_str().as_bytes());
        error.with_hint(format!(
            "the unfinished file {file} holds {}: the same command resumes it; if it will not run again, remove it",
            bytes(held)
        ))
    }

    /// Bytes that an earlier run left of the same object.
    pub(super) fn there(&self) -> u64 {
        self.staged.as_ref().map_or(0, |staged| staged.there)
    }

    /// Discards the bytes of an earlier run behind the last multiple of `unit` bytes.
    ///
    /// # Errors
    /// The error of truncating the file.
    pub(super) fn align(&mut self, unit: u64) -> Result<()> {
        let there = self.there() / unit * unit;
        if there < self.there() {
            let cut = self.file.set_len(there);
            cut.map_err(|error| self.failed("cut", &error))?;
            self.staged.iter_mut().for_each(|staged| staged.there = there);
        }
        Ok(())
    }

    /// Discards the bytes of an earlier run.
    ///
    /// # Errors
    /// The error of truncating the file.
    pub(super) fn restart(&mut self) -> Result<()> {
        let cut = self.file.set_len(0);
        cut.map_err(|error| self.failed("cut", &error))?;
        self.staged.iter_mut().for_each(|staged| staged.there = 0);
        Ok(())
    }

    /// Passes the bytes of an earlier run to `take`; the file position is behind them afterwards.
    ///
    /// # Errors
    /// The error of reading the file.
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
            self.sha256.update(&buffer[..read]);
            left -= read as u64;
        }
        Ok(())
    }

    /// Writes the next bytes. `false`: the reader has closed the pipe.
    ///
    /// # Errors
    /// The error of writing; [`ErrorKind::Usage`] if content that is no text would go to a terminal.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<bool> {
        if self.takes_text && !bytes.is_empty() {
            if !is_text(bytes) {
                let cause = "it is a terminal, and the content is no text";
                let error = Error::new(ErrorKind::Usage, Side::Local, "write standard output", cause);
                return Err(error.with_hint("give a FILE, or pipe the content into another program"));
            }
            self.takes_text = false;
        }
        let (file, sha256) = (&mut self.file, &mut self.sha256);
        let mut write = |piece: &[u8]| {
            sha256.update(piece);
            file.write_all(piece)
        };
        match bytes.chunks(PIECE).try_for_each(&mut write) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self.staged.is_none() => Ok(false),
            Err(error) => Err(self.failed("write", &error)),
        }
    }

    /// Syncs a complete, verified file and renames it into place.
    ///
    /// # Errors
    /// The error of either.
    fn finish(mut self) -> Result<()> {
        let Some(staged) = &mut self.staged else { return Ok(()) };
        let sync = |path: &Path| File::open(path).and_then(|dir| dir.sync_all());
        let parent = staged.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        self.file
            .sync_all()
            .and_then(|()| fs::rename(&staged.temporary, &staged.path))
            .inspect(|()| staged.is_gone = true)
            .and_then(|()| sync(parent.unwrap_or(Path::new("."))))
            .map_err(|error| self.failed("finish", &error))
    }

    /// Removes a file whose content is wrong.
    fn discard(&mut self) {
        if let Some(staged) = &mut self.staged {
            staged.is_gone = true;
            // If it stays, the next run verifies it again before the rename.
            let _ = fs::remove_file(&staged.temporary);
        }
    }

    fn failed(&self, operation: &str, error: &io::Error) -> Error {
        Error::io(Side::Destination, operation, error).on(&self.name)
    }
}

/// Whether the open file still has this name.
fn is_named(file: &File, name: &Path) -> bool {
    let id = |found: fs::Metadata| (found.dev(), found.ino());
    let (open, named) = (file.metadata().map(id), fs::symlink_metadata(name).map(id));
    open.is_ok_and(|open| named.is_ok_and(|named| open == named))
}

/// Whether the beginning of a stream is text. Its last character may be cut.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0)
        && std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_may_end_within_a_character() {
        let word = "caf\u{e9}".as_bytes();
        assert!(is_text(word) && is_text(&word[..4]) && is_text(b"a\n\x1b[0m"));
        assert!(!is_text(b"a\0b") && !is_text(b"\x28\xb5\x2f\xfd") && !is_text(b"\xe9t\xe9"));
    }
}
