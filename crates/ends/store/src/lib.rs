//! Trees in object stores: an object for each file, link and special file, and one whose key ends in a slash for each
//! folder.
//!
//! Read `names` and `notes` (what an object says of a file), `tree` (keys and paths), `known` (what this run has learned),
//! `ahead` (content that came with it). Reading: `walk`, `found` (what a listing says), `read`, `source`. Writing: `pages`
//! (what is there), `offer` (what is needed), `small` and `large` (content), `within` (copies that the store makes by
//! itself), `sink`; `cost` (how many requests that will be).
//!
//! Nothing is staged: a store shows an object when all of it is there. Each request is one thread that waits, up to
//! hundreds of them.

mod ahead;
mod cost;
mod found;
mod known;
mod large;
mod names;
mod notes;
mod offer;
mod pages;
mod part;
mod read;
mod sink;
mod small;
mod source;
mod tree;
mod walk;
mod within;

use std::sync::Arc;

use haul_core::{BufferPool, Error, ErrorKind, Place, Result, Side, Sink, SinkOptions, Source};
use haul_object::{Client, PutOptions};

pub use cost::{Bill, Cost};
use haul_ends::thread_pool::ThreadPool;
use tree::Tree;

/// Requests of one kind that are under way at first. A store answers in milliseconds: few do not load it.
const FIRST: usize = 32;

/// How much of what is there a source tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All that is noted: a request for each object, where listings do not tell.
    Full,
    /// Names and kinds (file or folder), as listings tell them: to find out what is too much.
    Names,
}

/// Opens a source in the bucket of `client`.
///
/// # Errors
/// If the place cannot be.
pub fn open_source(
    client: &Arc<Client>,
    place: &Place,
    detail: Detail,
    buffers: &BufferPool,
) -> Result<Arc<dyn Source>> {
    let tree = Tree::open(Arc::clone(client), place, Side::Source)?;
    Ok(Arc::new(source::ObjectSource::new(tree, detail, buffers.clone())))
}

/// Opens a sink in the bucket of `client`, which writes objects as `stored` says. `from` is what will be read, where that is
/// in the same bucket: the store copies that by itself.
///
/// # Errors
/// If the place cannot be, or the store cannot do what the options ask for.
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
    client.takes(stored)?;
    let tree = Tree::open(Arc::clone(client), place, Side::Destination)?;
    let from = from.map(|place| Tree::open(Arc::clone(client), place, Side::Source)).transpose()?;
    Ok(Arc::new(sink::ObjectSink::new(tree, options.clone(), from, stored.clone(), buffers.clone())))
}

/// Threads for one kind of request.
fn threads() -> ThreadPool {
    ThreadPool::growing(FIRST, haul_object::client::MANY_AT_ONCE)
}
