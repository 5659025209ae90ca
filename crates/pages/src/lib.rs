//! The pages of database files: which files have pages, and whether the checksum of a page is right. Without input or
//! output: the caller reads.
//!
//! | database | page | checksum |
//! |---|---|---|
//! | InnoDB, `full_crc32` (MariaDB since 10.5) | 4 to 64 KiB, as the flags in the first page say | CRC-32C of all bytes before it |
//! | InnoDB, `crc32` (MySQL, and MariaDB before) | the same | CRC-32C of header and body, in the first and the last bytes |
//! | InnoDB, `ROW_FORMAT=COMPRESSED` | 1 to 16 KiB | CRC-32C of the fields that do not change on the way to the disk |
//! | InnoDB, `innodb` (servers before CRC-32C) | as `crc32` | a sum of header and body |
//! | PostgreSQL with data checksums | as `pg_control` says | FNV-1a in 32 sums side by side, and the number of the block |
//!
//! A page that is all zeros is new, and good. Checksums of encrypted pages are those of the encrypted bytes, except those
//! of MySQL, which cannot be checked without the key. Nor can pages that a server compresses without a checksum, and
//! the doublewrite buffer, which holds pages of other files.

mod bytes;
mod check;
mod control;
mod innodb;
mod innodb_format;
mod innodb_sums;
mod pages;
mod passing;
#[cfg(test)]
mod passing_tests;
mod postgres;
#[cfg(test)]
mod tests;

pub use bytes::PageVerdict;
pub use check::{FilePages, PageCheck, ReadAgain, ReadHead};
pub use control::Control;
pub use innodb::{HEAD_LEN, innodb, is_innodb_name};
pub use pages::{MAX_PAGE, Pages};
pub use passing::{PassingFile, PassingPages};
pub use postgres::{RelationFile, relation_file};
