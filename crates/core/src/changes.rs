//! Which attributes of an entry differ from those at the destination.

use std::ops::{BitOr, BitOrAssign};

use serde::{Deserialize, Serialize};

/// A set of attributes.
///
/// ```
/// use haul_core::Changes;
///
/// let changes = Changes::SIZE | Changes::TIME;
/// assert!(changes.has(Changes::TIME) && !changes.has(Changes::MODE));
/// assert_eq!(changes.words().collect::<Vec<_>>(), ["size", "time"]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "u16")]
pub struct Changes(u16);

impl Changes {
    /// No attribute, or none is known.
    pub const NONE: Self = Self(0);
    /// The destination has no entry of that name.
    pub const NEW: Self = Self(1);
    /// The destination has another kind of entry.
    pub const KIND: Self = Self(1 << 1);
    /// The content of a file, by its digest; the target of a symbolic link; the number of a device.
    pub const CONTENT: Self = Self(1 << 2);
    /// The length of a file.
    pub const SIZE: Self = Self(1 << 3);
    /// The modification time.
    pub const TIME: Self = Self(1 << 4);
    /// The permission bits.
    pub const MODE: Self = Self(1 << 5);
    /// The owner.
    pub const OWNER: Self = Self(1 << 6);
    /// The group.
    pub const GROUP: Self = Self(1 << 7);
    /// A POSIX ACL.
    pub const ACL: Self = Self(1 << 8);
    /// Another extended attribute.
    pub const XATTR: Self = Self(1 << 9);
    /// Which other names the file has (hard links). Only told with [`crate::Compare::Metadata`].
    pub const LINKS: Self = Self(1 << 10);

    const WORDS: [(Self, &'static str); 11] = [
        (Self::NEW, "new"),
        (Self::KIND, "kind"),
        (Self::CONTENT, "content"),
        (Self::SIZE, "size"),
        (Self::TIME, "time"),
        (Self::MODE, "mode"),
        (Self::OWNER, "owner"),
        (Self::GROUP, "group"),
        (Self::ACL, "acl"),
        (Self::XATTR, "xattr"),
        (Self::LINKS, "links"),
    ];

    /// Whether it has all of the attributes `of`.
    #[must_use]
    pub fn has(self, of: Self) -> bool {
        self.0 & of.0 == of.0
    }

    /// The set, or nothing unless `holds`.
    #[must_use]
    pub fn when(self, holds: bool) -> Self {
        if holds { self } else { Self::NONE }
    }

    /// The set without the attributes `of`.
    #[must_use]
    pub fn without(self, of: Self) -> Self {
        Self(self.0 & !of.0)
    }

    /// Whether it has no attribute.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The attributes as words, in a fixed order.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        Self::WORDS.into_iter().filter(move |(one, _)| self.has(*one)).map(|(_, word)| word)
    }
}

impl BitOr for Changes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Changes {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl From<u16> for Changes {
    /// Bits that mean nothing are dropped: a remote end may send any.
    fn from(bits: u16) -> Self {
        let known = Self::WORDS.into_iter().filter(|(one, _)| one.0 & bits != 0);
        known.fold(Self::NONE, |all, (one, _)| all | one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_bits_are_dropped() {
        let all = Changes::from(u16::MAX);
        assert_eq!(all.words().count(), 11);
        assert_eq!(Changes::from(all.0), all);
        assert_eq!(Changes::from(1 << 15), Changes::NONE);
    }
}
