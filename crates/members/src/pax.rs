//! Extended headers of pax: fields of a member that its header lacks, or that replace fields of its header.

use haul_core::Timestamp;
use haul_core::entry::Xattr;
use serde_bytes::ByteBuf;

use crate::numbers::{decimal, decimal_time};

/// The most runs of a sparse file.
pub(crate) const MAX_RUNS: usize = 1 << 18;

/// The prefix of extended attributes, as GNU tar, bsdtar and star write it.
const XATTR: &[u8] = b"SCHILY.xattr.";

/// The values of extended headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pax {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u64>,
    pub(crate) gid: Option<u64>,
    pub(crate) mtime: Option<Timestamp>,
    pub(crate) xattrs: Vec<Xattr>,
    pub(crate) sparse: Sparse,
}

/// How a sparse file is described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sparse {
    /// The map is at the start of the content (format 1.0).
    pub(crate) in_content: bool,
    /// The true path.
    pub(crate) name: Option<Vec<u8>>,
    /// The true length.
    pub(crate) size: Option<u64>,
    /// Offsets and lengths.
    pub(crate) map: Vec<u64>,
}

impl Pax {
    /// Adds the records of an extended header; `None` if it is damaged.
    pub(crate) fn add(&mut self, mut records: &[u8]) -> Option<()> {
        while records.first().is_some_and(|byte| *byte != 0) {
            let space = records.iter().take(20).position(|byte| *byte == b' ')?;
            let len = usize::try_from(decimal(&records[..space])?).ok()?;
            let record = records.get(space + 1..len)?.strip_suffix(b"\n")?;
            records = &records[len..];
            let equals = record.iter().position(|byte| *byte == b'=')?;
            self.set(&record[..equals], &record[equals + 1..])?;
        }
        Some(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"path" => self.path = Some(value.to_owned()),
            b"linkpath" => self.link = Some(value.to_owned()),
            b"size" => self.size = Some(decimal(value)?),
            b"uid" => self.uid = Some(decimal(value)?),
            b"gid" => self.gid = Some(decimal(value)?),
            b"mtime" => self.mtime = Some(decimal_time(value)?),
            b"GNU.sparse.major" => self.sparse.in_content = decimal(value)? == 1,
            b"GNU.sparse.name" => self.sparse.name = Some(value.to_owned()),
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.sparse.size = Some(decimal(value)?),
            b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => self.run(decimal(value)?)?,
            b"GNU.sparse.map" => {
                for number in value.split(|byte| *byte == b',').filter(|number| !number.is_empty()) {
                    self.run(decimal(number)?)?;
                }
            }
            _ => {
                if let Some(name) = key.strip_prefix(XATTR) {
                    self.xattrs.push((ByteBuf::from(name), ByteBuf::from(value)));
                }
            }
        }
        Some(())
    }

    fn run(&mut self, number: u64) -> Option<()> {
        self.sparse.map.push(number);
        (self.sparse.map.len() <= 2 * MAX_RUNS).then_some(())
    }
}

/// Reads a map of format 1.0: the count of runs, then offset and length of each, a line each. `Ok(None)`: it is longer
/// than `bytes`.
///
/// # Errors
/// If it is no map.
pub(crate) fn map_in_content(bytes: &[u8]) -> Result<Option<Vec<u64>>, ()> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let mut next = || match lines.next() {
        Some(line) if line.ends_with(b"\n") => decimal(&line[..line.len() - 1]).map(Some).ok_or(()),
        Some(line) if line.len() > 20 => Err(()),
        _ => Ok(None),
    };
    let Some(count) = next()? else { return Ok(None) };
    let count = usize::try_from(count).ok().filter(|count| *count <= MAX_RUNS).ok_or(())?;
    let mut map = Vec::new();
    for _ in 0..2 * count {
        let Some(number) = next()? else { return Ok(None) };
        map.push(number);
    }
    Ok(Some(map))
}
