//! The contract of a sink, carried out at an SFTP server.

use haul_core::policy::{self, Verdict};
use haul_core::{
    Answer, BatchData, Changes, Compare, Error, ErrorKind, FinishReport, HardLink, Offer, Outcome, RelPath,
    Result, Sink, SinkCaps, SkipReason, WriteDone,
};

use super::compare::{SftpEntry, may_be_one_file};
use super::conn::Conn;
use super::kept;
use super::large;
use super::meta::MetaChange;
use super::offer;
use super::packet::{self, SftpRequest};
use super::pipeline::Pipeline;
use super::remove;
use super::reply::{Fault, lost, unless_lost};
use super::small::{self, Small, is_small};
use super::state::SftpSink;
use super::stream;
use super::tree::is_dir;

impl SftpSink {
    fn write_all(&self, data: &BatchData) -> Vec<Result<Outcome>> {
        let conn = match self.tree.pool().pick() {
            Ok(conn) => conn,
            Err(error) => return vec![Err(error); data.slices.len()],
        };
        let mut outcomes: Vec<Option<Result<Outcome>>> = Vec::with_capacity(data.slices.len());
        let mut small: Vec<Small<'_>> = Vec::new();
        let mut places = Vec::new();
        let mut used = 0;
        for (at, ((entry, slice), read)) in data.batch.iter().zip(&data.slices).enumerate() {
            outcomes.push(None);
            let read = match read {
                Ok(read) => read,
                Err(error) => {
                    outcomes[at] = Some(Err(error.clone()));
                    continue;
                }
            };
            let len = read.data_len() as usize;
            let content = data.content.bytes().get(used..used + len).unwrap_or_default();
            used += len;
            if let Err(error) = self.check(entry) {
                outcomes[at] = Some(Err(error));
            } else if entry.is_stream() && read.same_len() > 0 {
                outcomes[at] = Some(stream::compare(self, entry, slice, read));
            } else if !data.at_hand && !read.proves(entry, slice, content) {
                let cause = format!("slice {} did not arrive as it was sent", slice.index);
                let error = self.tree.fault(ErrorKind::Corrupt, "verify", &entry.path, &cause);
                outcomes[at] = Some(Err(error));
            } else if is_small(entry) {
                small.push(Small { entry, data: read, content });
                places.push(at);
            } else {
                outcomes[at] = Some(match self.large_files.get(&entry.path) {
                    Some(large) => large
                        .end_at(entry)
                        .and_then(|()| large::write(self, &conn, &large, slice, read, content)),
                    None => {
                        let cause = "nothing of it is under way any more";
                        Err(self.tree.fault(ErrorKind::Busy, "write", &entry.path, cause))
                    }
                });
            }
        }
        for (at, outcome) in places.into_iter().zip(small::write(self, &conn, &small)) {
            outcomes[at] = Some(outcome);
        }
        let missing = || Err(lost(&self.tree.pool().name(), "an answer is missing"));
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
    }

    /// Makes hard links under staging names and renames them into place. One answer for each.
    fn make_links(&self, conn: &Conn, links: &[PendingLink<'_>]) -> Result<Vec<Result<Answer>>> {
        if !conn.server.hardlink {
            let cause = "the server makes no hard links";
            let refuse = |pending: &PendingLink<'_>| {
                Err(self.tree.fault(ErrorKind::Unsupported, "link", &pending.link.entry.path, cause))
            };
            return Ok(links.iter().map(refuse).collect());
        }
        let mut pipeline = Pipeline::new(conn);
        let mut parts = Vec::with_capacity(links.len());
        for PendingLink { link, replaces_dir, .. } in links {
            let path = &link.entry.path;
            let part = self.stage(path);
            if *replaces_dir {
                pipeline.ask(&SftpRequest::Rmdir { path: &self.tree.remote(path) });
            }
            pipeline.ask(&SftpRequest::Hardlink { of: &self.tree.remote(&link.to), path: part.remote() });
            self.ask_publish(&mut pipeline, conn, part.remote(), path);
            // To rename one name of a file to another name of the same file leaves both.
            pipeline.ask(&SftpRequest::Remove { path: part.remote() });
            parts.push(part);
        }
        let mut made = Vec::with_capacity(links.len());
        for (PendingLink { link, replaces_dir, changes }, part) in links.iter().zip(parts) {
            if *replaces_dir {
                let _removed = pipeline.next_reply();
            }
            let linked = pipeline.next_reply().ok();
            let published = self.take_publish(&mut pipeline, conn);
            let _removed = pipeline.next_reply();
            match unless_lost(linked.and(published))? {
                Ok(()) => {
                    part.done();
                    made.push(Ok(Answer::Made(*changes)));
                }
                Err(_) if *replaces_dir => made.push(Err(self.tree.not_empty(&link.entry.path))),
                Err(fault) => made.push(Err(self.tree.error("link", &link.entry.path, fault))),
            }
        }
        Ok(made)
    }

    /// How the entry that has the name of `link` differs.
    fn link_changes(&self, link: &HardLink, now: Option<&packet::Attrs>) -> Changes {
        offer::changes(&self.options, &link.entry, now, &Verdict::Differs)
    }

    /// Compares a further name of a file. `None`: the link has to be created.
    fn compare_link(
        &self,
        link: &HardLink,
        found: &AttrsReply,
        target: &AttrsReply,
    ) -> Option<Result<Answer>> {
        let entry = &*link.entry;
        if let Err(error) = self.check(entry) {
            return Some(Err(error));
        }
        let found = match found {
            Ok(found) => found,
            Err(fault) => return Some(Err(self.tree.error("look at", &entry.path, fault.clone()))),
        };
        let no_first_name =
            || Some(Err(Error::no_first_name(self.tree.side).on(self.tree.remote(&entry.path))));
        let Ok(Some(target)) = target else {
            if self.options.dry_run {
                return Some(Ok(Answer::Made(self.link_changes(link, found.as_ref()))));
            }
            return no_first_name();
        };
        if is_dir(target) && !self.options.dry_run {
            return no_first_name();
        }
        match found {
            Some(now) if self.options.compare == Compare::Metadata => Some(kept::answer(self, entry, now)),
            Some(now) if self.options.links_by_metadata() && may_be_one_file(now, target) => {
                Some(Ok(Answer::Same))
            }
            Some(_) if self.options.ignore_existing => Some(Ok(Answer::Left(SkipReason::Exists))),
            Some(now)
                if policy::is_newer(
                    &self.options,
                    entry,
                    &SftpEntry { options: &self.options, attrs: now },
                ) =>
            {
                Some(Ok(Answer::Left(SkipReason::Newer)))
            }
            None if self.options.existing => Some(Ok(Answer::Left(SkipReason::Missing))),
            now if self.options.dry_run => Some(Ok(Answer::Made(self.link_changes(link, now.as_ref())))),
            _ => None,
        }
    }
}

/// A hard link to make.
struct PendingLink<'a> {
    link: &'a HardLink,
    /// Whether a directory has its name.
    replaces_dir: bool,
    /// How the entry that has its name differs.
    changes: Changes,
}

type AttrsReply = Result<Option<packet::Attrs>, Fault>;

impl Sink for SftpSink {
    fn caps(&self) -> SinkCaps {
        SinkCaps {
            durable: self.tree.pool().server().is_ok_and(|server| server.fsync),
            growing: true,
            // A server reports a name that it cannot create as a plain failure.
            stages: false,
            // While one thread waits for a handle or for the last answers, another one fills the connection.
            writers_per_stream: 2,
            ..SinkCaps::default()
        }
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        offer::answer(self, offers)
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        self.tree.pool().want();
        let outcomes = self.write_all(&data);
        drop(data);
        done(outcomes);
    }

    fn flush(&self) {
        // A write returns only when its content is durable.
    }

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        let mut gone = Vec::new();
        for large in paths.iter().filter_map(|path| self.large_files.take(path)) {
            large::close_journal(&large);
            gone.extend([large.part.clone(), large.journal.clone()]);
        }
        self.remove_all(&gone)
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        let names: Vec<RelPath> = links.iter().map(|link| link.entry.path.clone()).collect();
        let targets: Vec<RelPath> = links.iter().map(|link| link.to.clone()).collect();
        let looked = self.tree.look(&names)?;
        let found = self.tree.look(&targets)?.found;
        let mut answers: Vec<Option<Result<Answer>>> = links
            .iter()
            .zip(looked.found.iter().zip(&found))
            .map(|(link, (there, target))| self.compare_link(link, there, target))
            .collect();
        let open: Vec<usize> = (0..links.len()).filter(|at| answers[*at].is_none()).collect();
        if open.is_empty() {
            return Ok(answers.into_iter().flatten().collect());
        }
        let mode = self.first_dir_mode(None);
        self.tree.make_dirs(&looked.lacking.into_iter().collect(), &|_| mode)?;
        let made = self.tree.pool().on_one(|conn| {
            let pending: Vec<PendingLink<'_>> = open
                .iter()
                .map(|at| PendingLink {
                    link: &links[*at],
                    replaces_dir: matches!(&looked.found[*at], Ok(Some(now)) if is_dir(now)),
                    changes: self
                        .link_changes(&links[*at], looked.found[*at].as_ref().ok().and_then(Option::as_ref)),
                })
                .collect();
            self.make_links(conn, &pending)
        })?;
        for (at, answer) in open.into_iter().zip(made) {
            answers[at] = Some(answer);
        }
        Ok(answers.into_iter().flatten().collect())
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        if self.options.dry_run {
            return Ok(paths.iter().map(|_| Ok(())).collect());
        }
        remove::remove(&self.tree, paths)
    }

    fn finish(&self) -> Result<FinishReport> {
        if !self.options.dry_run {
            let left = self.take_left();
            self.remove_all(&left)?;
            self.dirs.finish(&|entries| {
                let paths: Vec<RelPath> = entries.iter().map(|entry| entry.path.clone()).collect();
                let found = self.tree.look(&paths)?.found;
                let changes: Vec<MetaChange<'_>> = entries
                    .iter()
                    .zip(found)
                    .filter_map(|(entry, found)| {
                        let now = found.ok()??;
                        let wish = self.wish_of_dir(entry, &now);
                        let change = MetaChange { entry, wish, now: Some(now) };
                        (!wish.is_met_by(&now, entry)).then_some(change)
                    })
                    .collect();
                self.set_all(&changes).map(drop)
            })?;
        }
        Ok(FinishReport { notes: self.notes.all() })
    }

    fn is_held_by_iops(&self) -> bool {
        self.tree.pool().is_held_by_iops()
    }

    fn streams(&self) -> u32 {
        self.tree.pool().streams()
    }
}
