//! What is let through of what a source tells: nothing that no file system could have told, and nothing that gives rights
//! which the source is not trusted with.

use haul_core::sync::Mutex;
use std::collections::BTreeMap;

use haul_core::event::Action;
use haul_core::{Entry, EntryKind, Error, ErrorKind, MetaNote, Side};

use crate::copy::Run;

/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;

/// What is taken over from the source, besides plain files, folders and links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Character and block devices are made.
    pub devices: bool,
    /// Files get set-ID bits, and the attributes that give rights.
    pub set_ids: bool,
    /// Symbolic links may point outside of the tree.
    pub outside_links: bool,
}

impl Default for Trust {
    fn default() -> Self {
        Self { devices: true, set_ids: true, outside_links: true }
    }
}

/// Sifts the entries of one source, and counts what it leaves out.
#[derive(Default)]
pub(crate) struct Sift {
    trust: Trust,
    left_out: Mutex<BTreeMap<&'static str, MetaNote>>,
}

impl Sift {
    pub(crate) fn new(trust: Trust) -> Self {
        Self { trust, left_out: Mutex::default() }
    }

    /// What was left out, once for each kind.
    pub(crate) fn left_out(&self) -> Vec<MetaNote> {
        self.left_out.lock().values().cloned().collect()
    }

    fn note(&self, what: &'static str, cause: &str, entry: &Entry) {
        let mut left_out = self.left_out.lock();
        let note = left_out.entry(what).or_insert_with(|| MetaNote {
            what: what.to_owned(),
            cause: cause.to_owned(),
            count: 0,
            example: entry.path.clone(),
        });
        note.count += 1;
    }

    /// The entry as it may be copied. `None` if it is left out.
    fn sift(&self, mut entry: Entry) -> Option<Entry> {
        let is_device = matches!(entry.kind, EntryKind::CharDevice(_) | EntryKind::BlockDevice(_));
        if is_device && !self.trust.devices {
            self.note("devices", "--devices makes them", &entry);
            return None;
        }
        if let EntryKind::Symlink(target) = &entry.kind
            && !self.trust.outside_links
            && leads_outside(&entry, target)
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
            entry.xattrs.retain(|(name, _)| !gives_rights(name));
            if entry.xattrs.len() < before {
                let what = "attributes that give rights (security.capability, trusted.*)";
                self.note(what, "--suid keeps them", &entry);
            }
        }
        Some(entry)
    }
}

impl Run<'_> {
    /// The entry as it may be copied. What is left out, and what is refused, has been counted.
    pub(crate) fn sifted(&self, entry: Entry) -> Option<Entry> {
        if let Err(why) = entry.check() {
            let error = Error::new(ErrorKind::Unsupported, Side::Source, "copy", why);
            self.meter.fail(&entry.path, error.on(entry.path.as_bytes()));
            return None;
        }
        let (path, len) = (entry.path.clone(), entry.len);
        let sifted = self.sift.sift(entry);
        if sifted.is_none() {
            self.meter.totals().left += 1;
            self.meter.entry(Action::Left, &path, len);
        }
        sifted
    }
}

/// File capabilities are set-ID bits by another name, and what `trusted.*` means is between root and the kernel.
fn gives_rights(name: &[u8]) -> bool {
    name == b"security.capability" || name.starts_with(b"trusted.")
}

/// Whether a link leads out of the tree by its words, as rsync's `--safe-links` has it: an absolute one does, and one that
/// goes up more folders than there are above it at any point.
fn leads_outside(entry: &Entry, target: &[u8]) -> bool {
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
    fn devices_and_rights_are_left_out_counted_and_named_once() {
        let sift = Sift::new(Trust { devices: false, set_ids: false, outside_links: true });
        for path in ["a", "b"] {
            assert!(sift.sift(entry(path, EntryKind::CharDevice(259))).is_none());
            let mut file = entry(path, EntryKind::File);
            let names = [&b"user.x"[..], b"security.capability", b"trusted.overlay.opaque"];
            file.xattrs = names.iter().map(|name| (name.to_vec().into(), Vec::new().into())).collect();
            let file = sift.sift(file).unwrap();
            assert_eq!((file.mode, file.xattrs.len()), (0o755, 1));
        }
        // What is made in such a folder gets its group: no rights for anybody.
        assert_eq!(sift.sift(entry("d", EntryKind::Dir)).unwrap().mode, 0o6755);
        let notes = sift.left_out();
        assert_eq!(notes.len(), 3);
        assert!(notes.iter().all(|note| note.count == 2 && note.example.as_bytes() == b"a"));
        let all = Sift::default();
        assert_eq!(all.sift(entry("a", EntryKind::File)).unwrap().mode, 0o6755);
        assert!(all.sift(entry("a", EntryKind::BlockDevice(1))).is_some() && all.left_out().is_empty());
    }

    #[test]
    fn links_lead_outside_as_rsync_has_it() {
        let outside = |path: &str, target: &str| {
            let link = entry(path, EntryKind::Symlink(target.as_bytes().to_vec()));
            leads_outside(&link, target.as_bytes())
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
