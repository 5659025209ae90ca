//! Times and attributes, as far as SMB has a place for those of the source.

use haul_core::policy::{Existing, ExistingKind};
use haul_core::{Changes, Entry, Preserve, SinkOptions, Timestamp};
use haul_ends::metadata_warnings::MetadataWarnings;

use super::attrs::{ARCHIVE, Attrs, HIDDEN, NORMAL, READONLY, SYSTEM, TIME_UNIT, filetime, timestamp};
use super::descriptor::SecurityDescriptor;
use super::entries::{ATTRIBUTES, CREATION_TIME, REPARSE, SECURITY, STREAM, created, flags, is_link};
use super::login::ShareOptions;
use super::step::ChainStep;
use super::stream_list::kept_name;

/// The permission of the owner to write.
const OWNER_WRITES: u32 = 0o200;

/// The metadata that an entry is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// Times of access and modification; `None`: whatever it has.
    times: Option<(u64, u64)>,
    /// The time of creation; `None`: whatever it has.
    created: Option<u64>,
    /// The attributes to set, of those in `mask`.
    flags: u32,
    /// The attributes that are taken over.
    mask: u32,
}

impl Wish {
    /// The metadata of `entry` that is taken over.
    pub(super) fn of(preserve: &Preserve, share: &ShareOptions, entry: &Entry) -> Self {
        let times = preserve.has_times(&entry.kind).then(|| {
            // 0 leaves the time of access as it is.
            filetime(entry.mtime).map(|modified| (filetime(entry.atime).unwrap_or_default(), modified))
        });
        let kept = if is_link(entry) { Self::default() } else { Self::of_attributes(preserve, share, entry) };
        let mut wish = Self { times: times.flatten(), ..kept };
        if preserve.perms && entry.is_file() {
            wish.mask |= READONLY;
            wish.flags |= if entry.mode & OWNER_WRITES == 0 { READONLY } else { 0 };
        }
        wish
    }

    /// The metadata that a link has before it becomes one. Samba would take it for a file if this were set later.
    pub(super) fn before_link(preserve: &Preserve, share: &ShareOptions, entry: &Entry) -> Self {
        let wish = Self::of_attributes(preserve, share, entry);
        // Samba hides each name that begins with a dot.
        let hidden = if entry.path.name().starts_with(b".") { HIDDEN } else { 0 };
        Self { flags: wish.flags & !hidden, mask: wish.mask & !hidden, ..wish }
    }

    /// The metadata that another share has kept in extended attributes.
    fn of_attributes(preserve: &Preserve, share: &ShareOptions, entry: &Entry) -> Self {
        let kept = |wanted: &[u8]| {
            let kept = entry.xattrs.iter().find(|(name, _)| name[..] == *wanted);
            kept.filter(|(name, _)| preserve.has_xattr(name)).map(|(_, value)| &value[..])
        };
        let created = kept(CREATION_TIME).filter(|_| share.creation_times).and_then(created);
        // A source that is no share tells nothing about these attributes.
        let told = kept(ATTRIBUTES);
        let mask = if told.is_some() { HIDDEN | SYSTEM } else { 0 };
        Self { times: None, created, flags: told.map(flags).unwrap_or_default(), mask }
    }

    /// The parts to set before and after a staged file gets its name. Samba hides names that begin with a dot, and a time of
    /// creation would make that last.
    pub(super) fn around_rename(self) -> (Self, Option<Self>) {
        (Self { created: None, ..self }, self.created.map(|_| self))
    }

    /// The command that sets it on a new entry, or on one with these attributes. `None` if there is nothing to set.
    pub(super) fn step(&self, now: Option<&Attrs>) -> Option<ChainStep<'static>> {
        let attributes = match now {
            None if self.flags == 0 => 0,
            None => self.flags | ARCHIVE,
            Some(now) if now.flags & self.mask == self.flags => 0,
            Some(now) => {
                let settable = READONLY | HIDDEN | SYSTEM | ARCHIVE;
                let all = now.flags & settable & !self.mask | self.flags;
                if all == 0 { NORMAL } else { all }
            }
        };
        let (accessed, modified) = self.times.unwrap_or_default();
        let times = [self.created.unwrap_or_default(), accessed, modified];
        (self.times.is_some() || self.created.is_some() || attributes != 0)
            .then(|| ChainStep::set_basic(times, attributes))
    }

    /// How the existing entry differs.
    pub(super) fn changes(&self, now: &Attrs) -> Changes {
        let differ = now.flags & self.mask ^ self.flags;
        Changes::TIME.when(self.times.is_some_and(|(_, modified)| modified != now.modified))
            | Changes::MODE.when(differ & READONLY != 0)
            | Changes::XATTR.when(differ & (HIDDEN | SYSTEM) != 0)
            | Changes::XATTR.when(self.created.is_some_and(|created| created != now.created))
    }

    /// Whether the existing entry has this metadata.
    pub(super) fn is_met_by(&self, now: &Attrs) -> bool {
        self.changes(now).is_empty()
    }
}

/// Adds warnings for metadata that a share does not keep.
pub(super) fn warn(notes: &MetadataWarnings, entry: &Entry, options: &SinkOptions, share: &ShareOptions) {
    let (path, preserve) = (&entry.path, &options.preserve);
    if preserve.has_times(&entry.kind) && filetime(entry.mtime).is_none() {
        notes.note("times", "SMB has none before 1601 or after 30827", path);
    }
    if preserve.owner || preserve.group {
        notes.note("owners and groups", "haul sets none on a share", path);
    }
    // Files have no permissions of their own there.
    let usual = match (entry.is_dir(), entry.mode & OWNER_WRITES == 0) {
        (true, _) => 0o755,
        (false, false) => 0o644,
        (false, true) => 0o444,
    };
    if preserve.perms && entry.mode != usual && !is_link(entry) {
        notes.note("modes", "a share keeps whether a file may be changed, and no more", path);
    }
    for (name, value) in preserve.xattrs_of(&entry.xattrs) {
        if let Some((what, why)) = unkept(name, value, share) {
            notes.note(what, why, path);
        }
    }
}

/// The metadata that an extended attribute has, and why a share does not keep it; `None` if it does.
fn unkept(name: &[u8], value: &[u8], share: &ShareOptions) -> Option<(&'static str, &'static str)> {
    let stream = name.strip_prefix(STREAM);
    let (what, why) = match name {
        ATTRIBUTES | REPARSE => return None,
        SECURITY if !share.acls => ("security descriptors", Some("--smb-acls sets them")),
        SECURITY => {
            let is_one = SecurityDescriptor::parse(value).is_some();
            ("security descriptors", (!is_one).then_some("the value of user.smb.security is none"))
        }
        CREATION_TIME => {
            let why = (!share.creation_times).then_some("--smb-creation-times sets them");
            ("times of creation", why)
        }
        _ if stream.is_some() && !share.streams => {
            ("alternate data streams", Some("--smb-streams writes them"))
        }
        _ => match stream {
            Some(stream) => ("alternate data streams", kept_name(stream, value).err()),
            None => ("attributes and ACLs", Some("haul sets none on a share")),
        },
    };
    why.map(|why| (what, why))
}

/// The entry at the place of an offered one. SMB keeps times to 100 ns.
pub(super) struct SmbEntry<'a> {
    pub(super) options: &'a SinkOptions,
    pub(super) attrs: &'a Attrs,
}

impl Existing for SmbEntry<'_> {
    fn kind(&self) -> Option<ExistingKind> {
        match (self.attrs.is_dir(), self.attrs.is_reparse_point()) {
            (true, _) => Some(ExistingKind::Dir),
            // The sink compares the points themselves: one that is no symbolic link is never equal to a symbolic link.
            (false, true) => Some(ExistingKind::Symlink),
            (false, false) => Some(ExistingKind::File),
        }
    }

    fn size(&self) -> Option<u64> {
        Some(self.attrs.len)
    }

    fn has_time(&self, time: Timestamp) -> bool {
        self.options.is_same_time(timestamp(self.attrs.modified), time.cut(TIME_UNIT))
    }

    fn is_newer_than(&self, time: Timestamp) -> bool {
        timestamp(self.attrs.modified) > time && !self.has_time(time)
    }
}

#[cfg(test)]
mod tests {
    use haul_core::{EntryKind, RelPath};
    use serde_bytes::ByteBuf;

    use super::*;

    fn there(flags: u32, modified: u64) -> Attrs {
        Attrs { flags, len: 0, created: 7, modified, accessed: 0, changed: 0 }
    }

    fn file(mode: u32) -> Entry {
        let mtime = Timestamp { sec: 1_700_000_000, nsec: 199 };
        Entry { mode, mtime, ..Entry::new(RelPath::root(), EntryKind::File, 0) }
    }

    #[test]
    fn a_mode_becomes_the_attribute_of_files_that_may_not_be_changed() {
        let (all, none) = (Preserve::default(), ShareOptions::default());
        let time = filetime(file(0).mtime).unwrap();
        let wish = Wish::of(&all, &none, &file(0o444));
        assert!(wish.is_met_by(&there(READONLY | ARCHIVE, time)));
        assert_eq!(wish.changes(&there(ARCHIVE, time)), Changes::MODE);
        assert_eq!(Wish::of(&all, &none, &file(0o644)).changes(&there(READONLY, time)), Changes::MODE);
        let no_modes = Preserve { perms: false, ..all };
        assert!(Wish::of(&no_modes, &none, &file(0o444)).is_met_by(&there(0, time)));
        assert_eq!(Wish::of(&all, &none, &file(0o644)).changes(&there(0, time + 1)), Changes::TIME);
    }

    #[test]
    fn hidden_files_stay_hidden_and_others_are_left_alone() {
        let (all, none) = (Preserve::default(), ShareOptions::default());
        let time = filetime(file(0).mtime).unwrap();
        let hidden = (ByteBuf::from(ATTRIBUTES), ByteBuf::from(b"hidden"));
        let wish = Wish::of(&all, &none, &Entry { xattrs: vec![hidden], ..file(0o644) });
        assert_eq!(wish.changes(&there(SYSTEM, time)), Changes::XATTR);
        assert!(wish.is_met_by(&there(HIDDEN | ARCHIVE, time)));
        assert!(Wish::of(&all, &none, &file(0o644)).is_met_by(&there(HIDDEN, time)));
    }

    #[test]
    fn a_time_of_creation_is_kept_if_the_user_asks_for_it() {
        let (all, time) = (Preserve::default(), filetime(file(0).mtime).unwrap());
        let keeps = ShareOptions { creation_times: true, ..ShareOptions::default() };
        let with = |value: &[u8]| {
            let kept = (ByteBuf::from(CREATION_TIME), ByteBuf::from(value));
            Entry { xattrs: vec![kept], ..file(0o644) }
        };
        let changes =
            |share: &ShareOptions, value: &[u8]| Wish::of(&all, share, &with(value)).changes(&there(0, time));
        assert_eq!((changes(&keeps, b"8"), changes(&keeps, b"7")), (Changes::XATTR, Changes::NONE));
        assert_eq!(changes(&ShareOptions::default(), b"8"), Changes::NONE);
        for bad in [&b"0"[..], b"-1", b"9223372036854775808", b"x", b""] {
            assert_eq!(changes(&keeps, bad), Changes::NONE);
        }
    }

    #[test]
    fn a_link_has_its_attributes_before_it_is_one() {
        let (all, keeps) =
            (Preserve::default(), ShareOptions { creation_times: true, ..ShareOptions::default() });
        let kept = |name: &[u8], value: &[u8]| (ByteBuf::from(name), ByteBuf::from(value));
        let link = |name: &[u8]| Entry {
            kind: EntryKind::Symlink(b"x".to_vec()),
            path: RelPath::new(name).unwrap(),
            xattrs: vec![kept(ATTRIBUTES, b"hidden,system"), kept(CREATION_TIME, b"8")],
            ..file(0o777)
        };
        let time = filetime(file(0).mtime).unwrap();
        assert!(Wish::of(&all, &keeps, &link(b"link")).is_met_by(&there(0, time)));
        let before = Wish::before_link(&all, &keeps, &link(b"link"));
        let other_time = Attrs { created: 8, ..there(HIDDEN | SYSTEM, 5) };
        assert!(before.is_met_by(&other_time) && !before.is_met_by(&Attrs { created: 7, ..other_time }));
        assert!(!before.is_met_by(&Attrs { flags: SYSTEM, ..other_time }));
        // Samba hides it in any case.
        let before = Wish::before_link(&all, &keeps, &link(b".link"));
        assert!(before.is_met_by(&other_time) && before.is_met_by(&Attrs { flags: SYSTEM, ..other_time }));
    }

    #[test]
    fn times_are_compared_to_100_ns() {
        let options = SinkOptions::default();
        let (attrs, entry) = (there(0, filetime(file(0).mtime).unwrap()), file(0o644));
        let existing = SmbEntry { options: &options, attrs: &attrs };
        assert!(existing.has_time(entry.mtime) && !existing.is_newer_than(entry.mtime));
        assert!(!existing.has_time(Timestamp { nsec: 200, ..entry.mtime }));
        assert!(existing.is_newer_than(Timestamp { sec: 0, nsec: 0 }));
    }
}
