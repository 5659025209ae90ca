//! Streams into objects and out of them, in the buckets that `haul_object` opens.
//!
//! Read the modules in this order: [`encoding`] and [`keys`] (streams that are stored compressed or encrypted),
//! [`sidecar`] (where the digest of a stream is recorded), [`uploads`] (the local records of incomplete uploads),
//! [`xbcloud`] (streams that xbcloud stored), [`put`] and [`get`] (the streams themselves), [`index_file`] and
//! [`unpack`] (the members of a stream).

pub mod encoding;
mod fifo;
pub mod get;
pub mod index_file;
pub mod keys;
mod ordered;
pub mod pipe;
pub mod put;
mod sha256;
pub mod sidecar;
pub mod unpack;
pub mod uploads;
pub mod xbcloud;

pub use fifo::{PipeDirectory, widen};
