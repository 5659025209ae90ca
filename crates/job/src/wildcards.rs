//! Wildcards in the paths of remote sources and in keys: `*`, `?` and `[...]`, in any component, as a shell expands
//! them. The local shell has expanded those of local paths already.

use std::collections::HashSet;
use std::ops::ControlFlow;

use haul_core::filter::matches_name;
use haul_core::sync::Mutex;
use haul_core::{ErrorKind, Links, Location, ObjectPlace, Result, ScanOptions, Side};

use super::ends::Ends;
use super::errors::usage;
use super::place::source_place;
use super::siblings::with_path;

/// The most memory for one list of the paths that a pattern matches, in bytes: a hostile end may name any number.
/// Planning holds some three such lists, which have to stay within the 64 MiB beside the budget.
const MOST_BYTES: usize = 16 << 20;
/// The memory for one path, besides its bytes.
const EACH: usize = 64;

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
        let is_open = is_pattern(source) && !exists(ends, source, links)?;
        let found = if is_open { matches(ends, source, links)? } else { Vec::new() };
        if found.is_empty() {
            all.push(source.clone());
        }
        all.extend(found);
    }
    Ok(all)
}

fn is_wild(name: &[u8]) -> bool {
    name.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

fn exists(ends: &mut Ends, at: &Location, links: Links) -> Result<bool> {
    Ok(ends.source(at, &source_place(at), links)?.root()?.is_some())
}

/// The locations that a pattern matches.
fn matches(ends: &mut Ends, pattern: &Location, links: Links) -> Result<Vec<Location>> {
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
            for Named { name, is_file } in names_in(ends, &with_path(pattern, dir.clone()), name, links)? {
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
        // What follows the last wildcard may be missing.
        if is_certain || exists(ends, &at, links)? {
            all.push(at);
        }
    }
    Ok(all)
}

fn too_many(pattern: &Location) -> haul_core::Error {
    let error = usage("expand the pattern", "too many entries match").on(pattern.to_string());
    error.with_hint("name the directory with a slash at its end, and add --include and --exclude")
}

/// A name in a directory.
struct Named {
    name: Vec<u8>,
    /// It is certainly no directory, and no link to one.
    is_file: bool,
}

/// Names in a directory, up to a limit.
#[derive(Default)]
struct Names {
    all: Vec<Named>,
    bytes: usize,
}

impl Names {
    fn add(&mut self, name: &[u8], is_file: bool) {
        if !self.is_full() {
            self.bytes += name.len() + EACH;
            self.all.push(Named { name: name.to_vec(), is_file });
        }
    }

    fn is_full(&self) -> bool {
        self.bytes > MOST_BYTES
    }
}

/// The names in `dir` that match, sorted. None if there is no such directory.
fn names_in(ends: &mut Ends, dir: &Location, pattern: &[u8], links: Links) -> Result<Vec<Named>> {
    let names = match dir {
        Location::Object(place) => keys_in(ends, place, pattern)?,
        _ => entries_in(ends, dir, pattern, links)?,
    };
    if names.is_full() {
        return Err(too_many(&with_path(dir, [dir.path(), pattern].concat())));
    }
    let mut names = names.all;
    names.sort_by(|a, b| a.name.cmp(&b.name));
    // A key and a prefix may share a name.
    names.dedup_by(|a, b| a.name == b.name);
    Ok(names)
}

/// As in a shell, a wildcard matches no dot at the beginning of a name.
fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    (!name.starts_with(b".") || pattern.starts_with(b".")) && matches_name(pattern, name)
}

fn entries_in(ends: &mut Ends, dir: &Location, pattern: &[u8], links: Links) -> Result<Names> {
    let source = ends.source(dir, &source_place(dir), links)?;
    if !source.root()?.is_some_and(|root| root.is_dir()) {
        return Ok(Names::default());
    }
    let (names, failed) = (Mutex::new(Names::default()), Mutex::new(None));
    let options = ScanOptions { max_depth: Some(1), ..ScanOptions::default() };
    source.scan(&options, &|batch| {
        let mut names = names.lock();
        for failure in batch.errors {
            if failure.path.is_root() {
                failed.lock().get_or_insert(failure.error);
            } else if is_match(pattern, failure.path.name()) {
                // The copy reports what is wrong with it.
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

/// The bytes with which each name begins that `pattern` matches.
fn literal_start(pattern: &[u8]) -> &[u8] {
    // A backslash may make the next byte literal.
    let end = pattern.iter().position(|byte| is_wild(&[*byte]) || *byte == b'\\');
    &pattern[..end.unwrap_or(pattern.len())]
}

fn keys_in(ends: &mut Ends, dir: &ObjectPlace, pattern: &[u8]) -> Result<Names> {
    let client = ends.store(dir, Side::Source)?;
    let prefix = format!("{}{}", dir.key, String::from_utf8_lossy(literal_start(pattern)));
    let (mut names, mut next) = (Names::default(), None);
    loop {
        let page = client.list(&prefix, true, next.as_deref())?;
        let keys = page.objects.iter().map(|object| (&object.key, true));
        for (key, is_file) in keys.chain(page.prefixes.iter().map(|prefix| (prefix, false))) {
            let name = key.strip_prefix(&dir.key).unwrap_or_default();
            let name = if is_file { Some(name) } else { name.strip_suffix('/') };
            if let Some(name) = name.filter(|name| !name.is_empty() && is_match(pattern, name.as_bytes())) {
                names.add(name.as_bytes(), is_file);
            }
        }
        next = page.next;
        if next.is_none() || names.is_full() {
            break;
        }
    }
    // Metadata that haul keeps beside an object is no object of its own.
    let owners: HashSet<Vec<u8>> = names.all.iter().map(|named| named.name.clone()).collect();
    let is_beside = |name: &[u8]| name.strip_suffix(b".haul").is_some_and(|owner| owners.contains(owner));
    names.all.retain(|named| !is_beside(&named.name));
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_that_does_not_end_fills_a_limit_and_no_more() {
        let mut names = Names::default();
        (0..1_000_000).for_each(|_| names.add(b"0123456789", true));
        assert!(names.is_full() && names.bytes < MOST_BYTES + 100);
    }

    #[test]
    fn a_listing_begins_before_the_first_wildcard_or_backslash() {
        for (pattern, start) in [("a*", "a"), ("*", ""), ("ab[c]", "ab"), ("star\\*", "star"), ("\\?x", "")] {
            assert_eq!(literal_start(pattern.as_bytes()), start.as_bytes(), "{pattern}");
        }
    }

    #[test]
    fn patterns_are_those_of_a_shell() {
        let is = |text: &str| is_pattern(&Location::parse(text.as_bytes()).unwrap());
        assert!(is("h:/x/*.gz") && is("sftp://h/a?") && is("s3://b/[ab]/x"));
        assert!(!is("/x/*.gz") && !is("h:/x/a.gz"));
        assert!(is_match(b"*", b"a") && !is_match(b"*", b".a") && is_match(b".*", b".a"));
        assert!(is_match(b"a[0-9]?", b"a1x") && !is_match(b"a", b"ab"));
    }
}
