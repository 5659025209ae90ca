//! The local file system as a source and a sink.
//!
//! From bottom to top: `path` resolves paths to names in directories that are held open. `tree` is a root with the
//! facts that the run knows about the file systems below it. `meta` reads, compares and sets metadata. `walk` finds
//! the entries, `read` reads and hashes their content. `delta` reuses unchanged pages of older versions of files.
//! `stage` writes files under staging names, with journals of the durable slices. `commit` syncs them and renames
//! them into place. `network_fs` is for network file systems only. `source` and `sink` serve the engine. The sink
//! sets the metadata of directories last (`haul_ends::dirs`).

mod backups;
mod commit;
mod confined;
mod delta;
mod meta;
mod network_fs;
mod nice;
mod path;
mod read;
mod remove_source;
#[cfg(test)]
mod scene;
mod sink;
mod source;
mod stage;
mod ticket;
mod tree;
mod walk;

use std::path::PathBuf;
use std::sync::Arc;

use haul_core::DirLinks;
use haul_core::{BufferPool, Ops, PageChecks, Place, Result, Side, Sink, SinkOptions, Source, SourceOptions};

pub use confined::ConfinedDir;
use haul_index::Index;
pub use meta::ids::id_of;
pub use meta::new_mode::umask;
pub use nice::Nice;
use path::links::Follow;
use path::place;
use path::root::Root;

/// Opens a source, whose operations are limited by `ops`. Links above the root are always followed, those at and below
/// it as the options say. With `remote`, another machine asks, and a leading `~` is a
/// home directory.
///
/// # Errors
/// `NotFound` if the path names a user who does not exist. A missing root is no error here: [`Source::root`] reports
/// it.
pub fn open_source(
    place: &Place,
    options: impl Into<SourceOptions>,
    remote: bool,
    pool: &BufferPool,
    ops: &Arc<Ops>,
) -> Result<Arc<dyn Source>> {
    let options = options.into();
    let follow = if options.links.are_followed() { Follow::Anywhere } else { Follow::Never };
    let root = Root::new(place::resolve(place, remote)?, Side::Source, Arc::clone(ops)).following(follow);
    let root = root.keeping_dirlinks(options.dirlinks != DirLinks::Kept);
    let source = source::LocalSource::new(root, pool.clone(), None).checking(options.pages);
    Ok(Arc::new(source.showing_dirlinks(options.dirlinks == DirLinks::Shown)))
}

/// Opens a source on this machine with the index of an earlier run.
///
/// # Errors
/// As [`open_source`].
pub fn open_indexed_source(
    place: &Place,
    pool: &BufferPool,
    ops: &Arc<Ops>,
    index: &Arc<Index>,
    pages: Option<PageChecks>,
) -> Result<Arc<dyn Source>> {
    let root = Root::new(place::resolve(place, false)?, Side::Source, Arc::clone(ops));
    let source = source::LocalSource::new(root, pool.clone(), Some(Arc::clone(index)));
    Ok(Arc::new(source.checking(pages)))
}

/// Opens a sink. Missing directories above the root are made with the first entry.
///
/// # Errors
/// `NotFound` if the path names a user who does not exist, `Io` if no thread can be started.
pub fn open_sink(
    place: &Place,
    remote: bool,
    options: &SinkOptions,
    pool: &BufferPool,
    ops: &Arc<Ops>,
) -> Result<Arc<dyn Sink>> {
    let base = |place: &Place, _| place::resolve(place, remote);
    let open =
        |base| Root::new(base, Side::Destination, Arc::clone(ops)).keeping_dirlinks(options.keep_dirlinks);
    Ok(Arc::new(sink::open::open_at(place, options, pool, base, open)?))
}

/// The path of the root of an end. `remote` as for [`open_source`].
///
/// # Errors
/// As [`open_source`].
pub fn resolve(place: &Place, remote: bool) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let base = place::resolve(place, remote)?;
    let itself = base.name == b".";
    Ok(if itself { base.dir } else { base.dir.join(std::ffi::OsStr::from_bytes(&base.name)) })
}
