//! Expands the patterns among the sources of a run.

use std::ops::ControlFlow;

use haul_core::sync::Mutex;
use haul_core::{ErrorKind, Links, Location, Result, ScanOptions, Side};

use super::keys::KeyPattern;
use super::names::{BoundedNames, EACH, MOST_BYTES, MatchedName, is_match, is_wild, too_many};
use crate::ends::Ends;
use crate::mistakes::at_host;
use crate::place::source_place;
use crate::siblings::with_path;

/// Whether the path of a source is a pattern, unless an entry has this very name.
pub(crate) fn is_pattern(source: &Location) -> bool {
    !matches!(source, Location::Local(_)) && is_wild(source.path())
}

/// The sources, each pattern replaced by the entries that match it, in the order of their names. A pattern stays if an
/// entry has this very name, or if nothing matches.
///
/// # Errors
/// [`ErrorKind::Usage`] if too many entries match; errors of opening and listing.
pub(crate) fn expand(ends: &mut Ends, sources: &[Location], links: Links) -> Result<Vec<Location>> {
    let mut all = Vec::with_capacity(sources.len());
    for source in sources {
        let (plain, depth) = without_mark(source);
        let is_open = is_pattern(&plain) && !exists(ends, &plain, links)?;
        let found = if is_open { matches(ends, &plain, links)? } else { Vec::new() };
        if found.is_empty() {
            all.push(source.clone());
        }
        all.extend(found.into_iter().map(|at| with_mark(at, depth)));
    }
    Ok(all)
}

fn exists(ends: &mut Ends, at: &Location, links: Links) -> Result<bool> {
    let root = ends.source(at, &source_place(at), links)?.root();
    Ok(root.map_err(|error| at_host(error, Side::Source, at))?.is_some())
}

/// A source without the `./` of `--relative` in its key, and the number of components before that. Other paths contain it
/// as it is.
fn without_mark(source: &Location) -> (Location, Option<usize>) {
    let at = match source {
        Location::Object(place) => place.key.find("/./"),
        _ => None,
    };
    let Some(at) = at else { return (source.clone(), None) };
    let path = source.path();
    let (dropped, kept) = (&path[..=at], &path[at + 3..]);
    let depth = dropped.iter().filter(|byte| **byte == b'/').count();
    (with_path(source, [dropped, kept].concat()), Some(depth))
}

/// A match with the `./` behind so many components.
fn with_mark(found: Location, depth: Option<usize>) -> Location {
    let Some(depth) = depth else { return found };
    let parts: Vec<&[u8]> = found.path().split_inclusive(|byte| *byte == b'/').collect();
    let (dropped, kept) = parts.split_at(depth.min(parts.len()));
    with_path(&found, [dropped.concat(), b"./".to_vec(), kept.concat()].concat())
}

/// The locations that a pattern matches.
fn matches(ends: &mut Ends, pattern: &Location, links: Links) -> Result<Vec<Location>> {
    if let Location::Object(place) = pattern {
        let client = ends.store(place, Side::Source)?;
        let paths = KeyPattern::new(&client, &place.key)?.paths()?;
        return Ok(paths.into_iter().map(|path| with_path(pattern, path.into_bytes())).collect());
    }
    let (mut found, mut is_certain) = (vec![Vec::new()], true);
    for part in pattern.path().split_inclusive(|byte| *byte == b'/') {
        let (name, slash) = part.strip_suffix(b"/").map_or((part, &b""[..]), |name| (name, &b"/"[..]));
        is_certain = is_wild(name) || name.is_empty() && is_certain;
        if !is_wild(name) {
            found.iter_mut().for_each(|path| path.extend_from_slice(part));
            continue;
        }
        let (mut below, mut bytes) = (Vec::new(), 0);
        for dir in found {
            for MatchedName { name, is_file } in
                names_in(ends, &with_path(pattern, dir.clone()), name, links)?
            {
                if slash.is_empty() || !is_file {
                    bytes += dir.len() + name.len() + EACH;
                    below.push([&dir, &name[..], slash].concat());
                }
                if bytes > MOST_BYTES {
                    return Err(too_many(pattern));
                }
            }
        }
        found = below;
    }
    let mut all = Vec::with_capacity(found.len());
    for at in found.into_iter().map(|path| with_path(pattern, path)) {
        // The components after the last wildcard may not exist.
        if is_certain || exists(ends, &at, links)? {
            all.push(at);
        }
    }
    Ok(all)
}

/// The names in `dir` that match, sorted. None if there is no such directory.
fn names_in(ends: &mut Ends, dir: &Location, pattern: &[u8], links: Links) -> Result<Vec<MatchedName>> {
    let names = entries_in(ends, dir, pattern, links)?;
    if names.is_full() {
        return Err(too_many(&with_path(dir, [dir.path(), pattern].concat())));
    }
    Ok(names.sorted())
}

fn entries_in(ends: &mut Ends, dir: &Location, pattern: &[u8], links: Links) -> Result<BoundedNames> {
    let source = ends.source(dir, &source_place(dir), links)?;
    if !source.root()?.is_some_and(|root| root.is_dir()) {
        return Ok(BoundedNames::default());
    }
    let (names, failed) = (Mutex::new(BoundedNames::default()), Mutex::new(None));
    let options = ScanOptions { max_depth: Some(1), ..ScanOptions::default() };
    source.scan(&options, &|batch| {
        let mut names = names.lock();
        for failure in batch.errors {
            if failure.path.is_root() {
                failed.lock().get_or_insert(failure.error);
            } else if is_match(pattern, failure.path.name()) {
                // The copy reports the error.
                names.add(failure.path.name(), false);
            }
        }
        for entry in batch.entries {
            if !entry.path.is_root() && is_match(pattern, entry.path.name()) {
                names.add(entry.path.name(), entry.is_file());
            }
        }
        if names.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    match failed.into_inner() {
        Some(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(names.into_inner()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_a_key_stays_in_its_place() {
        let place = |key: &str| match Location::parse(b"s3://b/x").unwrap() {
            Location::Object(place) => {
                Location::Object(haul_core::ObjectPlace { key: key.to_owned(), ..place })
            }
            other => other,
        };
        let (plain, depth) = without_mark(&place("a/*/./c*"));
        assert_eq!((plain.path(), depth), (&b"a/*/c*"[..], Some(2)));
        assert_eq!(with_mark(place("a/b/c1"), depth), place("a/b/./c1"));
        let other = Location::parse(b"h:a/./b*").unwrap();
        assert_eq!(without_mark(&other), (other.clone(), None));
    }

    #[test]
    fn local_paths_are_no_patterns() {
        let is = |text: &str| is_pattern(&Location::parse(text.as_bytes()).unwrap());
        assert!(is("h:/x/*.gz") && is("sftp://h/a?") && is("s3://b/[ab]/x"));
        assert!(!is("/x/*.gz") && !is("h:/x/a.gz"));
    }
}
