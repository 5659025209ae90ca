//! A bucket with retries: each request is repeated until it succeeds, fails for good, or nothing has succeeded for too
//! long.

mod all_buckets;
mod bucket;
mod buckets;
mod budget;
mod limiter;
mod list;
mod positions;
mod presign;
mod read;
mod remove;
mod retry;
mod run_id;
mod tree;
mod uploads;
mod write;

pub use crate::payload::joined_crc64;
pub use bucket::{Client, MANY_AT_ONCE, open};
pub use run_id::{RUN, run_metadata, run_name};
