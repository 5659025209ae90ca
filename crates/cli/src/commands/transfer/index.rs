//! The index of a run: where it is, and what it is of.

use std::fs::{self, DirEntry};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haul_core::{Location, Place, Result};
use haul_index::Index;

use crate::args::IndexArgs;
use crate::ends::{folder_place, source_place};
use crate::jobs::Folder;
use crate::render::Console;
use crate::settings::usage;

/// How long an index that haul has named is kept that is not written any more: longer than any `--index-refresh`.
const KEPT: Duration = Duration::from_secs(400 * 86_400);

/// An index that was asked for.
pub(super) struct Wanted {
    file: PathBuf,
    /// The source, and the device that it is on.
    source: PathBuf,
    dev: u64,
    refresh: Duration,
}

impl Wanted {
    /// What the words mean; `None` if they ask for no index, or if there is nothing that it could be of.
    ///
    /// # Errors
    /// If there can be no index of such a source, or not there.
    pub(super) fn resolve(
        args: &IndexArgs,
        sources: &[Location],
        destination: &Location,
        listed: bool,
    ) -> Result<Option<Self>> {
        let Some(file) = &args.index else { return Ok(None) };
        let refused = |cause: &str, hint: &str| Err(usage("keep an index", cause).with_hint(hint));
        if listed {
            return refused("--files-from says what is looked at", "leave out one of the two");
        }
        let [source] = sources else {
            let hint = "run haul for each of them; a file for the index is named as in --index=FILE";
            return refused("it is of one source, and there are several", hint);
        };
        let Location::Local(_) = source else {
            let error = usage("keep an index", "the source is not on this machine").on(source.to_string());
            return Err(error.with_hint("run haul where the source is, or leave out --index"));
        };
        let Some(path) = real(&source_place(source))? else { return Ok(None) };
        let Ok(meta) = path.metadata() else { return Ok(None) };
        let file = match file {
            Some(file) => named(file)?,
            None => by_default(&path, destination)?,
        };
        if let Location::Local(_) = destination
            && let Some(to) = real(&folder_place(destination))?
            && file.starts_with(to)
        {
            let error = usage("keep an index", "it would lie in the destination").on(bytes(&file));
            return Err(error.with_hint("name a file elsewhere, as in --index=FILE"));
        }
        Ok(Some(Self { file, source: path, dev: meta.dev(), refresh: args.index_refresh }))
    }

    /// Opens it. If what is there is not used, that is said.
    pub(super) fn open(&self, console: &Console) -> Arc<Index> {
        let (index, refused) = Index::open(&self.file, bytes(&self.source), self.dev, self.refresh);
        if let Some(why) = refused {
            console
                .note(&format!("the index {} is not used: {why}; everything is read", self.file.display()));
        }
        Arc::new(index)
    }

    /// Writes what is known now. If that fails, it is said; the next run looks at more.
    pub(super) fn save(&self, index: &Index, console: &Console) {
        if let Err(error) = index.save() {
            console.warn(&format!("the index {} could not be written: {error}", self.file.display()));
        }
    }
}

/// The path of what is there, without links; `None` where there is nothing.
fn real(place: &Place) -> Result<Option<PathBuf>> {
    Ok(haul_local::resolve(place, false)?.canonicalize().ok())
}

/// The file that was named, by a path that holds from anywhere.
fn named(file: &Path) -> Result<PathBuf> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Some(name), false) = (file.file_name(), file.is_dir()) else {
        return Err(usage("keep an index", "it is a folder").on(bytes(file)));
    };
    let dir = dir.canonicalize().map_err(|error| usage("keep an index", error.to_string()).on(bytes(dir)))?;
    Ok(dir.join(name))
}

/// The file of this source and this destination among the records of this user.
fn by_default(source: &Path, destination: &Location) -> Result<PathBuf> {
    let folder = Folder::indexes().map_err(|error| {
        usage("keep an index", error.to_string()).with_hint("name a file for it, as in --index=FILE")
    })?;
    tidy(&folder);
    Ok(folder.join(haul_index::name_of(&[bytes(source), destination.to_string().as_bytes()])))
}

/// Removes files that nobody seems to use any more.
pub(super) fn tidy(folder: &Path) {
    let is_old = |file: &DirEntry| {
        let age = file.metadata().and_then(|meta| meta.modified()).map(|modified| modified.elapsed());
        matches!(age, Ok(Ok(age)) if age > KEPT)
    };
    for file in fs::read_dir(folder).into_iter().flatten().flatten().filter(is_old) {
        let _ = fs::remove_file(file.path());
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
