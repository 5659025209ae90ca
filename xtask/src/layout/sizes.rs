//! Checks the lengths of files and functions.

use std::path::Path;

use super::modules::Crate;
use super::tree::RepositoryFiles;

/// Lines of a source file, at most.
const MOST_FILE_LINES: usize = 500;

/// A function with more lines is long.
const LONG_FUNCTION: usize = 60;

/// Long functions in the whole repository, at most.
const MOST_LONG_FUNCTIONS: usize = 10;

/// Source files that are too long.
pub(crate) fn files(tree: &RepositoryFiles) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.texts("rs") {
        let lines = text.lines().count();
        if lines > MOST_FILE_LINES {
            found.push(format!("{}: {lines} lines, {MOST_FILE_LINES} are allowed", path.display()));
        }
    }
    found
}

/// The long functions outside of tests, if there are too many.
pub(crate) fn functions(crates: &[Crate], repository: &Path) -> Vec<String> {
    let mut long = Vec::new();
    for file in crates.iter().flat_map(|krate| &krate.files) {
        let path = file.path.strip_prefix(repository).unwrap_or(&file.path).display();
        for function in file.source.functions.iter().filter(|function| function.lines > LONG_FUNCTION) {
            long.push((function.lines, format!("{path}:{}: {}", function.line, function.name)));
        }
    }
    if long.len() <= MOST_LONG_FUNCTIONS {
        return Vec::new();
    }
    long.sort_by(|a, b| b.cmp(a));
    let count = format!(
        "{} functions have more than {LONG_FUNCTION} lines, {MOST_LONG_FUNCTIONS} are allowed:",
        long.len()
    );
    std::iter::once(count)
        .chain(long.into_iter().map(|(lines, place)| format!("  {place}: {lines} lines")))
        .collect()
}
