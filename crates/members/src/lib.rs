//! Members of streams: which files a stream of xbstream or tar holds, and where.
//!
//! [`Scanner`] takes the bytes of a stream as they pass, in pieces of any length, and makes a [`MemberIndex`] of it. It
//! never fails before the end: a stream that is neither, or that is damaged, has no index and an [`IndexFault`].
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
mod watch;
mod xbstream;

pub use index::{IndexFault, Member, MemberHead, MemberIndex, MemberPiece, StreamFormat, TarMetadata};
pub use record::{MAX_PACKED, decode};
pub use scan::Scanner;
pub use watch::MemberWatch;
