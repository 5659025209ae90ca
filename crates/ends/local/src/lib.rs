//! The local file system as a source and a sink.
//!
//! Reading, in the order of the data: `place` and `root` (which directory is held), `walk` and `stat` (what is
//! there), `read` (slices and their proofs) and `changed` (of them only what differs), `pagecache` (what is left in
//! memory). Writing: `compare` (what is needed), `delta` and `rebuild` (what of it is there already), `stage`, `large`
//! `journal`, `mark` and `recheck` (content under a staging name, and which slices of it are durable), `commit`, `commit_large` and `sync`
//! (sync, then rename), `unsynced` (what `--no-fsync` leaves to chance), `meta` (owners, modes, times, attributes), and `haul_ends::dirs` (folders last).

mod ahead;
mod changed;
mod claims;
mod clone;
mod commit;
mod commit_large;
mod compare;
mod confined;
mod delta;
mod descriptors;
mod devices;
mod digest;
mod direct;
mod early;
mod folding;
mod held_dirs;
mod in_flight;
mod journal;
mod large;
mod leftovers;
mod mark;
mod meta;
mod network_fs;
mod nice;
mod offer;
mod pagecache;
mod place;
mod publish;
mod read;
mod rebuild;
mod recheck;
mod removal;
mod root;
mod sink;
mod source;
mod stage;
mod stat;
mod sync;
mod times;
mod unlocked;
mod unsynced;
mod walk;
mod ways;

use std::path::PathBuf;
use std::sync::Arc;

use haul_core::{BufferPool, Ops, Place, Result, Side, Sink, SinkOptions, Source};

pub use confined::Confined;
use haul_index::Index;
pub use nice::Nice;
use root::Root;

/// Opens a source. `remote` says that another machine asks: a leading `~` is then a home directory.
/// Its operations on files wait for `ops`.
///
/// # Errors
/// If the path cannot be resolved. A root that does not exist is no error here: [`Source::root`] tells.
pub fn open_source(
    place: &Place,
    remote: bool,
    pool: &BufferPool,
    ops: &Arc<Ops>,
) -> Result<Arc<dyn Source>> {
    let root = Root::new(place::resolve(place, remote)?, Side::Source, Arc::clone(ops));
    Ok(Arc::new(source::LocalSource::new(root, pool.clone(), None)))
}

/// The same of a source on this machine of which something may be known from an earlier run.
///
/// # Errors
/// As [`open_source`].
pub fn open_indexed_source(
    place: &Place,
    pool: &BufferPool,
    ops: &Arc<Ops>,
    index: &Arc<Index>,
) -> Result<Arc<dyn Source>> {
    let root = Root::new(place::resolve(place, false)?, Side::Source, Arc::clone(ops));
    Ok(Arc::new(source::LocalSource::new(root, pool.clone(), Some(Arc::clone(index)))))
}

/// Opens a sink. Missing directories above the root are made when the first entry is.
///
/// # Errors
/// If the path cannot be resolved.
pub fn open_sink(
    place: &Place,
    remote: bool,
    options: &SinkOptions,
    pool: &BufferPool,
    ops: &Arc<Ops>,
) -> Result<Arc<dyn Sink>> {
    let root = Root::new(place::resolve(place, remote)?, Side::Destination, Arc::clone(ops));
    Ok(Arc::new(sink::LocalSink::new(root, options.clone(), pool.clone())?))
}

/// Where the root of an end is. `remote` as for [`open_source`].
///
/// # Errors
/// If the path cannot be resolved.
pub fn resolve(place: &Place, remote: bool) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let base = place::resolve(place, remote)?;
    let itself = base.name == b".";
    Ok(if itself { base.dir } else { base.dir.join(std::ffi::OsStr::from_bytes(&base.name)) })
}
