//! Tablespaces of InnoDB: their names, and their first page.

use std::ops::Range;

use crate::bytes::{PageVerdict, be16, be32, is_zero};
use crate::innodb_format::{InnoDbFormat, Sums};
use crate::pages::{PageKind, Pages};

/// How many bytes of the beginning of a file tell all that [`innodb`] can find out.
pub const HEAD_LEN: usize = 256 * 1024;

// The header of a page, and that of the space in the first one.
const PAGE_NUMBER: usize = 4;
const TYPE: usize = 24;
const SPACE: usize = 34;
const SPACE_AGAIN: usize = 38;
const FLAGS: usize = 54;

/// The type of the first page.
const FSP_HDR: u16 = 8;
/// The flag of a space that MySQL encrypts.
const MYSQL_ENCRYPTION: u32 = 1 << 13;
/// The flag of a space in the format `full_crc32`.
const FULL_CRC32: u32 = 1 << 4;

/// Whether a file has the name of a tablespace.
#[must_use]
pub fn is_innodb_name(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let is_numbered = |prefix: &[u8]| {
        name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit))
    };
    let ends = |ending: &[u8]| name.len() > ending.len() && name.ends_with(ending);
    ends(b".ibd") || ends(b".ibu") || is_numbered(b"ibdata") || is_numbered(b"undo") || is_numbered(b"undo_")
}

/// The pages of the tablespace that begins with `head`; `None` if it does not look like one. 64 KiB are enough if the
/// first page is good; of a space whose first page is damaged, [`HEAD_LEN`] bytes tell more.
#[must_use]
pub fn innodb(head: &[u8]) -> Option<Pages> {
    sure(head).or_else(|| guessed(head)).or_else(|| stated(head))
}

/// The pages of a tablespace whose first page, at the beginning of `head`, is good.
pub(crate) fn sure(head: &[u8]) -> Option<Pages> {
    stated(head).filter(|pages| is_good(pages, 0, head))
}

/// The pages as the first one states them.
fn stated(head: &[u8]) -> Option<Pages> {
    let is_first = be32(head, PAGE_NUMBER) == 0 && be16(head, TYPE) == FSP_HDR;
    let space = be32(head, SPACE);
    if !is_first || space != be32(head, SPACE_AGAIN) || head.len() < FLAGS + 4 {
        return None;
    }
    let flags = be32(head, FLAGS);
    let (size, sums) = if flags & FULL_CRC32 != 0 {
        (size(flags & 15).filter(|_| flags & 15 != 0)?, Sums::FullCrc32)
    } else {
        let size = size(flags >> 6 & 15)?;
        match flags >> 1 & 15 {
            0 => (size, Sums::Original),
            compressed @ 1..=5 => (512 << compressed, Sums::Compressed),
            _ => return None,
        }
    };
    let encrypted = sums != Sums::FullCrc32 && flags & MYSQL_ENCRYPTION != 0;
    // As innochecksum(1) does: the second and the third extent of the system tablespace.
    let extent = (1 << 20).max(size as u64 * 64) / size as u64;
    let doublewrite = if space == 0 { (extent, 3 * extent) } else { (0, 0) };
    Some(Pages { size, kind: PageKind::InnoDb(InnoDbFormat { sums, encrypted, doublewrite }) })
}

/// The size of pages with this code in the flags.
fn size(code: u32) -> Option<usize> {
    match code {
        0 => Some(16 * 1024),
        3..=7 => Some(512 << code),
        _ => None,
    }
}

/// The pages as the second and the third one show them: the first one may be damaged, and further files of the system
/// tablespace have no header.
pub(crate) fn guessed(head: &[u8]) -> Option<Pages> {
    let sizes = |codes: Range<usize>| codes.map(|code| 512 << code);
    let all = sizes(3..8)
        .flat_map(|size| [(size, Sums::FullCrc32), (size, Sums::Original)])
        .chain(sizes(1..6).map(|size| (size, Sums::Compressed)));
    let pages = all.map(|(size, sums)| {
        let format = InnoDbFormat { sums, encrypted: false, doublewrite: (0, 0) };
        Pages { size, kind: PageKind::InnoDb(format) }
    });
    pages.into_iter().find(|pages| (1..3).all(|number| is_good(pages, number, head)))
}

/// Whether the page with this number is in `head`, not new, and good.
fn is_good(pages: &Pages, number: usize, head: &[u8]) -> bool {
    let page = head.get(number * pages.size..(number + 1) * pages.size);
    page.is_some_and(|page| !is_zero(page) && pages.judge(number as u64, page) == PageVerdict::Good)
}
