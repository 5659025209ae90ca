//! Changes of modes in the language of rsync's `--chmod`.

use crate::entry::{Entry, EntryKind};

/// All permission bits.
const BITS: u32 = 0o7777;

/// The entries that a change is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    All,
    Dirs,
    /// Everything but directories.
    Files,
}

/// One change: the bits of `and` stay, those of `or` are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeChange {
    and: u32,
    or: u32,
    of: Of,
    /// `X`: execute bits are added only to directories, and to files that had one.
    keeps_execute: bool,
}

impl ModeChange {
    /// Reads a list of changes: octal numbers or symbols, each with `D` or `F` before it for directories or files only,
    /// as in `Dg+s,ug+rwX,o-w` or `D2775,F664`. The umask applies to symbols without one of `u`, `g`, `o` and `a`.
    ///
    /// # Errors
    /// The change that is invalid.
    pub fn parse(text: &str, umask: u32) -> Result<Vec<Self>, &str> {
        text.split(',').map(|one| Self::parse_one(one, umask).ok_or(one)).collect()
    }

    fn parse_one(text: &str, umask: u32) -> Option<Self> {
        let bare = text.trim_start_matches(['D', 'F']);
        let of = match &text[..text.len() - bare.len()] {
            "" => Of::All,
            kinds if !kinds.contains('F') => Of::Dirs,
            kinds if !kinds.contains('D') => Of::Files,
            _ => return None,
        };
        if bare.starts_with(|first: char| first.is_ascii_digit()) {
            let mode = u32::from_str_radix(bare, 8).ok().filter(|mode| *mode <= BITS)?;
            return Some(Self { and: 0, or: mode, of, keeps_execute: false });
        }
        let at = bare.find(['+', '-', '='])?;
        let (mut who, mut special) = (0, 0);
        for class in bare[..at].chars() {
            match class {
                'u' => (who, special) = (who | 0o100, special | 0o4000),
                'g' => (who, special) = (who | 0o010, special | 0o2000),
                'o' => who |= 0o001,
                'a' => who |= 0o111,
                // rsync takes the letters for kinds and classes in any order.
                'D' | 'F' => return Self::parse_one(&sorted(text), umask).filter(|_| sorted(text) != text),
                _ => return None,
            }
        }
        let (mut what, mut added, mut keeps_execute) = (0, 0, false);
        for letter in bare[at + 1..].chars() {
            match letter {
                'r' => what |= 4,
                'w' => what |= 2,
                'x' => what |= 1,
                'X' => (what, keeps_execute) = (what | 1, true),
                's' if special > 0 => added |= special,
                's' => added = 0o4000,
                't' => added |= 0o1000,
                _ => return None,
            }
        }
        let bits = if who == 0 { (0o111 * what) & !umask } else { who * what };
        let who = if who == 0 { 0o111 } else { who };
        let (and, or) = match bare.as_bytes()[at] {
            b'+' => (BITS, bits | added),
            b'-' => (BITS & !bits & !added, 0),
            _ => (BITS & !(who * 7) & !(if added > 0 { special } else { 0 }), bits | added),
        };
        Some(Self { and, or, of, keeps_execute })
    }
}

/// The text with the letters for kinds first.
fn sorted(text: &str) -> String {
    let is_kind = |letter: &char| matches!(letter, 'D' | 'F');
    text.chars().filter(is_kind).chain(text.chars().filter(|letter| !is_kind(letter))).collect()
}

/// Changes the mode of an entry, and its ACL as chmod(2) does.
pub fn change_mode(changes: &[ModeChange], entry: &mut Entry) {
    entry.mode = changed_mode(changes, entry);
    for (_, acl) in entry.xattrs.iter_mut().filter(|(name, _)| name[..] == *b"system.posix_acl_access") {
        set_permissions(acl, entry.mode);
    }
}

/// Sets the permissions of an ACL in the format of the kernel (`linux/posix_acl_xattr.h`). Those of the group are the
/// mask, if there is one.
fn set_permissions(acl: &mut [u8], mode: u32) {
    let Some(entries) = acl.get_mut(4..) else { return };
    let has_mask = entries.chunks_exact(8).any(|entry| entry[..2] == [0x10, 0]);
    for entry in entries.chunks_exact_mut(8) {
        let shift = match [entry[0], entry[1]] {
            [0x01, 0] => 6,
            [0x04, 0] if !has_mask => 3,
            [0x10, 0] => 3,
            [0x20, 0] => 0,
            _ => continue,
        };
        entry[2] = (mode >> shift & 7) as u8;
    }
}

/// The mode of an entry after the changes. Symbolic links have none.
fn changed_mode(changes: &[ModeChange], entry: &Entry) -> u32 {
    if matches!(entry.kind, EntryKind::Symlink(_)) {
        return entry.mode;
    }
    let is_executable = entry.mode & 0o111 != 0;
    changes.iter().fold(entry.mode, |mode, change| {
        if change.of == Of::Dirs && !entry.is_dir() || change.of == Of::Files && entry.is_dir() {
            return mode;
        }
        let adds_execute = !change.keeps_execute || is_executable || entry.is_dir();
        (mode & change.and) | if adds_execute { change.or } else { change.or & !0o111 }
    })
}

#[cfg(test)]
mod tests {
    use serde_bytes::ByteBuf;

    use super::*;
    use crate::path::RelPath;

    fn changed(text: &str, kind: EntryKind, mode: u32) -> u32 {
        let entry = Entry { mode, ..Entry::new(RelPath::root(), kind, 0) };
        changed_mode(&ModeChange::parse(text, 0o022).unwrap(), &entry)
    }

    #[test]
    fn changes_are_those_of_rsync() {
        for (text, before, file, dir) in [
            ("u+w", 0o444, 0o644, 0o644),
            ("a=r", 0o777, 0o444, 0o444),
            ("ug=rwX,o=", 0o604, 0o660, 0o770),
            ("ug=rwX,o=", 0o711, 0o770, 0o770),
            ("D2775,F664", 0o600, 0o664, 0o2775),
            ("Dg+s,F-x", 0o755, 0o644, 0o2755),
            ("+w", 0o444, 0o644, 0o644),
            ("=rw", 0o777, 0o644, 0o644),
            ("u-s,g+s", 0o4755, 0o2755, 0o2755),
            ("o+t,-r", 0o644, 0o1200, 0o1200),
            ("0", 0o644, 0, 0),
            ("7777", 0o644, 0o7777, 0o7777),
            ("go-rwx", 0o777, 0o700, 0o700),
            ("gDo=rx", 0o700, 0o700, 0o755),
        ] {
            assert_eq!(changed(text, EntryKind::File, before), file, "{text}");
            assert_eq!(changed(text, EntryKind::Dir, before), dir, "{text}");
        }
        assert_eq!(changed("0", EntryKind::Symlink(Vec::new()), 0o777), 0o777);
        assert_eq!(changed("F=r", EntryKind::Fifo, 0o777), 0o444);
    }

    #[test]
    fn an_acl_gets_the_permissions_of_the_mode() {
        let acl = |group: u8, mask: Option<u8>| {
            let mask = mask.map(|bits| (0x10, bits));
            let entries = [(0x01, 7), (0x02, 6), (0x04, group), (0x20, 5)].into_iter().chain(mask);
            [2, 0, 0, 0]
                .into_iter()
                .chain(entries.flat_map(|(tag, bits)| [tag, 0, bits, 0, 9, 0, 0, 0]))
                .collect()
        };
        let changed = |acl: Vec<u8>| {
            let pair = |name: &[u8], value: Vec<u8>| (ByteBuf::from(name), ByteBuf::from(value));
            let xattrs = vec![pair(b"system.posix_acl_access", acl), pair(b"user.a", vec![2; 20])];
            let mut entry = Entry { mode: 0o775, xattrs, ..Entry::new(RelPath::root(), EntryKind::File, 0) };
            change_mode(&ModeChange::parse("u-w,g-rwx,o=r", 0).unwrap(), &mut entry);
            assert_eq!((entry.mode, &entry.xattrs[1].1), (0o504, &ByteBuf::from([2; 20])));
            entry.xattrs.remove(0).1.into_vec()
        };
        let with = |user: u8, acl: Vec<u8>| {
            let mut acl = acl;
            (acl[6], acl[30]) = (user, 4);
            acl
        };
        assert_eq!(changed(acl(5, Some(7))), with(5, acl(5, Some(0))));
        assert_eq!(changed(acl(7, None)), with(5, acl(0, None)));
        for damaged in [vec![], vec![2], vec![2, 0, 0, 0, 1, 0, 7]] {
            assert_eq!(changed(damaged.clone()), damaged);
        }
    }

    #[test]
    fn invalid_changes_are_named() {
        for bad in ["", "u", "DF644", "u+q", "x+r", "8", "10000", "+r,", "u+r w", "644x", "uD644", "é=r"] {
            assert!(ModeChange::parse(bad, 0).is_err(), "{bad}");
        }
        assert_eq!(ModeChange::parse("u+r,z=,F600", 0), Err("z="));
    }
}
