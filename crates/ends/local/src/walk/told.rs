//! What is known from an earlier run.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_core::{Error, Failure, ScanBatch, Side};
use haul_index::Known;
use rustix::fs::{Mode, OFlags};

use super::super::root::{At, Dir};
use super::stack::{Folder, Part};
use super::{BATCH, Walk};

/// Folders of one folder that are looked at by one thread: each is looked into, too.
const FOLDERS: usize = 4;

impl<'a> Walk<'a> {
    /// Tells what is in a folder from the index. Only the folders in it are looked at.
    pub(super) fn tell(
        &self,
        folder: &Folder,
        known: &Known<'_>,
        batch: &mut ScanBatch,
        call: &dyn Fn(),
    ) -> rustix::io::Result<()> {
        let failed = |error: std::io::Error| {
            let error = Error::io(Side::Local, "read the index", &error).on(self.root.shown(&folder.path));
            Failure {
                path: folder.path.clone(),
                error: error.with_hint("leave out --index, or remove the index"),
            }
        };
        let entries = match known.entries() {
            Ok(entries) => entries,
            Err(error) => {
                batch.errors.push(failed(error));
                return Ok(());
            }
        };
        batch.excluded += known.hidden();
        let mut told = ScanBatch { told: true, ..ScanBatch::default() };
        let mut part: Option<Part<'a>> = None;
        for entry in entries {
            match entry {
                Ok(entry) if entry.is_dir() => {
                    let part = match &mut part {
                        Some(part) => part,
                        None => {
                            part.insert(Part::new(&folder.path, self.held(&self.at(folder)?)?, FOLDERS, None))
                        }
                    };
                    self.meet(part, entry.path.name(), batch, call);
                }
                Ok(mut entry) => {
                    let names = self.names.as_ref();
                    entry.names = names.map(|names| Box::new(names.of(entry.uid, entry.gid)));
                    if !self.leaves_out(&entry, batch) {
                        told.entries.push(entry);
                    }
                    if told.entries.len() >= BATCH {
                        let more = ScanBatch { told: true, ..ScanBatch::default() };
                        self.visit(std::mem::replace(&mut told, more));
                    }
                }
                Err(error) => batch.errors.push(failed(error)),
            }
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        if !told.entries.is_empty() {
            self.visit(told);
        }
        part.into_iter().for_each(|part| self.put_off(part));
        Ok(())
    }

    /// A folder, held to look at names in it.
    fn held(&self, at: &At) -> rustix::io::Result<Arc<Dir>> {
        let dir = at.open(OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Arc::new(Dir::new(dir, false, &self.root.ops)))
    }
}
