//! Object stores: a client for S3-compatible stores, and streams into and out of them.
//!
//! Everything here blocks; what is asynchronous is sealed in `runtime`, on few threads. Read the modules
//! in this order: [`store`] (what a store can do, one request each), `s3`, `gs`, `az` (how it is asked), [`client`] (the same
//! calls with patience: retries, back-off, how many at once), [`put`] and [`get`] (streams), [`sidecar`] (where the
//! digest of a stream is), [`encoding`] and [`keys`] (streams that are stored packed or encrypted), [`uploads`] (what is
//! known here of uploads that are not complete), [`state`] (the folders for what is remembered between runs).
//!
//! An end of a tree stands on [`Client`] too: it lists, reads ranges, and writes parts in any order under an upload id
//! that outlives the process.

mod az;
pub mod client;
pub mod encoding;
mod fault;
pub mod get;
mod governor;
mod gs;
mod http;
pub mod keys;
mod login;
mod meter;
mod ordered;
mod payload;
mod pipe;
mod pipes;
mod profile;
pub mod put;
mod record;
mod runtime;
mod s3;
mod settings;
pub mod sidecar;
pub mod state;
pub mod store;
mod time;
pub mod uploads;
mod url;
mod xml;

pub use client::{Client, open};
pub use meter::{Kind, Requests};
pub use payload::{Payload, share};
pub use pipes::PipeFolder;
pub use settings::StoreSettings;
pub use store::{HeldPart, Object, Page, PutOptions, Tag, Upload};
