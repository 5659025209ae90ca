//! Checks that the tests which SEMANTICS.md names exist: each promise has one.

use std::collections::HashSet;
use std::path::Path;

use super::tree::RepositoryFiles;

const PAGE: &str = "SEMANTICS.md";
/// The directory of the end-to-end tests, one file for each module.
const MODULES: &str = "crates/cli/tests/e2e";
/// A name with fewer words may be that of something else.
const LEAST_WORDS: usize = 3;

/// The tests that the page names and no source file has.
pub(crate) fn promises(tree: &RepositoryFiles) -> Vec<String> {
    let Some((_, page)) = tree.all().find(|(path, _)| *path == Path::new(PAGE)) else {
        return vec![format!("{PAGE} is missing")];
    };
    let sources = || tree.texts("rs");
    let names: HashSet<&str> = sources().flat_map(|(_, text)| text.split(|char| !is_part(char))).collect();
    let modules: HashSet<&str> = sources()
        .filter(|(path, _)| path.parent() == Some(Path::new(MODULES)))
        .filter_map(|(path, _)| path.file_stem()?.to_str())
        .collect();
    let mut found = Vec::new();
    for (line, number) in page.lines().zip(1..) {
        for span in line.split('`').skip(1).step_by(2) {
            let exists = match named(span) {
                None => true,
                Some(NamedTest::Test(name)) => names.contains(name),
                Some(NamedTest::Module(name)) => modules.contains(name),
            };
            if !exists {
                found.push(format!("{PAGE}:{number}: no test `{span}`"));
            }
        }
    }
    found
}

#[derive(Debug, PartialEq, Eq)]
enum NamedTest<'a> {
    Test(&'a str),
    Module(&'a str),
}

/// The test or the module of tests that a span between backquotes names.
fn named(span: &str) -> Option<NamedTest<'_>> {
    if !span.chars().all(|char| is_part(char) || char == ':' || char == '*') {
        return None;
    }
    if let Some(module) = span.strip_prefix("e2e::").and_then(|rest| rest.strip_suffix("::*")) {
        return Some(NamedTest::Module(module));
    }
    let name = span.rsplit("::").next()?;
    let is_test = name.split('_').filter(|word| !word.is_empty()).count() >= LEAST_WORDS;
    is_test.then_some(NamedTest::Test(name))
}

fn is_part(char: char) -> bool {
    char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_modules_are_told_from_other_words() {
        assert_eq!(named("e2e::kills::*"), Some(NamedTest::Module("kills")));
        assert_eq!(named("e2e::kills::a_killed_run_goes_on"), Some(NamedTest::Test("a_killed_run_goes_on")));
        assert_eq!(named("two_at_once"), Some(NamedTest::Test("two_at_once")));
        for other in ["moves::*", "--max-delete", "scan_done", "engine/eta.rs", "HAUL_NICE_RUN"] {
            assert_eq!(named(other), None, "{other}");
        }
    }
}
