//! Azure Blob Storage: <https://learn.microsoft.com/rest/api/storageservices/blob-service-rest-api>.
//!
//! A multipart upload is a blob's list of uncommitted blocks. No request creates or aborts one; Azure drops uncommitted
//! blocks after a week. haul makes up the upload id and puts it into the name of each block (`uploads.rs`).

mod address;
mod blobs;
mod container;
mod login;
mod options;
mod presign;
mod uploads;
mod xml;

pub(crate) use container::Azure;
