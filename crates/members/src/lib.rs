//! Members of streams: which files a stream of xbstream or tar holds, and where.
//!
//! [`Scanner`] takes the bytes of a stream as they pass, in pieces of any length, and makes an [`Index`] of it. It never
//! fails before the end: a stream that is neither, or that is damaged, has no index and a [`Fault`].
//!
//! Formats: xbstream of Percona XtraBackup and MariaDB (`xbstream`); ustar, pax and GNU tar (`tar`).

mod build;
mod check;
mod index;
mod numbers;
mod pax;
mod record;
mod scan;
mod tar;
#[cfg(test)]
mod tests;
mod xbstream;

pub use index::{Fault, Format, Head, Index, Member, Metadata, Piece};
pub use record::{MAX_PACKED, decode};
pub use scan::Scanner;
