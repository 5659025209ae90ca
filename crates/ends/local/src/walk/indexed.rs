//! Directories that are unchanged since an earlier run, listed from the index.

use std::sync::Arc;

use haul_core::filter::DirRules;
use haul_core::{Error, Failure, ScanBatch, Side};
use haul_ends::forecast::ForecastListing;
use haul_index::KnownDir;
use rustix::fs::{Mode, OFlags};

use super::names::{BATCH, Walk};
use super::stack::{Directory, Lookups};
use crate::path::at::{At, Dir};

/// Subdirectories of one directory that one thread looks up: each is listed, too.
const SUBDIRECTORIES: usize = 4;

impl<'a> Walk<'a> {
    /// Hands over the entries of a directory from the index. Only its subdirectories are looked up.
    pub(super) fn list_indexed(
        &self,
        directory: &Directory,
        rules: &DirRules,
        known: &KnownDir<'_>,
        forecast: &mut ForecastListing<'_>,
        batch: &mut ScanBatch,
        call: &dyn Fn(),
    ) -> rustix::io::Result<()> {
        let entries = match known.entries() {
            Ok(entries) => entries,
            Err(error) => {
                batch.errors.push(self.index_failure(directory, &error));
                return Ok(());
            }
        };
        batch.excluded += known.hidden();
        let from_index = || ScanBatch { told: true, ..ScanBatch::default() };
        let mut indexed = from_index();
        let mut part: Option<Lookups<'a>> = None;
        for entry in entries {
            match entry {
                Ok(entry) if entry.is_dir() => {
                    let part = match &mut part {
                        Some(part) => part,
                        None => {
                            let dir = self.hold(&self.at(directory)?)?;
                            let new = Lookups::new(&directory.path, dir, SUBDIRECTORIES, None);
                            part.insert(new.with_rules(rules.clone()))
                        }
                    };
                    forecast.name(self.meet(part, entry.path.name(), batch, call));
                }
                Ok(mut entry) => {
                    let names = self.names.as_ref();
                    entry.names = names.map(|names| Box::new(names.of(entry.uid, entry.gid)));
                    let is_entry = !batch.excludes(self.options, &self.filter, rules, &entry);
                    forecast.name(Some(is_entry));
                    if is_entry {
                        indexed.entries.push(entry);
                    }
                    if indexed.entries.len() >= BATCH {
                        self.visit(std::mem::replace(&mut indexed, from_index()));
                    }
                }
                Err(error) => batch.errors.push(self.index_failure(directory, &error)),
            }
            if self.is_stopped() {
                return Ok(());
            }
        }
        if !indexed.entries.is_empty() {
            self.visit(indexed);
        }
        part.into_iter().for_each(|part| self.put_off(part));
        Ok(())
    }

    fn index_failure(&self, directory: &Directory, error: &std::io::Error) -> Failure {
        let error = Error::io(Side::Local, "read the index", error).on(self.tree.root.shown(&directory.path));
        let error = error.with_hint("leave out --index, or remove the index");
        Failure { path: directory.path.clone(), error }
    }

    /// Holds a directory, to look up names in it.
    fn hold(&self, at: &At) -> rustix::io::Result<Arc<Dir>> {
        let dir = at.open(OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Arc::new(Dir::new(dir, false, &self.tree.root.ops)))
    }
}
