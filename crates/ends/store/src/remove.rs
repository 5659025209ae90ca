//! Removes entries: objects first, then directories, innermost first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use haul_core::{Error, ErrorKind, RelPath, Result};
use haul_streams::sidecar::{self, SidecarObject};

use super::listing::NotListed;
use super::sink_state::SinkState;

/// The keys of a name that is to be removed.
struct Doomed {
    path: RelPath,
    /// Of a file, and of a name that may be a directory or not.
    objects: Vec<String>,
    /// Whether the listing shows a directory of this name.
    is_directory: bool,
    /// Whether the listing shows an object of this name.
    is_object: bool,
}

/// Removes entries. One answer for each. A listing of its own shows for each directory whether it is empty. A directory
/// that the listing of its parent does not show, as it is too long, is removed unseen: it may as well be a file, and a
/// listing for each of a million files would cost more than their removal.
pub(super) fn remove(sink: &SinkState, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
    let doomed = sink.look.each(paths, |path| look(sink, path));
    let objects: Vec<String> = doomed.iter().flatten().flat_map(|one| one.objects.clone()).collect();
    let mut left = remove_keys(sink, &objects)?;
    let mut removed: Vec<Result<()>> = Vec::with_capacity(paths.len());
    let mut directories = Vec::new();
    for (at, one) in doomed.iter().enumerate() {
        removed.push(one.as_ref().map_err(Clone::clone).and_then(|one| gone(&mut left, &one.objects)));
        if let Ok(one) = one
            && one.is_directory
            && removed[at].is_ok()
        {
            directories.push((at, one));
        }
    }
    remove_directories(sink, &directories, &mut removed)?;
    Ok(removed)
}

/// Removes the directories that are empty or hold only others that are. Each has the number of its answer.
fn remove_directories(
    sink: &SinkState,
    directories: &[(usize, &Doomed)],
    removed: &mut [Result<()>],
) -> Result<()> {
    let not_empty = |one: &Doomed| {
        // The name was that of the object, which is gone.
        let cause = "the directory is not empty";
        if one.is_object {
            Ok(())
        } else {
            Err(sink.tree.error(ErrorKind::NotEmpty, "remove", &one.path, cause))
        }
    };
    let mut levels: BTreeMap<Reverse<usize>, Vec<&(usize, &Doomed)>> = BTreeMap::new();
    for directory in directories {
        levels.entry(Reverse(directory.1.path.components().count())).or_default().push(directory);
    }
    let (mut empty, mut keys) = (Vec::new(), HashSet::new());
    for level in levels.into_values() {
        let checked = sink.look.each(&level, |(_, one)| is_empty_but_for(sink, &one.path, &keys));
        for ((at, one), is_empty) in level.into_iter().zip(checked) {
            match is_empty {
                Err(error) => removed[*at] = Err(error),
                Ok(false) => removed[*at] = not_empty(one),
                Ok(true) => {
                    keys.extend(directory_keys(sink, &one.path));
                    empty.push((*at, *one));
                }
            }
        }
    }
    let mut left = remove_keys(sink, &keys.into_iter().collect::<Vec<_>>())?;
    let mut stays: Vec<&RelPath> = Vec::new();
    // Innermost first.
    for (at, one) in empty {
        removed[at] = gone(&mut left, &directory_keys(sink, &one.path));
        if removed[at].is_ok() && stays.iter().any(|inner| is_below(inner, &one.path)) {
            removed[at] = not_empty(one);
        }
        if removed[at].is_err() {
            stays.push(&one.path);
        }
    }
    Ok(())
}

fn is_below(path: &RelPath, directory: &RelPath) -> bool {
    let rest = path.as_bytes().strip_prefix(directory.as_bytes());
    directory.is_root() || rest.is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Whether there is nothing below a directory but its own objects and those of `keys`.
fn is_empty_but_for(sink: &SinkState, path: &RelPath, keys: &HashSet<String>) -> Result<bool> {
    let own = directory_keys(sink, path);
    let mut token = None;
    loop {
        let page = sink.tree.client.list(&own[1], false, token.as_deref())?;
        if page.objects.iter().any(|object| !own.contains(&object.key) && !keys.contains(&object.key)) {
            return Ok(false);
        }
        token = page.next;
        if token.is_none() {
            return Ok(true);
        }
    }
}

/// Finds the keys of one name.
fn look(sink: &SinkState, path: &RelPath) -> Result<Doomed> {
    let key = sink.tree.key(path);
    let Some(parent) = path.parent() else {
        // A whole bucket has no object of its own.
        let is_directory = !key.is_empty();
        let objects = if is_directory { vec![key] } else { Vec::new() };
        return Ok(Doomed { path: path.clone(), objects, is_directory, is_object: false });
    };
    let page = sink.listings.of(&sink.tree, &parent)?;
    let seen = page.seen(&sink.tree, path);
    let mut objects = Vec::new();
    if seen.directory == Err(NotListed) {
        objects.extend(directory_keys(sink, path));
    }
    if seen.object != Ok(None) {
        objects.push(key.clone());
    }
    let name = RelPath::new(&[path.as_bytes(), b".haul"].concat());
    let beside = name.is_ok_and(|name| page.seen(&sink.tree, &name).object != Ok(None));
    if beside && sidecar::beside(&sink.tree.client, &key)? == SidecarObject::Sidecar {
        objects.push(sidecar::key_of(&key));
    }
    let is_object = matches!(seen.object, Ok(Some(_)));
    Ok(Doomed { path: path.clone(), objects, is_directory: seen.directory == Ok(true), is_object })
}

/// The keys of a directory's own objects.
fn directory_keys(sink: &SinkState, path: &RelPath) -> [String; 2] {
    let directory = sink.tree.directory(path);
    [sidecar::key_of(&directory), directory]
}

/// Removes objects. Returns those that stay, and why.
fn remove_keys(sink: &SinkState, keys: &[String]) -> Result<HashMap<String, Error>> {
    Ok(sink.tree.client.remove(keys)?.into_iter().collect())
}

/// Whether all these keys are gone; else why the first of them stays.
fn gone(left: &mut HashMap<String, Error>, keys: &[String]) -> Result<()> {
    keys.iter().find_map(|key| left.remove(key)).map_or(Ok(()), Err)
}
