//! Anchors of patterns: which part of a path a pattern is matched against, with `**` and a trailing `/` or `***`.

use super::wild;

/// Where in the path a match may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// At the beginning of the path only.
    Start,
    /// At the beginning of the last components, this many.
    LastComponents(usize),
    /// At the beginning of any component.
    AnyComponent,
}

/// Whether `pattern` matches the entry at `path`.
pub(super) fn matches(pattern: &[u8], path: &[u8], is_dir: bool) -> bool {
    if path.is_empty() {
        return false;
    }
    let (pattern, only_dirs) = match pattern {
        [head @ .., b'/'] if !head.is_empty() => (head, true),
        all => (all, false),
    };
    if only_dirs && !is_dir {
        return false;
    }
    let slashes = pattern.iter().filter(|byte| **byte == b'/').count();
    let is_wild = pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['));
    let double_star = is_wild && pattern.windows(2).any(|pair| pair == b"**");
    let text = if slashes == 0 && !double_star { last_component(path) } else { path };
    let (anchored, pattern) = pattern.strip_prefix(b"/").map_or((false, pattern), |rest| (true, rest));
    if !is_wild {
        return if anchored { text == pattern } else { is_tail(text, pattern) };
    }
    let starts_double = !anchored && pattern.starts_with(b"**");
    let begin = match (anchored || starts_double, double_star, slashes) {
        (true, _, _) | (false, false, 0) => Begin::Start,
        (false, true, _) => Begin::AnyComponent,
        (false, false, slashes) => Begin::LastComponents(slashes + 1),
    };
    // A leading `**/` also matches at the beginning of the path, and a trailing `/***` also matches the directory
    // itself: the text gets the slash that the pattern needs.
    let before: &[u8] = if starts_double { b"/" } else { b"" };
    let after: &[u8] = if double_star && pattern.ends_with(b"***") && is_dir { b"/" } else { b"" };
    let tokens = wild::compile(pattern);
    if before.is_empty() && after.is_empty() {
        return wild_matches(&tokens, text, begin);
    }
    wild_matches(&tokens, &[before, text, after].concat(), begin)
}

fn wild_matches(tokens: &[wild::PatternStep<'_>], text: &[u8], begin: Begin) -> bool {
    match begin {
        Begin::Start => wild::matches(tokens, text, false),
        Begin::AnyComponent => wild::matches(tokens, text, true),
        Begin::LastComponents(count) => {
            last_components(text, count).is_some_and(|tail| wild::matches(tokens, tail, false))
        }
    }
}

fn last_component(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// The last `count` components of a path; `None` if it has fewer.
fn last_components(path: &[u8], count: usize) -> Option<&[u8]> {
    let mut slashes = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    match slashes.nth(count.checked_sub(1)?) {
        Some(at) => Some(&path[at + 1..]),
        None => (path.iter().filter(|byte| **byte == b'/').count() + 1 == count).then_some(path),
    }
}

/// Whether `path` ends with `tail`, from the beginning of a component on.
fn is_tail(path: &[u8], tail: &[u8]) -> bool {
    path.strip_suffix(tail).is_some_and(|head| head.is_empty() || head.ends_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        for (paths, expected) in [(yes, true), (no, false)] {
            for path in paths {
                let (name, is_dir) = path.strip_suffix('/').map_or((*path, false), |name| (name, true));
                let got = matches(pattern.as_bytes(), name.as_bytes(), is_dir);
                assert_eq!(got, expected, "pattern `{pattern}`, path `{path}`");
            }
        }
    }

    #[test]
    fn a_leading_slash_anchors() {
        check("/foo", &["foo", "foo/"], &["a/foo", "foo/a", "xfoo"]);
        check("/foo/*.c", &["foo/a.c"], &["foo/b/a.c", "x/foo/a.c"]);
        check("/*", &["a", "b/"], &["a/b"]);
        check("/", &[], &["a", "a/"]);
    }

    #[test]
    fn a_tail_begins_at_a_component() {
        check("foo", &["foo", "a/foo", "a/foo/"], &["xfoo", "foo/a"]);
        check("foo/bar", &["foo/bar", "a/foo/bar/"], &["xfoo/bar", "bar", "foo/bar/a"]);
        check("*/bar", &["x/bar", "a/x/bar"], &["bar", "bar/x"]);
        check("foo/*/bar", &["foo/x/bar", "a/foo/x/bar"], &["foo/bar", "foo/x/y/bar"]);
    }

    #[test]
    fn a_trailing_slash_is_for_directories() {
        check("foo/", &["foo/", "a/foo/"], &["foo", "a/foo"]);
        check("/a*/", &["abc/"], &["abc", "x/abc/"]);
    }

    #[test]
    fn two_stars_cross_slashes() {
        check("foo/**", &["foo/a", "foo/a/b", "x/foo/a"], &["foo", "foo/", "xfoo/a"]);
        check("/foo/**/bar", &["foo/x/bar", "foo/x/y/bar"], &["foo/bar", "a/foo/x/bar"]);
        check("**/bar", &["bar", "a/bar", "a/b/bar/"], &["xbar", "bar/a"]);
        check("**.o", &["a.o", "x/a.o"], &["a.c"]);
        check("a**z", &["az", "abcz", "x/a/b/z"], &["ba/c", "xaz"]);
    }

    #[test]
    fn three_stars_take_the_directory_too() {
        check("dir/***", &["dir/", "dir/a", "dir/a/b", "x/dir/"], &["dir", "adir/", "dirx/"]);
        check("/dir/***", &["dir/", "dir/a/"], &["x/dir/", "x/dir/a"]);
    }

    #[test]
    fn a_backslash_escapes_only_beside_wildcards() {
        check(r"foo\bar", &[r"foo\bar"], &["foobar"]);
        check(r"foo\\bar*", &[r"foo\barx"], &["foobarx"]);
        check(r"\*", &["*"], &["a", r"\*"]);
    }
}
