//! The index of a job: which file it is in, and which source it covers.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haul_core::{Location, Place, Result};
use haul_index::Index;

use super::errors::usage;
use super::observer::Observer;
use super::place::{dir_place, source_place};
use super::state::{indexes_dir, remove_old};

/// A request for an index.
pub struct IndexRequest {
    /// The file of the index; `None`: a file in haul's own directory.
    pub file: Option<PathBuf>,
    /// Directories that were read longer ago are read again.
    pub refresh: Duration,
}

/// The index of a source.
pub(crate) struct SourceIndex {
    file: PathBuf,
    source: PathBuf,
    /// The device of the source.
    dev: u64,
    refresh: Duration,
}

impl SourceIndex {
    /// Finds file and source of a requested index; `None` if the source does not exist.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if the source cannot have an index, or the file cannot be used.
    pub(crate) fn resolve(
        request: &IndexRequest,
        sources: &[Location],
        destination: &Location,
        listed: bool,
    ) -> Result<Option<Self>> {
        let refused = |cause: &str, hint: &str| Err(usage("keep an index", cause).with_hint(hint));
        if listed {
            return refused("--files-from selects the paths", "omit one of the two options");
        }
        let [source] = sources else {
            let hint = "run haul once per source; to name the file of the index use --index=FILE";
            return refused("an index covers one source, but several were given", hint);
        };
        let Location::Local(_) = source else {
            let error = usage("keep an index", "the source is not local").on(source.to_string());
            return Err(error.with_hint("run haul on the host of the source, or omit --index"));
        };
        let Some(path) = real(&source_place(source))? else { return Ok(None) };
        let Ok(meta) = path.metadata() else { return Ok(None) };
        let file = match &request.file {
            Some(file) => named(file)?,
            None => by_default(&path, destination)?,
        };
        if let Location::Local(_) = destination
            && let Some(to) = real(&dir_place(destination))?
            && file.starts_with(to)
        {
            let error = usage("keep an index", "it would be in the destination").on(bytes(&file));
            return Err(error.with_hint("give another file: --index=FILE"));
        }
        Ok(Some(Self { file, source: path, dev: meta.dev(), refresh: request.refresh }))
    }

    /// Opens the index. Reports if an existing file is ignored.
    pub(crate) fn open(&self, observer: &dyn Observer) -> Arc<Index> {
        let (index, refused) = Index::open(&self.file, bytes(&self.source), self.dev, self.refresh);
        if let Some(why) = refused {
            observer.note(&format!(
                "ignoring the index {}: {why}; all directories are read",
                self.file.display()
            ));
        }
        Arc::new(index)
    }

    /// Writes the index. Reports a failure, after which the next run only reads more directories.
    pub(crate) fn save(&self, index: &Index, observer: &dyn Observer) {
        if let Err(error) = index.save() {
            observer.warn(&format!("failed to write the index {}: {error}", self.file.display()));
        }
    }
}

/// The path of a place with symbolic links resolved; `None` if it does not exist.
fn real(place: &Place) -> Result<Option<PathBuf>> {
    Ok(haul_local::resolve(place, false)?.canonicalize().ok())
}

/// The absolute path of a file that the user named.
fn named(file: &Path) -> Result<PathBuf> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Some(name), false) = (file.file_name(), file.is_dir()) else {
        return Err(usage("keep an index", "it is a directory").on(bytes(file)));
    };
    let dir = dir.canonicalize().map_err(|error| usage("keep an index", error.to_string()).on(bytes(dir)))?;
    Ok(dir.join(name))
}

/// The file for this source and destination in haul's own directory.
fn by_default(source: &Path, destination: &Location) -> Result<PathBuf> {
    let dir = indexes_dir()
        .map_err(|error| usage("keep an index", error.to_string()).with_hint("give a file: --index=FILE"))?;
    remove_old(&dir);
    Ok(dir.join(haul_index::name_of(&[bytes(source), destination.to_string().as_bytes()])))
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
