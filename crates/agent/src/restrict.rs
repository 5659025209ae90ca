//! A remote end that is confined to one directory and some kinds of access: `haul agent --root DIR`, as a forced
//! command in `authorized_keys`.
//!
//! No request of the local end widens the restriction: a session opens everything through [`OpenEnds`], which knows
//! only the directory. A restricted session neither listens for direct connections nor makes them.

use std::path::PathBuf;
use std::sync::Arc;

use haul_core::probe::{ProbeResult, ProbeTask};
use haul_core::{
    Answer, BatchData, BufferPool, Changes, Compare, Error, ErrorKind, FinishReport, HardLink, Offer, Ops,
    Place, RelPath, Result, Side, Sink, SinkCaps, SinkOptions, SkipReason, Source, SourceOptions, WriteDone,
};
use haul_local::ConfinedDir;

use crate::comparing::CompareOnly;
use crate::ends::OpenEnds;

/// The rights of a session in its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    All,
    /// Read.
    Read,
    /// Read, and create entries that do not exist.
    Append,
    /// Everything but remove entries.
    NoDelete,
}

/// A directory and the access to it.
#[derive(Clone, Debug)]
pub struct Restriction {
    /// The directory.
    pub root: PathBuf,
    /// The access.
    pub access: Access,
}

/// Checks that the local end asked sshd for haul: a forced command runs in place of the requested one.
///
/// # Errors
/// [`ErrorKind::PermissionDenied`] if it asked for another command.
pub(crate) fn check_command() -> Result<()> {
    let Some(asked) = std::env::var_os("SSH_ORIGINAL_COMMAND") else { return Ok(()) };
    let asked = asked.to_string_lossy();
    if asked.split_whitespace().next_back() == Some("agent") {
        return Ok(());
    }
    let cause = "this login serves haul alone (a forced command, haul agent --root)";
    Err(Error::new(ErrorKind::PermissionDenied, Side::Local, "run the command", cause).on(asked.as_bytes()))
}

/// The ends of a restricted session.
pub(crate) struct RestrictedEnds {
    directory: ConfinedDir,
    access: Access,
    source: Arc<Ops>,
    sink: Arc<Ops>,
}

impl RestrictedEnds {
    /// Opens the directory.
    ///
    /// # Errors
    /// If it does not exist or is not a directory.
    pub(crate) fn open(restriction: &Restriction) -> Result<Self> {
        let directory = ConfinedDir::open(&restriction.root)?;
        Ok(Self { directory, access: restriction.access, source: Arc::default(), sink: Arc::default() })
    }
}

fn refused(operation: &str, cause: &str) -> Error {
    Error::new(ErrorKind::PermissionDenied, Side::Destination, operation, cause)
}

impl OpenEnds for RestrictedEnds {
    fn source(&self, place: &Place, options: SourceOptions, pool: &BufferPool) -> Result<Arc<dyn Source>> {
        self.directory.source(place, options, pool, &self.source)
    }

    fn sink(&self, place: &Place, options: &SinkOptions, pool: &BufferPool) -> Result<Arc<dyn Sink>> {
        if options.compare == Compare::Metadata {
            let look = SinkOptions {
                dry_run: true,
                in_place: false,
                backup: None,
                references: haul_core::References::default(),
                ..options.clone()
            };
            return Ok(Arc::new(CompareOnly(self.directory.sink(place, &look, true, pool, &self.sink)?)));
        }
        match self.access {
            Access::Read => {
                let cause = "this login may only read (haul agent --read-only)";
                Err(refused("write to", cause).on(&place.path))
            }
            Access::All | Access::NoDelete => self.directory.sink(place, options, false, pool, &self.sink),
            Access::Append => {
                let look = SinkOptions { dry_run: true, in_place: false, ..options.clone() };
                let add = SinkOptions { ignore_existing: true, in_place: false, ..options.clone() };
                Ok(Arc::new(Adding {
                    there: self.directory.sink(place, &look, true, pool, &self.sink)?,
                    inner: self.directory.sink(place, &add, true, pool, &self.sink)?,
                }))
            }
        }
    }

    fn limit(&self, iops: Option<u64>) {
        self.source.limit(iops);
        self.sink.limit(iops);
    }

    fn probe(&self, task: &ProbeTask) -> Result<ProbeResult> {
        match task {
            ProbeTask::Clock | ProbeTask::Work => {
                haul_probe::run(task, &|_| Err(refused("look at", "it is not asked for")))
            }
            ProbeTask::Read { .. } | ProbeTask::Write { .. } | ProbeTask::Facts { .. } => {
                Err(refused("measure", "this login is confined to a directory (haul agent --root)"))
            }
        }
    }

    fn is_restricted(&self) -> bool {
        true
    }

    fn may_remove(&self, of: Side) -> Result<()> {
        let cause = match self.access {
            Access::All => return Ok(()),
            Access::Read => "this login may only read (haul agent --read-only)",
            Access::Append => "this login may only add (haul agent --append-only)",
            Access::NoDelete => "this login may not remove (haul agent --no-delete)",
        };
        Err(refused("remove", cause).with_side(of))
    }
}

/// A sink that creates missing entries and changes nothing else. Its answers come from a dry run; the inner sink
/// guarantees that nothing is replaced, as it renames with `RENAME_NOREPLACE`.
struct Adding {
    /// Changes nothing.
    there: Arc<dyn Sink>,
    inner: Arc<dyn Sink>,
}

impl Adding {
    fn exists(&self, path: &RelPath) -> Error {
        refused("change", "it is there and differs; this login may only add (haul agent --append-only)")
            .on(path.as_bytes())
    }
}

impl Sink for Adding {
    fn caps(&self) -> SinkCaps {
        // Nothing is replaced, so there is nothing to compare pages with.
        SinkCaps { delta: false, ..self.inner.caps() }
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        let seen = self.there.offer(offers)?;
        let is_new = |answer: &Result<Answer>| match answer {
            Ok(Answer::Made(_)) => true,
            Ok(Answer::Need { changes, .. }) => changes.has(Changes::NEW),
            _ => false,
        };
        let new: Vec<Offer> = offers
            .iter()
            .zip(&seen)
            .filter(|(_, seen)| is_new(seen))
            .map(|(offer, _)| offer.clone())
            .collect();
        let mut added = self.inner.offer(&new)?.into_iter();
        let answer = |(offer, seen): (&Offer, Result<Answer>)| match seen {
            seen if is_new(&seen) => match added.next() {
                // Another process created the entry meanwhile.
                Some(Ok(Answer::Left(SkipReason::Exists))) | None => Err(self.exists(&offer.entry.path)),
                Some(answer) => answer,
            },
            // Adding entries changes the times of a directory.
            Ok(Answer::Updated(_)) if offer.entry.is_dir() => Ok(Answer::Left(SkipReason::Exists)),
            Ok(Answer::Updated(_) | Answer::Need { .. }) => Err(self.exists(&offer.entry.path)),
            other => other,
        };
        Ok(offers.iter().zip(seen).map(answer).collect())
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        self.inner.write(data, done);
    }

    fn flush(&self) {
        self.inner.flush();
    }

    fn hung(&self, timeout: std::time::Duration) -> Vec<haul_core::HungOperation> {
        self.inner.hung(timeout)
    }

    fn is_held_by_iops(&self) -> bool {
        self.inner.is_held_by_iops()
    }

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        self.inner.discard(paths)
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        let answers = self.inner.link(links)?;
        let answer = |(link, answer): (&HardLink, Result<Answer>)| match answer {
            Ok(Answer::Left(SkipReason::Exists)) => Err(self.exists(&link.entry.path)),
            other => other,
        };
        Ok(links.iter().zip(answers).map(answer).collect())
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        Ok(paths
            .iter()
            .map(|path| Err(refused("remove", "this login may only add").on(path.as_bytes())))
            .collect())
    }

    fn finish(&self) -> Result<FinishReport> {
        self.inner.finish()
    }
}
