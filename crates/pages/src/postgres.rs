//! Relations of PostgreSQL: the names of their files, and the checksum of a page.

use crate::bytes::PageVerdict;

/// The place of the checksum in a page.
const STORED: std::ops::Range<usize> = 8..10;
const SUMS: usize = 32;
const PRIME: u32 = 16_777_619;

/// The initial value of each sum (`checksum_impl.h` of PostgreSQL).
const OFFSETS: [u32; SUMS] = [
    0x5b1f_36e9,
    0xb852_5960,
    0x02ab_50aa,
    0x1de6_6d2a,
    0x79ff_467a,
    0x9bb9_f8a3,
    0x217e_7cd2,
    0x83e1_3d2c,
    0xf8d4_474f,
    0xe39e_b970,
    0x42c6_ae16,
    0x9932_16fa,
    0x7b09_3b5d,
    0x98da_ff3c,
    0xf718_902a,
    0x0b1c_9cdb,
    0xe58f_764b,
    0x1876_36bc,
    0x5d7b_3bb1,
    0xe73d_e7de,
    0x92be_c979,
    0xcca6_c0b2,
    0x304a_0979,
    0x85aa_43d4,
    0x7831_25bb,
    0x6ca8_eaa2,
    0xe407_eac6,
    0x4b5c_fc3e,
    0x9fbf_8c76,
    0x15ca_20be,
    0xf2ca_9fd3,
    0x959b_d756,
];

/// A file of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationFile<'a> {
    /// The path of the cluster, empty or with a slash at its end.
    pub cluster: &'a [u8],
    /// The number of the file in its relation.
    pub segment: u32,
}

/// The file of a relation that has this path.
#[must_use]
pub fn relation_file(path: &[u8]) -> Option<RelationFile<'_>> {
    let mut from_end = path.rsplit(|byte| *byte == b'/');
    let (name, directory) = (from_end.next()?, from_end.next()?);
    let mut above = 0;
    if directory != b"global" {
        let parent = from_end.next()?;
        let is_tablespace = parent.starts_with(b"PG_");
        let oid = if is_tablespace { from_end.next()? } else { directory };
        let top: &[u8] = if is_tablespace { b"pg_tblspc" } else { b"base" };
        let found = if is_tablespace { from_end.next()? } else { parent };
        if !is_number(directory) || !is_number(oid) || found != top {
            return None;
        }
        above = parent.len() + 1 + if is_tablespace { oid.len() + top.len() + 2 } else { 0 };
    }
    let segment = segment(name)?;
    let cluster = path.len() - name.len() - 1 - directory.len() - above;
    Some(RelationFile { cluster: &path[..cluster], segment })
}

/// The number of a file in its relation, from its name: `16384`, `16384_fsm`, `16384.2`, `16384_vm.1`.
fn segment(name: &[u8]) -> Option<u32> {
    let (relation, segment) = match name.iter().position(|byte| *byte == b'.') {
        Some(dot) => (&name[..dot], Some(&name[dot + 1..])),
        None => (name, None),
    };
    let number = [b"_fsm".as_slice(), b"_vm", b"_init"].iter().find_map(|fork| relation.strip_suffix(*fork));
    if !is_number(number.unwrap_or(relation)) {
        return None;
    }
    match segment {
        None => Some(0),
        Some(digits) if is_number(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        Some(_) => None,
    }
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// The place in the log of the last change of a page.
pub(crate) fn changed_at(page: &[u8]) -> u64 {
    let half = |at: usize| {
        page.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |half| u64::from(u32::from_le_bytes(*half)))
    };
    half(0) << 32 | half(4)
}

/// The place in the log where a backup begins, from its file `backup_label`.
pub(crate) fn backup_start(label: &[u8]) -> Option<u64> {
    let line =
        label.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"START WAL LOCATION: "))?;
    let place = std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?;
    let (high, low) = place.split_once('/')?;
    let half = |text: &str| u32::from_str_radix(text, 16).ok().map(u64::from);
    Some(half(high)? << 32 | half(low)?)
}

pub(crate) fn judge(first: u32, number: u64, page: &[u8]) -> PageVerdict {
    let Some(stored) = page.get(STORED).and_then(<[u8]>::first_chunk) else { return PageVerdict::Unknown };
    if u16::from_le_bytes(*stored) == sum(first.wrapping_add(number as u32), page) {
        PageVerdict::Good
    } else {
        PageVerdict::Bad
    }
}

/// The checksum of the page with this number in its relation.
pub(crate) fn sum(number: u32, page: &[u8]) -> u16 {
    ((fnv1a(page) ^ number) % 65_535 + 1) as u16
}

/// FNV-1a of a page, 32 sums side by side, with zeros in the place of the checksum.
fn fnv1a(page: &[u8]) -> u32 {
    let mut sums = OFFSETS;
    let (rows, _) = page.as_chunks::<{ 4 * SUMS }>();
    let mut rows = rows.iter();
    if let Some(first) = rows.next() {
        let mut first = *first;
        first[STORED].fill(0);
        add(&mut sums, &first);
    }
    rows.for_each(|row| add(&mut sums, row));
    add(&mut sums, &[0; 4 * SUMS]);
    add(&mut sums, &[0; 4 * SUMS]);
    sums.iter().fold(0, |all, sum| all ^ sum)
}

#[inline]
fn add(sums: &mut [u32; SUMS], row: &[u8; 4 * SUMS]) {
    let (words, _) = row.as_chunks::<4>();
    for (sum, word) in sums.iter_mut().zip(words) {
        let mixed = *sum ^ u32::from_le_bytes(*word);
        *sum = mixed.wrapping_mul(PRIME) ^ mixed >> 17;
    }
}
