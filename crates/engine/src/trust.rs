//! Rejects entries and attributes that the source is not trusted with, and those that no file system can have.

use haul_core::sync::Mutex;
use std::collections::BTreeMap;

use haul_core::preserve::RESERVED_XATTRS;
use haul_core::{Entry, EntryKind, MetaNote};

/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;

/// The entries and attributes to accept from the source, besides plain files, directories and links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Accept character and block devices.
    pub devices: bool,
    /// Accept set-ID bits of files, and attributes that give privileges.
    pub set_ids: bool,
    /// Accept symbolic links that point outside of the tree.
    pub outside_links: bool,
    /// The destination keeps how a store has encoded a stream.
    pub encodings: bool,
}

impl Default for Trust {
    fn default() -> Self {
        Self { devices: true, set_ids: true, outside_links: true, encodings: true }
    }
}

/// Filters the entries of one source, and counts the rejections.
#[derive(Default)]
pub(crate) struct TrustFilter {
    trust: Trust,
    rejected: Mutex<BTreeMap<&'static str, MetaNote>>,
}

impl TrustFilter {
    pub(crate) fn new(trust: Trust) -> Self {
        Self { trust, rejected: Mutex::default() }
    }

    /// The rejections, one note for each kind.
    pub(crate) fn rejected(&self) -> Vec<MetaNote> {
        self.rejected.lock().values().cloned().collect()
    }

    fn note(&self, what: &'static str, cause: &str, entry: &Entry) {
        let mut rejected = self.rejected.lock();
        let note = rejected.entry(what).or_insert_with(|| MetaNote {
            what: what.to_owned(),
            cause: cause.to_owned(),
            count: 0,
            example: entry.path.clone(),
        });
        note.count += 1;
    }

    /// Notes an entry that is not copied, as another source has the name.
    pub(crate) fn note_overlap(&self, entry: &Entry) {
        self.note("names of several sources", "the entry of another source counts", entry);
    }

    /// The entry without untrusted attributes. `None` if the entry itself is rejected.
    pub(crate) fn admit(&self, mut entry: Entry) -> Option<Entry> {
        let is_device = matches!(entry.kind, EntryKind::CharDevice(_) | EntryKind::BlockDevice(_));
        if is_device && !self.trust.devices {
            self.note("devices", "--devices makes them", &entry);
            return None;
        }
        if let EntryKind::Symlink(target) = &entry.kind
            && !self.trust.outside_links
            && points_outside(&entry, target)
        {
            self.note("links that point outside of the tree", "--safe-links leaves them out", &entry);
            return None;
        }
        if !self.trust.set_ids {
            if entry.is_file() && entry.mode & SET_ID != 0 {
                entry.mode &= !SET_ID;
                self.note("set-ID bits", "--suid keeps them", &entry);
            }
            let before = entry.xattrs.len();
            entry.xattrs.retain(|(name, _)| !gives_privileges(name));
            if entry.xattrs.len() < before {
                let what = "attributes that give rights (security.capability, trusted.*)";
                self.note(what, "--suid keeps them", &entry);
            }
        }
        if !self.trust.encodings {
            let before = entry.xattrs.len();
            entry.xattrs.retain(|(name, _)| !name.starts_with(RESERVED_XATTRS));
            if entry.xattrs.len() < before {
                let cause = "`haul put` compressed or encrypted them, and DST gets the stored bytes: `haul get` decodes";
                self.note("decoding", cause, &entry);
            }
        }
        Some(entry)
    }
}

/// File capabilities act like set-ID bits, and only root and the kernel know the meaning of `trusted.*`.
fn gives_privileges(name: &[u8]) -> bool {
    name == b"security.capability" || name.starts_with(b"trusted.")
}

/// Whether the target of a link is outside of the tree, by the rule of rsync's `--safe-links`: it is absolute, or it
/// goes up beyond the root at any point.
fn points_outside(entry: &Entry, target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") {
        return true;
    }
    let mut depth = entry.path.components().count().saturating_sub(1);
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use haul_core::RelPath;

    use super::*;

    fn entry(path: &str, kind: EntryKind) -> Entry {
        Entry { mode: 0o6755, ..Entry::new(RelPath::new(path.as_bytes()).unwrap(), kind, 0) }
    }

    #[test]
    fn rejected_devices_and_privileges_are_counted_once_for_each_kind() {
        let filter = TrustFilter::new(Trust { devices: false, set_ids: false, ..Trust::default() });
        for path in ["a", "b"] {
            assert!(filter.admit(entry(path, EntryKind::CharDevice(259))).is_none());
            let mut file = entry(path, EntryKind::File);
            let names = [&b"user.x"[..], b"security.capability", b"trusted.overlay.opaque"];
            file.xattrs = names.iter().map(|name| (name.to_vec().into(), Vec::new().into())).collect();
            let file = filter.admit(file).unwrap();
            assert_eq!((file.mode, file.xattrs.len()), (0o755, 1));
        }
        // On a directory the set-group-ID bit sets the group of new entries and gives no privileges.
        assert_eq!(filter.admit(entry("d", EntryKind::Dir)).unwrap().mode, 0o6755);
        let notes = filter.rejected();
        assert_eq!(notes.len(), 3);
        assert!(notes.iter().all(|note| note.count == 2 && note.example.as_bytes() == b"a"));
        let all = TrustFilter::default();
        assert_eq!(all.admit(entry("a", EntryKind::File)).unwrap().mode, 0o6755);
        assert!(all.admit(entry("a", EntryKind::BlockDevice(1))).is_some() && all.rejected().is_empty());
    }

    #[test]
    fn links_point_outside_by_the_rule_of_rsync() {
        let outside = |path: &str, target: &str| {
            let link = entry(path, EntryKind::Symlink(target.as_bytes().to_vec()));
            points_outside(&link, target.as_bytes())
        };
        for (path, target) in
            [("l", "x"), ("a/l", "../x"), ("a/b/l", "../../x"), ("l", "a/../x"), ("l", "./x")]
        {
            assert!(!outside(path, target), "{path} -> {target}");
        }
        for (path, target) in
            [("l", "/x"), ("l", ".."), ("l", "../x"), ("a/l", "../../x"), ("l", ""), ("l", "a/../../x")]
        {
            assert!(outside(path, target), "{path} -> {target}");
        }
    }
}
