//! Which metadata of the source the destination takes over (`--no-owner` and the like). The rest is neither compared
//! nor set.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::changes::Changes;
use crate::entry::{Entry, EntryKind, Xattr};

/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;
/// The bits for which the umask decides.
const ACCESS: u32 = 0o777;

/// Which metadata is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preserve {
    /// The owner.
    pub owner: bool,
    /// The group.
    pub group: bool,
    /// The permission bits.
    pub perms: bool,
    /// The modification and access times.
    pub times: bool,
    /// Those of directories too; only with [`Preserve::times`].
    pub dir_times: bool,
    /// Those of symbolic links too; only with [`Preserve::times`].
    pub link_times: bool,
    /// POSIX ACLs. They grant permissions: without [`Preserve::perms`] they are not taken over either.
    pub acls: bool,
    /// Other extended attributes.
    pub xattrs: bool,
}

impl Default for Preserve {
    fn default() -> Self {
        Self {
            owner: true,
            group: true,
            perms: true,
            times: true,
            dir_times: true,
            link_times: true,
            acls: true,
            xattrs: true,
        }
    }
}

impl Preserve {
    /// Nothing is taken over.
    pub const NOTHING: Self = Self {
        owner: false,
        group: false,
        perms: false,
        times: false,
        dir_times: false,
        link_times: false,
        acls: false,
        xattrs: false,
    };

    /// Whether the times of an entry of this kind are taken over.
    #[must_use]
    pub fn has_times(&self, kind: &EntryKind) -> bool {
        let of_kind = match kind {
            EntryKind::Dir => self.dir_times,
            EntryKind::Symlink(_) => self.link_times,
            _ => true,
        };
        self.times && of_kind
    }

    /// Whether the attribute is taken over, by its name.
    #[must_use]
    pub fn has_xattr(&self, name: &[u8]) -> bool {
        let is_taken_over = if is_acl(name) { self.acls && self.perms } else { self.xattrs };
        is_taken_over && !name.starts_with(RESERVED_XATTRS)
    }

    /// Owner and group of an entry whose own are `wanted`, where the destination has or gives `there`.
    #[must_use]
    pub fn ids(&self, wanted: (u32, u32), there: (u32, u32)) -> (u32, u32) {
        (if self.owner { wanted.0 } else { there.0 }, if self.group { wanted.1 } else { there.1 })
    }

    /// The mode of an entry that gets the owner and group `ids` in place of `wanted`. A file has no set-ID bits that
    /// would act for another owner than at the source.
    #[must_use]
    pub fn mode(&self, entry: &Entry, wanted: (u32, u32), ids: (u32, u32)) -> u32 {
        if self.perms && ids != wanted && !entry.is_dir() { entry.mode & !SET_ID } else { entry.mode }
    }

    /// The mode of a new entry: that of the source within `allowed`, the permissions that the umask or the default ACL
    /// of the directory leaves.
    #[must_use]
    pub fn new_mode(entry: &Entry, allowed: u32) -> u32 {
        entry.mode & ACCESS & allowed
    }

    /// The mode of a file that replaces one with the mode `there`.
    #[must_use]
    pub fn replacing_mode(there: u32) -> u32 {
        there & !SET_ID
    }

    /// The entry with `mode` in place of its own, if permissions are not taken over.
    #[must_use]
    pub fn with_mode<'a>(&self, entry: &'a Entry, mode: impl FnOnce() -> u32) -> Cow<'a, Entry> {
        if self.perms { Cow::Borrowed(entry) } else { Cow::Owned(Entry { mode: mode(), ..entry.clone() }) }
    }

    /// Whether some attributes are taken over.
    #[must_use]
    pub fn has_any_xattr(&self) -> bool {
        self.xattrs || self.acls && self.perms
    }

    /// Whether the ACLs and the other attributes `there` differ from the `wanted` ones, as far as they are taken over.
    /// Both lists have the same order.
    #[must_use]
    pub fn xattr_changes(&self, there: &[Xattr], wanted: &[&Xattr]) -> Changes {
        let differ = |acls: bool| {
            let wanted = wanted.iter().copied().filter(|(name, _)| is_acl(name) == acls);
            !self.xattrs_of(there).filter(|(name, _)| is_acl(name) == acls).eq(wanted)
        };
        Changes::ACL.when(differ(true)) | Changes::XATTR.when(differ(false))
    }

    /// Those of the attributes that are taken over.
    pub fn xattrs_of<'a>(&self, all: &'a [Xattr]) -> impl Iterator<Item = &'a Xattr> {
        let preserve = *self;
        all.iter().filter(move |(name, _)| preserve.has_xattr(name))
    }
}

/// The prefix of attributes that mean nothing outside of haul: no file gets them from a copy.
pub const RESERVED_XATTRS: &[u8] = b"user.haul.";

fn is_acl(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::RelPath;

    #[test]
    fn times_may_be_left_out_by_kind() {
        let kinds = [EntryKind::Dir, EntryKind::Symlink(Vec::new()), EntryKind::File, EntryKind::Fifo];
        let all = Preserve::default();
        for (preserve, has) in [
            (all, [true; 4]),
            (Preserve { dir_times: false, ..all }, [false, true, true, true]),
            (Preserve { link_times: false, ..all }, [true, false, true, true]),
            (Preserve { times: false, ..all }, [false; 4]),
        ] {
            assert_eq!(kinds.clone().map(|kind| preserve.has_times(&kind)), has, "{preserve:?}");
        }
    }

    fn entry(kind: EntryKind) -> Entry {
        Entry { mode: 0o6755, uid: 5, gid: 6, ..Entry::new(RelPath::root(), kind, 0) }
    }

    #[test]
    fn metadata_not_taken_over_stays_as_it_is() {
        let all = Preserve::default();
        assert_eq!(all.ids((5, 6), (1, 2)), (5, 6));
        assert_eq!(Preserve { owner: false, ..all }.ids((5, 6), (1, 2)), (1, 6));
        assert_eq!(Preserve { group: false, ..all }.ids((5, 6), (1, 2)), (5, 2));
        let file = entry(EntryKind::File);
        assert_eq!(all.with_mode(&file, || 0o600).mode, 0o6755);
        assert_eq!(Preserve { perms: false, ..all }.with_mode(&file, || 0o600).mode, 0o600);
        assert_eq!(Preserve::new_mode(&file, 0o750), 0o750);
        assert_eq!(Preserve::replacing_mode(0o4640), 0o640);
    }

    #[test]
    fn set_id_bits_act_for_nobody_else() {
        let all = Preserve::default();
        let (file, dir) = (entry(EntryKind::File), entry(EntryKind::Dir));
        assert_eq!(all.mode(&file, (5, 6), (5, 6)), 0o6755);
        assert_eq!(all.mode(&file, (5, 6), (0, 6)), 0o755);
        assert_eq!(all.mode(&dir, (5, 6), (0, 0)), 0o6755);
        let kept = Preserve { perms: false, ..all };
        assert_eq!(kept.mode(&file, (5, 6), (0, 0)), 0o6755, "it is the mode of the existing file");
    }

    #[test]
    fn acls_and_other_attributes_differ_for_themselves() {
        let pair = |name: &[u8]| (serde_bytes::ByteBuf::from(name), serde_bytes::ByteBuf::new());
        let (acl, user) = (pair(b"system.posix_acl_access"), pair(b"user.x"));
        let all = Preserve::default();
        let there = [acl.clone(), user.clone()];
        assert_eq!(all.xattr_changes(&there, &[&acl, &user]), Changes::NONE);
        assert_eq!(all.xattr_changes(&there, &[&acl]), Changes::XATTR);
        assert_eq!(all.xattr_changes(&there, &[&user]), Changes::ACL);
        assert_eq!(Preserve { acls: false, ..all }.xattr_changes(&there, &[&user]), Changes::NONE);
    }

    #[test]
    fn attributes_and_acls_are_dropped_by_name() {
        let pair = |name: &[u8]| (serde_bytes::ByteBuf::from(name), serde_bytes::ByteBuf::new());
        let names = [&b"security.capability"[..], b"system.posix_acl_access", b"user.x"];
        let entry = Entry { xattrs: names.map(pair).to_vec(), ..entry(EntryKind::File) };
        let left = |preserve: Preserve| preserve.xattrs_of(&entry.xattrs).count();
        let all = Preserve::default();
        assert_eq!(left(all), 3);
        assert_eq!(left(Preserve { acls: false, ..all }), 2);
        assert_eq!(left(Preserve { perms: false, ..all }), 2);
        assert_eq!(left(Preserve { xattrs: false, ..all }), 1);
        assert!(!Preserve { perms: false, xattrs: false, ..all }.has_any_xattr());
    }
}
