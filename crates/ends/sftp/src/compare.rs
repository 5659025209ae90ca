//! Is it there already?

use haul_core::{Compare, Entry, EntryKind, Left, Offer, SinkOptions, Timestamp};

use super::meta::seconds;
use super::packet::Attrs;
use super::tree::{DIR, FILE, KIND, LINK};

/// What there is to be done about an entry, seen from its content.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing of that name.
    Missing,
    /// The same content.
    Same,
    /// Something else: other content, or another kind of thing.
    Differs,
    /// An option says to leave it.
    Left(Left),
    /// It depends on where the link points.
    Target,
    /// It depends on the digest of what is there.
    Digest,
}

/// Compares an offered entry with `now`, what is at its place.
pub(super) fn compare(options: &SinkOptions, offer: &Offer, now: Option<&Attrs>) -> Verdict {
    let entry = &*offer.entry;
    let Some(now) = now else {
        return if options.existing { Verdict::Left(Left::Missing) } else { Verdict::Missing };
    };
    let kind = now.mode.map(|mode| mode & KIND);
    if entry.is_dir() && kind == Some(DIR) {
        return Verdict::Same;
    }
    if options.ignore_existing {
        return Verdict::Left(Left::Exists);
    }
    match &entry.kind {
        EntryKind::File if kind == Some(FILE) => same_file(options, offer, entry, now),
        EntryKind::Symlink(_) if kind == Some(LINK) => Verdict::Target,
        EntryKind::Fifo if kind == Some(0o010_000) => Verdict::Same,
        EntryKind::Socket if kind == Some(0o140_000) => Verdict::Same,
        _ => Verdict::Differs,
    }
}

fn same_file(options: &SinkOptions, offer: &Offer, entry: &Entry, now: &Attrs) -> Verdict {
    let modified = now.times.map(|(_, modified)| modified);
    let whole = |sec: u32| Timestamp { sec: sec.into(), nsec: 0 };
    let same = |modified: u32| options.is_same_time(whole(modified), whole(seconds(entry.mtime)));
    let is_newer = |modified: u32| modified > seconds(entry.mtime) && !same(modified);
    if options.update && modified.is_some_and(is_newer) {
        return Verdict::Left(Left::Newer);
    }
    let same = match options.compare {
        _ if now.size != Some(entry.len) => false,
        Compare::SizeOnly => true,
        Compare::SizeAndTime => modified.is_some_and(same),
        Compare::Checksum if offer.digest.is_some() => return Verdict::Digest,
        Compare::Checksum => false,
    };
    if same { Verdict::Same } else { Verdict::Differs }
}

/// Whether two names may be one file. SFTP does not tell inodes: what one file has only once must be the same.
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
