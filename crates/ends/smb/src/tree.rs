//! Names below a root on the share.
//!
//! A server takes `A` and `a` for one name. So below the root of a source, haul asks for the name as the directory has
//! it, and counts an entry of another spelling as missing. At a destination that entry is the one to compare with.
//! Links are opened as such and never followed.

use std::sync::Arc;

use haul_core::{Error, ErrorKind, Links, Place, PlaceRoot, RelPath, Result, Side};
use haul_ends::folded_names::folded;

use super::attrs::Attrs;
use super::named::{DirectoryEntry, parse};
use super::names::{BadName, check_length, from_wire, to_wire};
use super::reply::{Fault, Replies};
use super::session::Smb;
use super::step::{ChainStep, LIST, LOOK, OpenedKind};

/// Bytes for one name of a directory with its attributes.
const ONE_NAME: u32 = 1024;

/// An entry that the server has or takes for a name.
#[derive(Clone, Copy)]
pub(super) struct ShareEntry {
    pub(super) attrs: Attrs,
    /// Whether it has exactly this name.
    pub(super) is_exact: bool,
}

/// A root on the share.
pub(super) struct Tree {
    pub(super) smb: Arc<Smb>,
    pub(super) side: Side,
    /// How symbolic links are treated.
    pub(super) links: Links,
    /// Whether reparse points are told and made that only a share can hold.
    pub(super) keeps_reparse_points: bool,
    /// The names from the top of the share to the root.
    root: Vec<Vec<u8>>,
}

impl Tree {
    pub(super) fn open(smb: &Arc<Smb>, place: &Place, side: Side) -> Result<Self> {
        let names = place.path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        let root = names.map(<[u8]>::to_vec).collect();
        let smb = Arc::clone(smb);
        let mut tree = Self { smb, side, links: Links::Kept, keeps_reparse_points: false, root };
        if tree.root.iter().any(|name| name == b"..") {
            let error = Error::new(ErrorKind::Usage, side, "read the location", "it has a component `..`");
            return Err(error.on(&place.path));
        }
        match &place.root {
            PlaceRoot::Exactly => {}
            PlaceRoot::Inside(name) => tree.root.push(name.clone()),
            PlaceRoot::InsideIfDir(name) => {
                let root = RelPath::root();
                match tree.smb.one(async { Ok(tree.stat(&root).await) })? {
                    Ok(there) if there.is_dir() => tree.root.push(name.clone()),
                    Ok(_) => {}
                    Err(fault) if fault.is_missing() => {}
                    Err(fault) => return Err(tree.error("look at", &root, fault)),
                }
            }
        }
        Ok(tree)
    }

    /// The whole share.
    pub(super) fn top(&self) -> Self {
        let (smb, keeps_reparse_points) = (Arc::clone(&self.smb), self.keeps_reparse_points);
        Self { smb, side: self.side, links: self.links, keeps_reparse_points, root: Vec::new() }
    }

    /// The path of the root from the top of the share.
    pub(super) fn path_of_root(&self) -> Vec<u8> {
        let mut path = Vec::new();
        for name in &self.root {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() { b"/".to_vec() } else { path }
    }

    /// The path on the share.
    ///
    /// # Errors
    /// `Unsupported` if SMB cannot hold a name.
    pub(super) fn remote(&self, path: &RelPath) -> Result<String> {
        let map = self.smb.server.login.options.map_names;
        let mut remote = String::new();
        for name in self.root.iter().map(Vec::as_slice).chain(path.components()) {
            let name = to_wire(name, map).map_err(|bad| self.bad_name(path, &bad))?;
            if !remote.is_empty() {
                remote.push('\\');
            }
            remote.push_str(&name);
        }
        check_length(&remote).map_err(|bad| self.bad_name(path, &bad))?;
        Ok(remote)
    }

    fn bad_name(&self, path: &RelPath, bad: &BadName) -> Error {
        let error = self.fault(ErrorKind::Unsupported, "name", path, &bad.why);
        if !bad.can_be_mapped {
            return error;
        }
        error.with_hint(
            "--smb-map-names writes it with other characters, as mount.cifs does, and reads it back",
        )
    }

    /// The path on the share of `name` beside `path`.
    pub(super) fn beside(&self, path: &RelPath, name: &[u8]) -> Result<String> {
        let mut remote = self.remote(path)?;
        remote.truncate(remote.rfind('\\').map_or(0, |at| at + 1));
        // Staging names are plain text.
        remote.push_str(&String::from_utf8_lossy(name));
        Ok(remote)
    }

    /// The name under which the entry lies in its directory.
    pub(super) fn name_of<'a>(&'a self, path: &'a RelPath) -> &'a [u8] {
        if path.is_root() { self.root.last().map(Vec::as_slice).unwrap_or_default() } else { path.name() }
    }

    /// The paths on the share of the directories above the root, outermost first.
    pub(super) fn above(&self) -> Result<Vec<String>> {
        let root = self.remote(&RelPath::root())?;
        Ok(root.match_indices('\\').map(|(at, _)| root[..at].to_owned()).collect())
    }

    /// The location of an entry, for messages.
    pub(super) fn shown(&self, path: &RelPath) -> Vec<u8> {
        let mut shown = self.smb.server.login.server.to_string().into_bytes();
        for name in self.root.iter().map(Vec::as_slice).chain(path.components()) {
            shown.push(b'/');
            shown.extend_from_slice(name);
        }
        shown
    }

    /// The error of the server or of the connection for the entry at `path`.
    pub(super) fn error(&self, operation: &str, path: &RelPath, fault: Fault) -> Error {
        fault.error(self.side, operation, &self.shown(path))
    }

    /// An error of haul's own for the entry at `path`.
    pub(super) fn fault(&self, kind: ErrorKind, operation: &str, path: &RelPath, cause: &str) -> Error {
        Error::new(kind, self.side, operation, cause).on(self.shown(path))
    }

    /// Sends a chain, again if a connection is lost.
    pub(super) async fn run(&self, chain: &[ChainStep<'_>]) -> Result<Replies> {
        self.smb.server.run(chain).await
    }

    /// The attributes of the entry at `path`, whatever the spelling of its name.
    pub(super) async fn stat(&self, path: &RelPath) -> Result<Attrs, Fault> {
        self.stat_at(&self.remote(path)?).await
    }

    /// The same for a path on the share.
    pub(super) async fn stat_at(&self, remote: &str) -> Result<Attrs, Fault> {
        let replies = self.run(&[ChainStep::open(remote, OpenedKind::Any, LOOK), ChainStep::close()]).await?;
        Ok(Attrs::from(&replies.opened()?))
    }

    /// The attributes of the entry at `path`, if it has exactly this name.
    pub(super) async fn find(&self, path: &RelPath) -> Result<Option<Attrs>, Fault> {
        Ok(self.look(path).await?.0)
    }

    /// The entry that the server has or takes for this name.
    pub(super) async fn find_any(&self, path: &RelPath) -> Result<Option<ShareEntry>, Fault> {
        match self.look(path).await? {
            (Some(attrs), _) => Ok(Some(ShareEntry { attrs, is_exact: true })),
            (None, false) => Ok(None),
            (None, true) => match self.stat(path).await {
                Ok(attrs) => Ok(Some(ShareEntry { attrs, is_exact: false })),
                Err(fault) if fault.is_missing() => Ok(None),
                Err(fault) => Err(fault),
            },
        }
    }

    /// The entry that has exactly this name, and else whether the server tells one whose name differs in case alone.
    async fn look(&self, path: &RelPath) -> Result<(Option<Attrs>, bool), Fault> {
        let Some(parent) = path.parent() else {
            return match self.stat(path).await {
                Ok(there) => Ok((Some(there), false)),
                Err(fault) if fault.is_missing() => Ok((None, false)),
                Err(fault) => Err(fault),
            };
        };
        let name = to_wire(path.name(), self.smb.server.login.options.map_names)
            .map_err(|bad| self.bad_name(path, &bad))?;
        let chain = [
            ChainStep::open(&self.remote(&parent)?, OpenedKind::Dir, LIST),
            ChainStep::list(smb2::types::FileId::SENTINEL, &name, ONE_NAME),
            ChainStep::close(),
        ];
        let replies = self.run(&chain).await?;
        let told = match replies.opened().and_then(|_| replies.names(1)) {
            Ok(told) => told.unwrap_or_default(),
            Err(fault) if fault.is_missing() => return Ok((None, false)),
            Err(fault) => return Err(fault),
        };
        let told = parse(&told)?;
        let exact = told.iter().find(|found| found.name == *name).map(|found| found.attrs);
        // A server may also tell an entry whose short name this is.
        let is_other = |found: &DirectoryEntry| folded(found.name.as_bytes()) == folded(name.as_bytes());
        Ok((exact, exact.is_none() && told.iter().any(is_other)))
    }

    /// A name that the server sent.
    pub(super) fn name_from(&self, name: &str) -> Vec<u8> {
        from_wire(name, self.smb.server.login.options.map_names)
    }
}
