//! Lists directories. Attributes come with the names.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use haul_core::{RelPath, Result, Retry};
use smb2::types::FileId;

use super::attrs::Attrs;
use super::conn::{Conn, close_later};
use super::reply::{Fault, Replies, nonsense};
use super::step::{Kind, LIST, Step};
use super::tree::Tree;

/// The most bytes of one answer.
const PAGE: usize = 256 * 1024;
/// The bytes before the name of an entry.
const FIXED: usize = 64;
/// How often a listing is begun again after a connection was lost.
const REPEATS: u32 = 4;
/// Names to remember while a directory is listed. A directory with more names cannot be listed again after its
/// connection was lost.
const REMEMBERED: usize = 1 << 20;

/// A name in a directory.
#[derive(Debug)]
pub(super) struct Named {
    /// The name as the server sent it.
    pub(super) name: String,
    /// Whether it is text. Windows allows any 16-bit numbers, which then cannot be asked for.
    pub(super) is_text: bool,
    pub(super) attrs: Attrs,
}

/// The entries of an answer, without `.` and `..`.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Named>, Fault> {
    let mut entries = Vec::new();
    let mut at = 0_usize;
    let bad = || Fault::from(nonsense("a listing is damaged"));
    while at < bytes.len() {
        let entry = bytes.get(at..).unwrap_or_default();
        let u32_at = |at: usize| Some(u32::from_le_bytes(*entry.get(at..)?.first_chunk()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(*entry.get(at..)?.first_chunk()?));
        let head = || {
            let attrs = Attrs {
                accessed: u64_at(16)?,
                modified: u64_at(24)?,
                changed: u64_at(32)?,
                len: u64_at(40)?,
                flags: u32_at(56)?,
            };
            Some((u32_at(0)? as usize, attrs, u32_at(60)? as usize))
        };
        let (next, attrs, len) = head().ok_or_else(bad)?;
        let end = FIXED.saturating_add(len);
        let raw = entry.get(FIXED..end).ok_or_else(bad)?;
        if next != 0 && next < end {
            return Err(bad());
        }
        let units: Vec<u16> =
            raw.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let name = String::from_utf16(&units);
        let is_text = name.is_ok();
        let name = name.unwrap_or_else(|_| String::from_utf16_lossy(&units));
        if name.is_empty() || name.contains(['\\', '/', '\0']) {
            return Err(nonsense("a listing has a name that is none").into());
        }
        if name != "." && name != ".." {
            entries.push(Named { name, is_text, attrs });
        }
        if next == 0 {
            break;
        }
        at += next;
    }
    Ok(entries)
}

/// A directory that is being listed. No name is told twice.
pub(super) struct Listing<'a> {
    tree: &'a Tree,
    dir: &'a RelPath,
    open: Option<(Arc<Conn>, FileId)>,
    /// Names that were told, by which a listing begins again after its connection was lost.
    told: HashSet<u64>,
    hasher: RandomState,
    repeats: u32,
    ended: bool,
}

impl<'a> Listing<'a> {
    pub(super) fn new(tree: &'a Tree, dir: &'a RelPath) -> Self {
        let (told, hasher) = (HashSet::new(), RandomState::new());
        Self { tree, dir, open: None, told, hasher, repeats: 0, ended: false }
    }

    /// The next names; `None` if there are no more.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Named>>, Fault> {
        while !self.ended {
            let mut names = match self.ask().await {
                Ok(names) => names,
                Err(Fault::Failed(error))
                    if error.retry() == Retry::Again
                        && self.repeats < REPEATS
                        && self.told.len() < REMEMBERED =>
                {
                    (self.open, self.repeats) = (None, self.repeats + 1);
                    continue;
                }
                Err(fault) => {
                    self.close();
                    return Err(match fault {
                        Fault::Failed(error) => error.with_retry(Retry::Never).into(),
                        fault @ Fault::Status(_) => fault,
                    });
                }
            };
            let (told, hasher) = (&mut self.told, &self.hasher);
            names.retain(|named| told.len() >= REMEMBERED || told.insert(hasher.hash_one(&named.name)));
            if !names.is_empty() {
                return Ok(Some(names));
            }
        }
        Ok(None)
    }

    /// Asks for some names. A small directory is listed in one frame: the second answer is that there are no more.
    async fn ask(&mut self) -> Result<Vec<Named>, Fault> {
        let server = &self.tree.smb.server;
        let conn = match &self.open {
            Some((conn, _)) => Arc::clone(conn),
            None => server.pick().await?,
        };
        let most = conn.most().min(PAGE) as u32;
        let second = Step::list(FileId::SENTINEL, "*", most);
        let first = match &self.open {
            Some((_, handle)) => {
                let replies = server.run_on(&conn, &[Step::list(*handle, "*", most), second]).await?;
                return self.take(&replies, 0);
            }
            None => Step::list(FileId::SENTINEL, "*", most),
        };
        let open = Step::open(&self.tree.remote(self.dir)?, Kind::Dir, LIST);
        let replies = server.run_on(&conn, &[open, first, second]).await?;
        self.open = Some((conn, replies.opened()?.file_id));
        self.take(&replies, 1)
    }

    /// Takes two answers.
    fn take(&mut self, replies: &Replies, first: usize) -> Result<Vec<Named>, Fault> {
        let mut all = Vec::new();
        for at in [first, first + 1] {
            match replies.names(at)? {
                Some(bytes) => all.extend(parse(&bytes)?),
                None => {
                    self.close();
                    break;
                }
            }
        }
        Ok(all)
    }

    /// Ends the listing. Nobody waits for the answer of the server.
    pub(super) fn close(&mut self) {
        self.ended = true;
        if let Some((conn, handle)) = self.open.take() {
            close_later(&conn, Step::close_of(handle));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(next: u32, name: &[u16], flags: u32) -> Vec<u8> {
        let mut bytes = next.to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        for value in [1_u64, 2, 3, 4, 500, 4096] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(flags.to_le_bytes());
        bytes.extend((name.len() as u32 * 2).to_le_bytes());
        bytes.extend(name.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.resize(bytes.len().max(next as usize), 0);
        bytes
    }

    fn units(name: &str) -> Vec<u16> {
        name.encode_utf16().collect()
    }

    #[test]
    fn a_listing_has_names_and_attributes() {
        let bytes =
            [entry(72, &units("."), 16), entry(72, &units("ab"), 32), entry(0, &units("é"), 16)].concat();
        let found = parse(&bytes).unwrap();
        let names: Vec<_> = found.iter().map(|found| (&found.name[..], found.attrs.is_dir())).collect();
        assert_eq!(names, [("ab", false), ("é", true)]);
        let attrs = Attrs { accessed: 2, modified: 3, changed: 4, len: 500, flags: 32 };
        assert_eq!((found[0].attrs, found[0].is_text), (attrs, true));
    }

    #[test]
    fn a_name_that_is_no_text_is_told() {
        let found = parse(&entry(0, &[0xD800, 0x41], 0)).unwrap();
        assert!(!found[0].is_text && found[0].name.ends_with('A'));
    }

    #[test]
    fn a_listing_that_lies_is_refused() {
        let good = entry(0, &units("name"), 0);
        for end in 1..good.len() {
            assert!(parse(&good[..end]).is_err(), "cut at {end}");
        }
        for name in ["a/b", "a\\b", "", "\0"] {
            assert!(parse(&entry(0, &units(name), 0)).is_err(), "{name:?}");
        }
        assert!(parse(&entry(8, &units("name"), 0)).is_err(), "entries overlap");
        assert!(parse(&entry(u32::MAX, &units(""), 0)[..72]).is_err());
    }
}
