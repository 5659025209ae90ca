//! Wildcards in keys. A prefix up to a slash is a directory here, and `*` matches no slash.

use std::collections::HashSet;
use std::ops::ControlFlow;

use haul_core::{Error, ErrorKind, ObjectPlace, Result, Side};
use haul_object::{Client, Object};
use haul_streams::{index_file, sidecar};

use super::names::{BoundedNames, EACH, MOST_BYTES, is_match, is_wild, literal_start, too_many};
use crate::errors::usage;

/// Whether a key has a wildcard. An object may have this very name, which [`exists_key`] tells.
#[must_use]
pub fn is_key_pattern(key: &str) -> bool {
    is_wild(key.as_bytes())
}

/// Whether an object or a directory has this very name.
///
/// # Errors
/// Those of the requests.
pub fn exists_key(client: &Client, key: &str) -> Result<bool> {
    Ok(!key.ends_with('/') && client.look(key)?.is_some() || is_prefix(client, &as_prefix(key))?)
}

/// The key of the only object that a key names, which may be a pattern.
///
/// # Errors
/// [`ErrorKind::NotFound`] if no object matches, [`ErrorKind::Usage`] if several do; errors of the requests.
pub fn only_object(client: &Client, place: &ObjectPlace) -> Result<String> {
    if !is_key_pattern(&place.key) || client.head(&place.key)?.is_some() {
        return Ok(place.key.clone());
    }
    let mut found = KeyPattern::new(client, &place.key)?.collected(false)?;
    match (found.len(), found.pop()) {
        (1, Some(only)) => Ok(only),
        (0, _) => {
            let cause = "no object matches the pattern";
            Err(Error::new(ErrorKind::NotFound, Side::Source, "find", cause).on(place.to_string()))
        }
        (many, _) => {
            let cause = format!("{many} objects match the pattern, and one is expected");
            Err(usage("take the object", cause).on(place.to_string()))
        }
    }
}

/// The keys without those of sidecars and indexes, whose streams are among them.
fn without_sidecars(names: BoundedNames) -> Vec<String> {
    let keys: Vec<String> =
        names.sorted().into_iter().map(|named| String::from_utf8_lossy(&named.name).into_owned()).collect();
    let beside: HashSet<String> =
        keys.iter().flat_map(|key| [sidecar::key_of(key), index_file::key_of(key)]).collect();
    keys.into_iter().filter(|key| !beside.contains(key)).collect()
}

/// The matches of a pattern on one page of a listing.
#[derive(Debug, Default)]
pub struct MatchingPage {
    /// Objects that match, or that may be sidecars of matching ones ([`KeyPattern::matches`] tells which), in the order
    /// of the listing.
    pub objects: Vec<Object>,
    /// Matching directories, each with a slash at its end.
    pub prefixes: Vec<String>,
}

/// A pattern of keys in a bucket, expanded up to its last component with a wildcard.
pub struct KeyPattern<'a> {
    client: &'a Client,
    /// The whole pattern.
    pattern: &'a str,
    /// Directories whose names are compared, each with a slash at its end, or empty.
    dirs: Vec<String>,
    /// The last component with a wildcard.
    name: &'a str,
    /// The rest of the pattern: nothing, or a slash and components without wildcards.
    rest: &'a str,
}

impl<'a> KeyPattern<'a> {
    /// Expands the components before the last one with a wildcard.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if too many directories match; errors of the requests.
    pub fn new(client: &'a Client, pattern: &'a str) -> Result<Self> {
        let (before, name, rest) = split(pattern);
        let mut dirs = vec![String::new()];
        for part in before.split_inclusive('/') {
            let name = without_slash(part);
            if is_wild(name.as_bytes()) {
                dirs = below(client, &dirs, name, pattern)?;
            } else {
                dirs.iter_mut().for_each(|dir| dir.push_str(part));
            }
        }
        Ok(Self { client, pattern, dirs, name, rest })
    }

    /// Whether a key matches, other than by being that of a sidecar.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        let mut parts = key.split('/');
        let all = self.pattern.split('/').all(|pattern| {
            parts.next().is_some_and(|name| {
                if is_wild(pattern.as_bytes()) {
                    is_match(pattern.as_bytes(), name.as_bytes())
                } else {
                    pattern == name
                }
            })
        });
        all && parts.next().is_none()
    }

    /// Passes the matches to `visit`, page by page, until `visit` breaks.
    ///
    /// # Errors
    /// Those of the requests and of `visit`.
    pub fn each_page(&self, visit: &mut dyn FnMut(MatchingPage) -> Result<ControlFlow<()>>) -> Result<()> {
        for dir in &self.dirs {
            let mut found = |page: MatchingPage| {
                let page = if self.rest.is_empty() { page } else { self.behind(&page)? };
                visit(page)
            };
            if pages(self.client, dir, self.name, &mut found)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Finds the objects and directories at the rest of the pattern, below the directories of a page.
    fn behind(&self, page: &MatchingPage) -> Result<MatchingPage> {
        let mut behind = MatchingPage::default();
        for dir in &page.prefixes {
            let path = format!("{}{}", without_slash(dir), self.rest);
            if self.rest == "/" {
                behind.prefixes.push(path);
                continue;
            }
            if !path.ends_with('/')
                && let Some(object) = self.client.look(&path)?
            {
                behind.objects.push(object);
                behind.objects.extend(self.client.look(&sidecar::key_of(&path))?);
            }
            let prefix = as_prefix(&path);
            if is_prefix(self.client, &prefix)? {
                behind.prefixes.push(prefix);
            }
        }
        Ok(behind)
    }

    /// The paths of all matches, each object and directory once, as the pattern ends: with a slash or without.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if they are too many; errors of the requests.
    pub(super) fn paths(&self) -> Result<Vec<String>> {
        self.collected(true)
    }

    fn collected(&self, with_dirs: bool) -> Result<Vec<String>> {
        let mut names = BoundedNames::default();
        self.each_page(&mut |page| {
            for object in page.objects.iter().filter(|object| self.matches(&object.key)) {
                names.add(object.key.as_bytes(), true);
            }
            for prefix in page.prefixes.iter().filter(|_| with_dirs) {
                let path = if self.pattern.ends_with('/') { prefix } else { without_slash(prefix) };
                names.add(path.as_bytes(), false);
            }
            Ok(if names.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if names.is_full() {
            return Err(too_many(&self.client.name(self.pattern)));
        }
        Ok(without_sidecars(names))
    }
}

/// Splits a pattern into the part before the last component with a wildcard, that component, and the rest.
fn split(pattern: &str) -> (&str, &str, &str) {
    let last = pattern.rfind(['*', '?', '[']).unwrap_or_default();
    let begin = pattern[..last].rfind('/').map_or(0, |slash| slash + 1);
    let end = pattern[last..].find('/').map_or(pattern.len(), |slash| last + slash);
    (&pattern[..begin], &pattern[begin..end], &pattern[end..])
}

/// The directories in `dirs` that match.
fn below(client: &Client, dirs: &[String], name: &str, pattern: &str) -> Result<Vec<String>> {
    let (mut below, mut bytes) = (Vec::new(), 0);
    for dir in dirs {
        let found = pages(client, dir, name, &mut |page| {
            bytes += page.prefixes.iter().map(|prefix| prefix.len() + EACH).sum::<usize>();
            below.extend(page.prefixes);
            Ok(if bytes > MOST_BYTES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if found.is_break() {
            return Err(too_many(&client.name(pattern)));
        }
    }
    Ok(below)
}

/// Passes the names in `dir` that match to `visit`, page by page.
fn pages(
    client: &Client,
    dir: &str,
    pattern: &str,
    visit: &mut dyn FnMut(MatchingPage) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    let prefix = format!("{dir}{}", String::from_utf8_lossy(literal_start(pattern.as_bytes())));
    let matches = |name: &str| !name.is_empty() && is_match(pattern.as_bytes(), name.as_bytes());
    let name_of = |key: &str| key.strip_prefix(dir).unwrap_or_default().to_owned();
    let mut next: Option<String> = None;
    loop {
        let mut page = client.list(&prefix, true, next.as_deref())?;
        page.objects.retain(|object| {
            let name = name_of(&object.key);
            matches(&name) || sidecar::owner_of(&name).is_some_and(matches)
        });
        page.prefixes.retain(|prefix| matches(without_slash(&name_of(prefix))));
        next = page.next;
        if visit(MatchingPage { objects: page.objects, prefixes: page.prefixes })?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if next.is_none() {
            return Ok(ControlFlow::Continue(()));
        }
    }
}

fn without_slash(prefix: &str) -> &str {
    prefix.strip_suffix('/').unwrap_or(prefix)
}

fn as_prefix(key: &str) -> String {
    if key.ends_with('/') { key.to_owned() } else { format!("{key}/") }
}

fn is_prefix(client: &Client, prefix: &str) -> Result<bool> {
    let page = client.list(prefix, true, None)?;
    Ok(!page.objects.is_empty() || !page.prefixes.is_empty() || page.next.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_split_at_its_last_wildcard() {
        for (pattern, parts) in [
            ("*", ("", "*", "")),
            ("a/b*.gz", ("a/", "b*.gz", "")),
            ("a*/b", ("", "a*", "/b")),
            ("a*/?/b/c/", ("a*/", "?", "/b/c/")),
            ("x/2026-[0-9]*/", ("x/", "2026-[0-9]*", "/")),
        ] {
            assert_eq!(split(pattern), parts, "{pattern}");
        }
    }

    #[test]
    fn sidecars_do_not_count_beside_their_streams() {
        let mut names = BoundedNames::default();
        for key in ["a", "a.haul", "b.haul", "c"] {
            names.add(key.as_bytes(), true);
        }
        assert_eq!(without_sidecars(names), ["a", "b.haul", "c"]);
    }
}
