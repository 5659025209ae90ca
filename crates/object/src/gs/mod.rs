//! Google Cloud Storage through its XML API: <https://cloud.google.com/storage/docs/xml-api/reference-methods>.
//!
//! Of Google's two APIs, only this one has multipart uploads whose parts may be sent in any order, in parallel, and by
//! several processes. It is the S3 API except for header names, the checksum (CRC-32C) and the login (OAuth tokens).

mod credentials;
mod google;
mod presign;

pub(crate) use google::open;
