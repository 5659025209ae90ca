//! Compares an offered entry with the entry at its place.

use haul_core::policy::{Existing, ExistingKind};
use haul_core::{SinkOptions, Timestamp};

use super::meta::seconds;
use super::packet::Attrs;
use super::tree::{DIR, FILE, KIND, LINK};

/// The entry at the place of an offered one. SFTP has whole seconds, and no device numbers.
pub(super) struct SftpEntry<'a> {
    pub(super) options: &'a SinkOptions,
    pub(super) attrs: &'a Attrs,
}

impl SftpEntry<'_> {
    fn modified(&self) -> Option<u32> {
        self.attrs.times.map(|(_, modified)| modified)
    }
}

impl Existing for SftpEntry<'_> {
    fn kind(&self) -> Option<ExistingKind> {
        Some(match self.attrs.mode? & KIND {
            FILE => ExistingKind::File,
            DIR => ExistingKind::Dir,
            LINK => ExistingKind::Symlink,
            0o010_000 => ExistingKind::Fifo,
            0o140_000 => ExistingKind::Socket,
            0o020_000 => ExistingKind::CharDevice,
            0o060_000 => ExistingKind::BlockDevice,
            _ => return None,
        })
    }

    fn size(&self) -> Option<u64> {
        self.attrs.size
    }

    fn has_time(&self, time: Timestamp) -> bool {
        let whole = |sec: u32| Timestamp { sec: sec.into(), nsec: 0 };
        let is_same = |modified| self.options.is_same_time(whole(modified), whole(seconds(time)));
        self.modified().is_some_and(is_same)
    }

    fn is_newer_than(&self, time: Timestamp) -> bool {
        self.modified().is_some_and(|modified| modified > seconds(time)) && !self.has_time(time)
    }
}

/// Whether two names may be one file. SFTP has no inode numbers, so all attributes of a file must be equal.
pub(super) fn may_be_one_file(one: &Attrs, other: &Attrs) -> bool {
    let modified = |attrs: &Attrs| attrs.times.map(|(_, modified)| modified);
    one.mode.is_some()
        && (one.mode, one.owner, one.size, modified(one))
            == (other.mode, other.owner, other.size, modified(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_file_differ_in_nothing_that_is_told() {
        let one = Attrs { size: Some(1), owner: Some((2, 3)), mode: Some(FILE | 0o644), times: Some((4, 5)) };
        assert!(may_be_one_file(&one, &Attrs { times: Some((9, 5)), ..one }));
        for other in [
            Attrs { size: Some(2), ..one },
            Attrs { owner: Some((2, 4)), ..one },
            Attrs { mode: Some(FILE | 0o600), ..one },
            Attrs { times: Some((4, 6)), ..one },
            Attrs { mode: None, ..one },
        ] {
            assert!(!may_be_one_file(&one, &other), "{other:?}");
        }
    }
}
