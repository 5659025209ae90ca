//! Trees in object stores: one object for each file, link and special file, and one for each directory, whose key ends
//! in a slash.
//!
//! Read `names` and `metadata` (the metadata of a file in its object) first, then `tree` (keys and paths),
//! `metadata_cache` (the metadata that this run has asked for), `prefetch` (content that came with the metadata).
//! Reading: `walk`, `listing_entry` (the entries of a listing), `read`, `source_state`, `source`. Writing: `listing`
//! (the existing names), `offer` (the content that the sink needs), `small`, `large` and `upload_part` (content),
//! `server_side_copy` and `links`, `remove`, `sink_state`, `sink`. `cost` estimates the requests.
//!
//! Nothing is staged: a store shows an object only when it is complete. Each request occupies one thread, and there are
//! up to hundreds of them.

mod cost;
mod kept;
mod large;
mod large_copies;
mod links;
mod listing;
mod listing_entry;
mod metadata;
mod metadata_cache;
mod names;
mod offer;
mod open_uploads;
mod prefetch;
mod read;
mod remove;
mod remove_source;
mod request_threads;
mod rules;
mod server_side_copy;
mod sink;
mod sink_state;
mod small;
mod source;
mod source_state;
mod tree;
mod upload_part;
mod walk;

use std::sync::Arc;

use haul_core::{BufferPool, Error, ErrorKind, Place, Result, Side, Sink, SinkOptions, Source};
use haul_object::{Client, PutOptions};

pub use cost::{Bill, Cost};
use sink::ObjectSink;
use sink_state::SinkState;
use source::ObjectSource;
pub use source_state::Detail;
use source_state::SourceState;
use tree::Tree;

/// Opens a source in the bucket of `client`.
///
/// # Errors
/// `Usage` if the location is not UTF-8, else the error of the failed request.
pub fn open_source(
    client: &Arc<Client>,
    place: &Place,
    detail: Detail,
    buffers: &BufferPool,
) -> Result<Arc<dyn Source>> {
    let tree = Tree::open(Arc::clone(client), place, Side::Source)?;
    Ok(Arc::new(ObjectSource::new(SourceState::new(tree, detail, buffers.clone()))))
}

/// Opens a sink in the bucket of `client`, which writes objects with the options `stored`. `from` is the source, if it
/// is in the same bucket: the store then copies the objects itself.
///
/// # Errors
/// `Usage` if the location is not UTF-8 or the store does not support an option, else the error of the failed request.
pub fn open_sink(
    client: &Arc<Client>,
    place: &Place,
    options: &SinkOptions,
    from: Option<&Place>,
    stored: &PutOptions,
    buffers: &BufferPool,
) -> Result<Arc<dyn Sink>> {
    if options.verify_disk {
        let cause = "a store gives an object its name in the moment in which it is complete";
        let error = Error::new(ErrorKind::Usage, Side::Destination, "obey --verify disk", cause);
        return Err(error.with_hint("`haul verify` reads everything back afterwards"));
    }
    client.check_options(stored)?;
    let tree = Tree::open(Arc::clone(client), place, Side::Destination)?;
    let from = from.map(|place| Tree::open(Arc::clone(client), place, Side::Source)).transpose()?;
    Ok(Arc::new(ObjectSink::new(SinkState::new(
        tree,
        options.clone(),
        from,
        stored.clone(),
        buffers.clone(),
    ))))
}

/// When an object was written, if the store says so.
#[must_use]
pub fn modified(object: &haul_object::Object) -> Option<haul_core::Timestamp> {
    metadata::modified(&object.modified)
}
