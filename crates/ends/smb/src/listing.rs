//! Lists directories. Attributes come with the names.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use haul_core::{RelPath, Result, Retry};
use smb2::types::FileId;

use super::conn::Conn;
use super::named::{DirectoryEntry, parse};
use super::reply::{Fault, Replies};
use super::step::{ChainStep, LIST, OpenedKind};
use super::tree::Tree;

/// The most bytes of one answer.
const PAGE: usize = 256 * 1024;
/// How often a listing is begun again after a connection was lost.
const REPEATS: u32 = 4;
/// Names to remember while a directory is listed. A directory with more names cannot be listed again after its
/// connection was lost.
const REMEMBERED: usize = 1 << 20;

/// A directory that is being listed. No name is told twice.
pub(super) struct DirectoryListing<'a> {
    tree: &'a Tree,
    dir: &'a RelPath,
    open: Option<(Arc<Conn>, FileId)>,
    /// Names that were told, by which a listing begins again after its connection was lost.
    told: HashSet<u64>,
    hasher: RandomState,
    repeats: u32,
    ended: bool,
}

impl<'a> DirectoryListing<'a> {
    pub(super) fn new(tree: &'a Tree, dir: &'a RelPath) -> Self {
        let (told, hasher) = (HashSet::new(), RandomState::new());
        Self { tree, dir, open: None, told, hasher, repeats: 0, ended: false }
    }

    /// The next names; `None` if there are no more.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<DirectoryEntry>>, Fault> {
        while !self.ended {
            let mut names = match self.ask().await {
                Ok(names) => names,
                Err(Fault::Failed(error))
                    if error.retry() == Retry::Again
                        && self.repeats < REPEATS
                        && self.told.len() < REMEMBERED =>
                {
                    (self.open, self.repeats) = (None, self.repeats + 1);
                    continue;
                }
                Err(fault) => {
                    self.close();
                    return Err(match fault {
                        Fault::Failed(error) => error.with_retry(Retry::Never).into(),
                        fault @ Fault::Status(_) => fault,
                    });
                }
            };
            let (told, hasher) = (&mut self.told, &self.hasher);
            names.retain(|named| told.len() >= REMEMBERED || told.insert(hasher.hash_one(&named.name)));
            if !names.is_empty() {
                return Ok(Some(names));
            }
        }
        Ok(None)
    }

    /// Asks for some names. A small directory is listed in one frame: the second answer is that there are no more.
    async fn ask(&mut self) -> Result<Vec<DirectoryEntry>, Fault> {
        let server = &self.tree.smb.server;
        let conn = match &self.open {
            Some((conn, _)) => Arc::clone(conn),
            None => server.pick().await?,
        };
        let most = conn.most().min(PAGE) as u32;
        let second = ChainStep::list(FileId::SENTINEL, "*", most);
        let first = match &self.open {
            Some((_, handle)) => {
                let replies =
                    server.run_on(&conn.busy(), &[ChainStep::list(*handle, "*", most), second]).await?;
                return self.take(&replies, 0);
            }
            None => ChainStep::list(FileId::SENTINEL, "*", most),
        };
        let open = ChainStep::open(&self.tree.remote(self.dir)?, OpenedKind::Dir, LIST);
        let replies = server.run_on(&conn.busy(), &[open, first, second]).await?;
        self.open = Some((conn, replies.opened()?.file_id));
        self.take(&replies, 1)
    }

    /// Takes two answers.
    fn take(&mut self, replies: &Replies, first: usize) -> Result<Vec<DirectoryEntry>, Fault> {
        let mut all = Vec::new();
        for at in [first, first + 1] {
            match replies.names(at)? {
                Some(bytes) => all.extend(parse(&bytes)?),
                None => {
                    self.close();
                    break;
                }
            }
        }
        Ok(all)
    }

    /// Ends the listing. Nobody waits for the answer of the server.
    pub(super) fn close(&mut self) {
        self.ended = true;
        if let Some((conn, handle)) = self.open.take() {
            self.tree.smb.server.close_later(conn, handle);
        }
    }
}
