//! S3 and compatible stores: the REST API of <https://docs.aws.amazon.com/AmazonS3/latest/API/>.
//!
//! The library (`object_store`) signs requests and finds credentials. The requests are our own, because streams depend
//! on explicit parts, their listing, checksums and conditions. Google's XML API differs only in its
//! [`Dialect`](dialect::Dialect).

pub(crate) mod address;
mod aws;
mod bucket;
mod credentials;
pub(crate) mod dialect;
mod objects;
mod open;
mod presign;
mod roles;
mod uploads;
mod xml;

pub(crate) use bucket::S3;
pub(crate) use open::open;
