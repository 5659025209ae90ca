//! Paths below a root, as bytes.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::push_escaped;

/// The longest valid path in bytes: up to 262,144 nested directories. Linux limits a path in one system call to 4,096
/// bytes, but a tree that is walked with directory handles can be deeper. The bound keeps a hostile peer from taking
/// memory.
pub const MAX_PATH_LEN: usize = 512 * 1024;

/// A path below a root: components of any bytes except NUL, joined by `/`. It is not absolute and has no empty, `.` or
/// `..` component. The empty path is the root.
///
/// So no value of this type leads out of the root by its components. Code that opens a path makes sure that no symbolic
/// link does (see `haul-local`).
///
/// ```
/// use haul_core::RelPath;
///
/// let path = RelPath::new(b"dir/file\n")?;
/// assert_eq!(path.name(), b"file\n");
/// assert_eq!(path.to_string(), r"dir/file\x0a", "printed on one line");
/// assert_eq!(path.parent(), Some(RelPath::root().join(b"dir")?));
/// assert!(RelPath::new(b"../etc").is_err() && RelPath::new(b"/etc").is_err());
/// assert_eq!(RelPath::tidy(b"./dir//sub/")?, RelPath::new(b"dir/sub")?);
/// # Ok::<(), haul_core::path::BadPath>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RelPath(Arc<[u8]>);

/// Why bytes are not a [`RelPath`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// The path begins with `/`.
    Absolute,
    /// A component is empty, `.` or `..`.
    Component,
    /// The path has a NUL byte.
    Nul,
    /// The path is longer than [`MAX_PATH_LEN`].
    TooLong,
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absolute => "the path is absolute",
            Self::Component => "the path has an empty, `.` or `..` component",
            Self::Nul => "the path holds a NUL byte",
            Self::TooLong => "the path is too long",
        })
    }
}

impl std::error::Error for BadPath {}

impl RelPath {
    /// The root.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// Checks `bytes` and converts them to a path.
    ///
    /// # Errors
    /// The rule of [`RelPath`] that the bytes break.
    pub fn new(bytes: &[u8]) -> Result<Self, BadPath> {
        if bytes.len() > MAX_PATH_LEN {
            return Err(BadPath::TooLong);
        }
        if bytes.first() == Some(&b'/') {
            return Err(BadPath::Absolute);
        }
        if bytes.contains(&0) {
            return Err(BadPath::Nul);
        }
        if has_bad_component(bytes) {
            return Err(BadPath::Component);
        }
        Ok(Self(bytes.into()))
    }

    /// Converts a path from a user or a list: removes `./`, repeated and trailing slashes first.
    ///
    /// # Errors
    /// As [`RelPath::new`]; `..` is not resolved.
    pub fn tidy(bytes: &[u8]) -> Result<Self, BadPath> {
        if bytes.first() == Some(&b'/') {
            return Err(BadPath::Absolute);
        }
        let parts: Vec<&[u8]> = bytes.split(|b| *b == b'/').filter(|c| !matches!(*c, b"" | b".")).collect();
        Self::new(&parts.join(&b'/'))
    }

    /// The path of `name` in this directory.
    ///
    /// # Errors
    /// If `name` is not one valid component.
    pub fn join(&self, name: &[u8]) -> Result<Self, BadPath> {
        if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
            return Err(BadPath::Component);
        }
        if name.contains(&0) {
            return Err(BadPath::Nul);
        }
        if self.0.is_empty() {
            return Ok(Self(name.into()));
        }
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        bytes.push(b'/');
        bytes.extend_from_slice(name);
        if bytes.len() > MAX_PATH_LEN {
            return Err(BadPath::TooLong);
        }
        Ok(Self(bytes.into()))
    }

    /// The directory that contains it; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        if self.0.is_empty() {
            return None;
        }
        let end = self.0.iter().rposition(|b| *b == b'/').unwrap_or(0);
        Some(Self(self.0[..end].into()))
    }

    /// The first `len` bytes of the path, if they are the root, a directory above the path, or the path.
    #[must_use]
    pub fn ancestor(&self, len: usize) -> Option<Self> {
        match self.0.get(len) {
            Some(b'/') => Some(Self(self.0[..len].into())),
            Some(_) => (len == 0).then(Self::root),
            None => (len == self.0.len()).then(|| self.clone()),
        }
    }

    /// The last component; empty for the root.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        let start = self.0.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
        &self.0[start..]
    }

    /// Whether it is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes of the path.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The components, from the root downwards.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|b| *b == b'/').filter(|c| !c.is_empty())
    }

    /// The number of components.
    #[must_use]
    pub fn depth(&self) -> usize {
        if self.is_root() { 0 } else { 1 + self.0.iter().filter(|b| **b == b'/').count() }
    }
}

/// Whether a component is `.`, `..` or, except the first, empty. Paths can be long and most have no such component, so
/// this searches for candidates and does not split the path.
fn has_bad_component(path: &[u8]) -> bool {
    let ends = |at: usize| path.get(at).is_none_or(|byte| *byte == b'/');
    let is_dots = |at: usize| {
        (at == 0 || path[at - 1] == b'/') && (ends(at + 1) || path[at + 1] == b'.' && ends(at + 2))
    };
    path.last() == Some(&b'/')
        || memchr::memmem::find(path, b"//").is_some()
        || memchr::memchr_iter(b'.', path).any(is_dots)
}

/// The bytes as printable text. UTF-8 is kept; control characters and other bytes become `\xNN`, and characters that
/// change the direction of text `\u{NNNN}`, so that a name can neither break a line nor move the cursor.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_escaped(&mut out, c);
        }
        for b in chunk.invalid() {
            out.push_str(&format!("\\x{b:02x}"));
        }
    }
    out
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() { f.write_str(".") } else { f.write_str(&printable(&self.0)) }
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = serde_bytes::ByteBuf::deserialize(deserializer)?;
        Self::new(&bytes).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_could_leave_the_root_are_refused() {
        for bad in [
            &b"/etc"[..],
            b"..",
            b".",
            b"../a",
            b"a/..",
            b"a/.",
            b"a/../b",
            b"a/./b",
            b"a//b",
            b"a/",
            b"/",
            b"./a",
            b"a\0b",
        ] {
            assert!(RelPath::new(bad).is_err(), "{}", printable(bad));
        }
        for good in [&b""[..], b"a", b"a/b", b"...", b"a/..b", b"a./..b../.b./...", b"\xff\n /x"] {
            assert!(RelPath::new(good).is_ok(), "{}", printable(good));
        }
    }

    #[test]
    fn paths_join_and_split() {
        let p = RelPath::root().join(b"a").and_then(|p| p.join(b"b")).unwrap();
        assert_eq!(p.as_bytes(), b"a/b");
        assert_eq!(p.name(), b"b");
        assert_eq!(p.parent().unwrap().as_bytes(), b"a");
        assert_eq!(p.parent().unwrap().parent().unwrap(), RelPath::root());
        assert_eq!(p.ancestor(1).unwrap().as_bytes(), b"a");
        assert!(p.ancestor(0) == Some(RelPath::root()) && p.ancestor(3) == Some(p.clone()));
        assert!(p.ancestor(2).is_none() && p.ancestor(4).is_none());
        assert!(p.join(b"..").is_err() && p.join(b"x/y").is_err() && p.join(b"").is_err());
        assert_eq!(RelPath::tidy(b"./a//b/").unwrap().as_bytes(), b"a/b");
    }

    #[test]
    fn any_name_is_printed_on_one_line() {
        assert_eq!(printable(b"a\nb\xff\xc3\xa9\x1b"), "a\\x0ab\\xffé\\x1b");
        assert_eq!(printable("a\u{202e}b\u{9b}".as_bytes()), "a\\u{202e}b\\xc2\\x9b");
    }
}
