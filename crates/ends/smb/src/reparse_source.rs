//! Reads reparse points, and tells them as entries.

use haul_core::entry::Xattr;
use haul_core::{Entry, EntryKind, ErrorKind, RelPath, Result};
use serde_bytes::ByteBuf;

use super::attrs::Attrs;
use super::entries::{REPARSE, entry_of};
use super::names::from_wire;
use super::reparse::ReparsePoint;
use super::reply::{Fault, nonsense};
use super::step::{ChainStep, LOOK, OpenedKind};
use super::tree::Tree;

/// The permissions of every link.
const LINK_MODE: u32 = 0o777;

/// The directory that a value of [`REPARSE`] begins with if the reparse point is one, and the file.
const KINDS: [u8; 2] = *b"fd";

/// A reparse point as an attribute.
fn kept(point: &ReparsePoint, is_dir: bool) -> Xattr {
    let value = [&[KINDS[usize::from(is_dir)]], point.bytes()].concat();
    (ByteBuf::from(REPARSE), ByteBuf::from(value))
}

/// The reparse point that a value of [`REPARSE`] tells, and whether it is a directory.
pub(super) fn of_kept(value: &[u8]) -> Option<(ReparsePoint, bool)> {
    let (kind, bytes) = value.split_first()?;
    let is_dir = KINDS.iter().position(|known| known == kind)? == 1;
    Some((ReparsePoint::parse(bytes).filter(ReparsePoint::is_whole)?, is_dir))
}

impl Tree {
    /// The reparse point at a path on the share.
    pub(super) async fn reparse_point(&self, remote: &str) -> Result<ReparsePoint, Fault> {
        let open = ChainStep::open(remote, OpenedKind::Any, LOOK);
        let replies = self.run(&[open, ChainStep::reparse_point(), ChainStep::close()]).await?;
        replies.opened()?;
        let bytes = replies.controlled(1)?;
        ReparsePoint::parse(&bytes).ok_or_else(|| nonsense("it is no reparse point").into())
    }

    /// The target of a symbolic link as other systems have it. `None` for any other reparse point.
    pub(super) fn target(&self, point: &ReparsePoint) -> Option<Vec<u8>> {
        let target = point.relative_target()?;
        let map = self.smb.server.login.options.map_names;
        let names: Vec<Vec<u8>> = target.split('\\').map(|name| from_wire(name, map)).collect();
        Some(names.join(&b'/'))
    }

    /// The entries of reparse points with these attributes.
    ///
    /// # Errors
    /// If the server cannot be reached any more.
    pub(super) fn reparse_entries(
        &self,
        found: Vec<(RelPath, Attrs)>,
    ) -> Result<Vec<(RelPath, Result<Entry>)>> {
        let read = self.smb.all(&found, async |(path, _): &(RelPath, Attrs)| {
            self.reparse_point(&self.remote(path)?).await
        })?;
        let mut entries = Vec::with_capacity(found.len());
        for ((path, attrs), read) in found.into_iter().zip(read) {
            let entry = match read {
                Ok(point) => self.reparse_entry(&path, &attrs, &point),
                Err(Fault::Failed(error)) if error.kind() == ErrorKind::Unreachable => return Err(error),
                Err(fault) => Err(self.error("read the link", &path, fault)),
            };
            entries.push((path, entry));
        }
        Ok(entries)
    }

    fn reparse_entry(&self, path: &RelPath, attrs: &Attrs, point: &ReparsePoint) -> Result<Entry> {
        let refused = |cause: &str| self.fault(ErrorKind::Unsupported, "copy", path, cause);
        if self.links.are_followed() {
            let cause = format!("{}, and haul follows none on a share", point.describe());
            return Err(refused(&cause).with_hint("without --copy-links, haul copies the link itself"));
        }
        if self.keeps_reparse_points && point.is_whole() {
            // The sink compares and makes it by the attribute. The target is for those who read it, and --safe-links
            // judges by it: one that is not known to be relative is told as absolute.
            let target = self.target(point).unwrap_or_else(|| point.absolute_target().into_bytes());
            let mut entry = entry_of(self, path, attrs, EntryKind::Symlink(target), LINK_MODE);
            entry.xattrs.push(kept(point, attrs.is_dir_point()));
            return Ok(entry);
        }
        if let Some(target) = self.target(point) {
            let entry = entry_of(self, path, attrs, EntryKind::Symlink(target), LINK_MODE);
            // Linux keeps no such attributes of links.
            return Ok(Entry { xattrs: Vec::new(), ..entry });
        }
        let why = match (point.is_whole(), point.is_device()) {
            (true, _) => "only a share can hold it",
            (false, true) => "haul copies no devices from a share",
            (false, false) => "its content is elsewhere on the server",
        };
        Err(refused(&format!("{}: {why}", point.describe())))
    }
}
