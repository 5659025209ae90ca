//! The pages of one file.

use crate::bytes::{PageVerdict, is_zero};
use crate::innodb_format::{self, InnoDbFormat};
use crate::postgres;

/// The size of the largest pages, in bytes.
pub const MAX_PAGE: usize = 64 * 1024;

/// The pages of one file: how long they are, and how they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    pub(crate) size: usize,
    pub(crate) kind: PageKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    InnoDb(InnoDbFormat),
    /// The number of the first block in its relation.
    Postgres(u32),
}

impl Pages {
    /// The size of each page in bytes, at most [`MAX_PAGE`].
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether they are pages of InnoDB.
    #[must_use]
    pub fn is_innodb(&self) -> bool {
        matches!(self.kind, PageKind::InnoDb(_))
    }

    /// Checks the page with this number in its file. Bytes of another length are no page.
    #[must_use]
    pub fn judge(&self, number: u64, page: &[u8]) -> PageVerdict {
        if page.len() != self.size {
            return PageVerdict::Unknown;
        }
        let verdict = match &self.kind {
            PageKind::InnoDb(format) => innodb_format::judge(*format, number, page),
            PageKind::Postgres(first) => postgres::judge(*first, number, page),
        };
        // Checked last: it is seldom so, and most pages tell that by their first bytes.
        if verdict == PageVerdict::Bad && is_zero(page) { PageVerdict::Good } else { verdict }
    }
}
