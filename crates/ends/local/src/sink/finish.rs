//! The end of a run: leftovers are removed, directories get their metadata, and everything is synced.

use haul_core::sync::Mutex;
use std::fs::File;

use haul_core::{Entry, Error, FinishReport, RelPath, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::references::warn_of_missing;
use super::state::LocalSink;
use crate::meta::metadata::ExpectedFile;
use crate::path::at::At;
use crate::path::stat;
use crate::stage::clean::clean;

impl LocalSink {
    pub(super) fn finish_run(&self) -> Result<FinishReport> {
        *self.finished.write() = true;
        self.committer.queue.drain();
        if !self.options.dry_run {
            self.clean();
            self.finish_dirs()?;
            if self.options.durable {
                self.sync_all()?;
            }
            let is_synced = |device| self.options.durable && self.tree().devices.has(device);
            self.committer.unsynced.finish(is_synced);
        }
        warn_of_missing(self);
        Ok(FinishReport { notes: self.metadata().warnings() })
    }

    /// Removes the staged files of complete files. A slice that was sent again may have arrived after its file was
    /// complete, in this process or in an earlier one for the same run.
    fn clean(&self) {
        let slots = std::mem::take(&mut *self.committer.large_files.lock());
        let mut entries = std::mem::take(&mut *self.unclean.lock());
        for slot in slots.into_values() {
            let large = slot.lock().take();
            entries.extend(large.map(|large| large.entry().clone()));
        }
        for entry in entries {
            // Without its times, a file does not show that it is this one.
            let is_complete = |at: &At| {
                stat::statx(at).is_ok_and(|now| self.has_size_and_time(at, &now, &entry))
                    || !self.options.preserve.times && self.was_committed(&entry)
            };
            if let Some(at) = self.root().at(&entry.path).ok().filter(is_complete) {
                clean(&at);
            }
        }
    }

    /// Sets the metadata of all directories. One that fails does not stop the others.
    fn finish_dirs(&self) -> Result<()> {
        let failed = Mutex::new(None);
        let set = |entries: &[Entry]| {
            if let Err(error) = self.set_dirs(entries) {
                failed.lock().get_or_insert(error);
            }
            Ok(())
        };
        self.dirs.finish(&set)?;
        self.tree().unlocked.lock_again(self.root());
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Sets the metadata of some directories, in their order if a mode denies access to the owner.
    fn set_dirs(&self, entries: &[Entry]) -> Result<()> {
        // All are set before the first error is returned.
        if entries.iter().any(|entry| entry.mode & 0o700 != 0o700) {
            let set: Vec<Result<()>> = entries.iter().map(|entry| self.set_dir(entry)).collect();
            return set.into_iter().collect();
        }
        self.committer.threads.each(entries, |entry| self.set_dir(entry)).into_iter().collect()
    }

    fn set_dir(&self, entry: &Entry) -> Result<()> {
        // The device and inode are of the directory here, which was made or compared.
        let expected = ExpectedFile::Inode(entry.dev, entry.ino);
        let at = self.root().at_dir(&entry.path);
        match at.and_then(|at| self.metadata().set_named(&at, expected, entry)) {
            Ok(_) => {
                self.tree().unlocked.settled(&entry.path);
                Ok(())
            }
            // Nothing was written into it, or another program has removed it.
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.root().error("set the metadata of the directory", &entry.path, errno)),
        }
    }

    /// Makes names and directories durable, on every file system below the root.
    fn sync_all(&self) -> Result<()> {
        let root = RelPath::root();
        let failed = |e: std::io::Error| {
            let error = Error::io(self.root().side(), "sync", &e).on(self.root().shown(&root));
            error
                .with_hint("data of another program may be meant, or directories; run the same command again")
        };
        let devices = &self.tree().devices;
        let syncer = &self.committer.syncer;
        devices.each(|handle, device| syncer.names(handle, device)).map_err(failed)?;
        let Ok(at) = self.root().at(&root) else { return Ok(()) };
        let directory = At { dir: at.dir.clone(), name: b".".to_vec() };
        let now = stat::statx(&at).or_else(|_| stat::statx(&directory));
        let device = now.map(|now| stat::device(&now));
        if device.is_ok_and(|device| devices.has(device)) {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = at.open(flags, Mode::empty()).or_else(|_| directory.open(flags, Mode::empty()));
        let opened = File::from(opened.map_err(|errno| failed(errno.into()))?);
        syncer.names(&opened, device.unwrap_or_default()).map_err(failed)
    }
}
