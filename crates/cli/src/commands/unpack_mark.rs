//! The mark of a directory that a stream is being unpacked into.

use std::fs::{self, File};
use std::io::{ErrorKind as Io, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_core::{Digest, Error, Result, Side};
use haul_streams::unpack::RESERVED;

use crate::settings::usage;

/// The mark in a directory while a stream is unpacked there: it names the stream.
pub(super) struct Mark {
    path: PathBuf,
    /// Its content.
    state: String,
}

impl Drop for Mark {
    /// A directory into which nothing was unpacked is as it was before.
    fn drop(&mut self) {
        let is_own = fs::read(&self.path).is_ok_and(|found| found == self.state.as_bytes());
        let is_mark = |name: std::io::Result<fs::DirEntry>| name.is_ok_and(|name| name.path() == self.path);
        let names = self.path.parent().and_then(|dir| fs::read_dir(dir).ok());
        if is_own && names.is_some_and(|mut names| names.all(is_mark)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Mark {
    /// Checks that a stream may be unpacked into `dir`, and marks it.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if it is not empty and nothing of this stream was unpacked there; errors of making it.
    pub(super) fn set(dir: &Path, state: &Digest, merge: bool) -> Result<Self> {
        let failed = |error: &std::io::Error| {
            Error::io(Side::Destination, "make", error).on(dir.as_os_str().as_bytes())
        };
        let is_new = !dir.exists();
        fs::create_dir_all(dir).map_err(|error| failed(&error))?;
        let path = dir.join(std::ffi::OsStr::from_bytes(RESERVED));
        let wanted = format!("{state}\n");
        match fs::read(&path) {
            Ok(found) if found == wanted.as_bytes() => return Ok(Self { path, state: wanted }),
            // That of a run that ended before it could write it, and so has unpacked nothing.
            Ok(found) if found.is_empty() => fs::remove_file(&path).map_err(|error| failed(&error))?,
            Ok(_) if !merge => {
                let error = usage(
                    "unpack",
                    "another stream, or an earlier one of this name, was being unpacked there",
                );
                let hint = "finish that run, unpack into another directory, or use --merge";
                return Err(error.on(dir.as_os_str().as_bytes()).with_hint(hint));
            }
            Err(error) if error.kind() != Io::NotFound => return Err(failed(&error)),
            Ok(_) | Err(_) => {}
        }
        if !merge && fs::read_dir(dir).map_err(|error| failed(&error))?.next().is_some() {
            let error = usage("unpack", "the directory is not empty").on(dir.as_os_str().as_bytes());
            return Err(error.with_hint("unpack into another one; --merge replaces files of the same names"));
        }
        // That of another stream; a link of this name is not followed.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != Io::NotFound => return Err(failed(&error)),
            Ok(()) | Err(_) => {}
        }
        // On disk before any unpacked file, so that a crash does not leave files without it.
        let written = File::create_new(&path).and_then(|mut mark| {
            mark.write_all(wanted.as_bytes())?;
            mark.sync_all()?;
            File::open(dir)?.sync_all()
        });
        written.map_err(|error| {
            let _ = fs::remove_file(&path);
            if is_new {
                let _ = fs::remove_dir(dir);
            }
            Error::io(Side::Destination, "write", &error).on(path.as_os_str().as_bytes())
        })?;
        Ok(Self { path, state: wanted })
    }

    /// Whether a stream of this state was being unpacked into `dir`.
    pub(super) fn is_of(dir: &Path, state: &Digest) -> bool {
        let found = fs::read(dir.join(std::ffi::OsStr::from_bytes(RESERVED)));
        found.is_ok_and(|found| found == format!("{state}\n").as_bytes())
    }

    /// Removes the mark: all is there.
    pub(super) fn remove(self) -> Result<()> {
        let failed = |error: &std::io::Error| {
            Error::io(Side::Destination, "remove", error).on(self.path.as_os_str().as_bytes())
        };
        fs::remove_file(&self.path).map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_mark_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let (state, at) = (Digest::of(b"state"), dir.path());
        let mark = at.join(std::ffi::OsStr::from_bytes(RESERVED));
        File::create(&mark).unwrap();
        assert!(Mark::set(at, &state, false).unwrap().remove().is_ok());
        fs::write(&mark, "another").unwrap();
        assert!(Mark::set(at, &state, false).is_err());
        assert_eq!(fs::read(&mark).unwrap(), b"another");
    }
}
