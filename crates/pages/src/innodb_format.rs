//! Pages of InnoDB, in each format.

use crate::bytes::{PageVerdict, be16, be32};
use crate::innodb_sums::{compressed_sums, full_crc32, original_sums};

// The header of a page.
const LSN_LOW: usize = 20;
const TYPE: usize = 24;
/// The version of the key of an encrypted page, and the checksum of its encrypted bytes.
const KEY_VERSION: usize = 26;
const CRYPT_SUM: usize = 30;

/// Pages that MariaDB has compressed, and that it has also encrypted: they have no checksum.
const PAGE_COMPRESSED: u16 = 34354;
const PAGE_COMPRESSED_ENCRYPTED: u16 = 37401;
/// Pages that MySQL has compressed, and types of pages that it has encrypted: their checksum is that of the plain page.
const MYSQL_COMPRESSED: u16 = 14;
const MYSQL_ENCRYPTED: [u16; 3] = [15, 16, 17];
/// The mark that a server without checksums writes in their place.
const NO_CHECKSUM: u32 = 0xdead_beef;

/// How the pages of a space are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InnoDbFormat {
    pub(crate) sums: Sums,
    /// MySQL encrypts the pages.
    pub(crate) encrypted: bool,
    /// The pages of the doublewrite buffer: the first one, and the first behind it.
    pub(crate) doublewrite: (u64, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sums {
    FullCrc32,
    Original,
    /// The pages are compressed to this size (`ROW_FORMAT=COMPRESSED`).
    Compressed,
}

pub(crate) fn judge(format: InnoDbFormat, number: u64, page: &[u8]) -> PageVerdict {
    if (format.doublewrite.0..format.doublewrite.1).contains(&number) {
        return PageVerdict::Unknown;
    }
    match format.sums {
        Sums::FullCrc32 => good(full_crc32(page)),
        Sums::Original => original(format.encrypted, page),
        Sums::Compressed => compressed(page),
    }
}

fn good(is_good: bool) -> PageVerdict {
    if is_good { PageVerdict::Good } else { PageVerdict::Bad }
}

fn original(encrypted: bool, page: &[u8]) -> PageVerdict {
    let end = page.len() - 8;
    let (first, last) = (be32(page, 0), be32(page, end));
    let sums = original_sums(page);
    let same_lsn = be32(page, LSN_LOW) == be32(page, end + 4);
    if (first, last) == (sums.crc32c, sums.crc32c) && same_lsn {
        return PageVerdict::Good;
    }
    let is_encrypted = be32(page, KEY_VERSION) != 0;
    if is_encrypted && be32(page, CRYPT_SUM) == sums.crc32c {
        return PageVerdict::Good;
    }
    let kind = be16(page, TYPE);
    let has_none = match kind {
        PAGE_COMPRESSED | PAGE_COMPRESSED_ENCRYPTED => true,
        // Its version, its algorithm, and the lengths of the plain and the compressed content.
        MYSQL_COMPRESSED => {
            let (plain, packed) = (be16(page, KEY_VERSION + 4), be16(page, KEY_VERSION + 6));
            (1..=3).contains(&page[KEY_VERSION]) && (1..=3).contains(&page[KEY_VERSION + 1]) && packed < plain
        }
        _ => encrypted && MYSQL_ENCRYPTED.contains(&kind),
    };
    if has_none || (first, last) == (NO_CHECKSUM, NO_CHECKSUM) && same_lsn {
        return PageVerdict::Unknown;
    }
    good(same_lsn && sums.is_older(page, first, last))
}

fn compressed(page: &[u8]) -> PageVerdict {
    let stored = be32(page, 0);
    let (crc32c, is_adler) = compressed_sums(page, stored);
    let is_encrypted = be32(page, KEY_VERSION) != 0 && be32(page, CRYPT_SUM) == crc32c;
    if stored == crc32c || is_encrypted || is_adler {
        return PageVerdict::Good;
    }
    if stored == NO_CHECKSUM { PageVerdict::Unknown } else { PageVerdict::Bad }
}
