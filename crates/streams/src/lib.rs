//! Streams into objects and out of them, in the buckets that `haul_object` opens.
//!
//! Read the modules in this order: [`encoding`] and [`keys`] (streams that are stored compressed or encrypted),
//! [`sidecar`] (where the digest of a stream is recorded), [`uploads`] (the local records of incomplete uploads),
//! [`put`] and [`get`] (the streams themselves).

pub mod encoding;
mod fifo;
pub mod get;
pub mod keys;
mod ordered;
pub mod pipe;
pub mod put;
mod sha256;
pub mod sidecar;
pub mod uploads;

pub use fifo::{PipeFolder, widen};
