//! Object stores: one client for S3, Google Cloud Storage and Azure Blob Storage.
//!
//! All calls block. Asynchronous code is confined to `runtime`, which has few threads. Read the modules in this order:
//! [`store`] (the requests of a store, one method each), `s3`, `gs`, `az` (how each provider is asked) and [`client`]
//! (the same requests with retries, back-off and a concurrency limit).

mod az;
mod bucket_name;
mod bucket_page;
pub mod client;
mod details;
mod fault;
mod gs;
mod http;
mod login;
mod meter;
mod payload;
mod presign;
mod profile;
mod record;
mod runtime;
mod s3;
mod settings;
pub mod store;
mod time;
mod url;
mod url_method;
mod xml;

pub use bucket_name::check_bucket_name;
pub use bucket_page::ListedBucket;
pub use client::{Client, open};
pub use details::Details;
pub use meter::{RequestKind, Requests};
pub use payload::{Payload, share};
pub use settings::{AccessKeys, StoreSettings};
pub use store::{HeldPart, ListPage, Object, PutOptions, Tag, Terms, Upload};
pub use url_method::UrlMethod;
