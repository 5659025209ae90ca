//! Checks that no two types share a name, so that a name has one meaning wherever it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::lexer::{Token, TokenKind, tokens};
use super::tree::RepositoryFiles;

/// Names of one meaning that several crates give to a type of their own: each end has a tree, and each program a
/// command line. One crate has each of them once.
const ONE_MEANING: [&str; 16] = [
    "Attrs",
    "Cli",
    "Conn",
    "Fault",
    "Directory",
    "LargeFile",
    "LargeFileProgress",
    "LargeFiles",
    "Limits",
    "Lineage",
    "Looked",
    "PendingOffer",
    "StagedName",
    "Tree",
    "Walk",
    "Wish",
];
/// Its types stand in for those of the code that it includes.
const STAND_INS: &str = "fuzz";

/// Types with the name of another one, and names above that only one type has.
pub(crate) fn type_names(tree: &RepositoryFiles) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<(PathBuf, usize)>> = BTreeMap::new();
    for (path, text) in tree.texts("rs").filter(|(path, _)| !path.starts_with(STAND_INS)) {
        for (name, line) in defined(&tokens(text)) {
            places.entry(name).or_default().push((path.to_owned(), line));
        }
    }
    let mut found = Vec::new();
    for (name, places) in &places {
        let shared = ONE_MEANING.contains(&name.as_str());
        let crates: BTreeSet<&Path> = places.iter().map(|(path, _)| crate_of(path)).collect();
        if places.len() > 1 && !(shared && crates.len() == places.len()) {
            let at: Vec<String> =
                places.iter().map(|(path, line)| format!("{}:{line}", path.display())).collect();
            found.push(format!("`{name}` names several types: {}", at.join(", ")));
        }
    }
    let unique = |name: &&&str| places.get(**name).is_none_or(|places| places.len() < 2);
    found.extend(
        ONE_MEANING.iter().filter(unique).map(|name| format!("`{name}` needs no exception in type_names.rs")),
    );
    found
}

/// The directory of the crate of a file: the one above its `src` or `tests`.
fn crate_of(path: &Path) -> &Path {
    let is_root = |dir: &&Path| dir.ends_with("src") || dir.ends_with("tests");
    path.ancestors().filter(is_root).last().and_then(Path::parent).unwrap_or(path)
}

/// The types that the tokens define, with their lines. Associated types are not among them.
fn defined(tokens: &[Token]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    // Of each open brace: whether it is that of a module.
    let mut braces = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
        match &token.kind {
            TokenKind::Punct('{') => braces.push(before(2).is_some_and(|token| token.is_word("mod"))),
            TokenKind::Punct('}') => {
                braces.pop();
            }
            TokenKind::Word(name) if name.starts_with(|char: char| char.is_ascii_uppercase()) => {
                let keyword = before(1).and_then(Token::word);
                let defines = match keyword {
                    Some("struct" | "enum" | "trait" | "union") => true,
                    Some("type") => braces.iter().all(|is_module| *is_module),
                    _ => false,
                };
                if defines {
                    found.push((name.clone(), token.line));
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_and_associated_types_are_not() {
        let text = "struct One; mod inner { type Two = u8; enum Three {} }
            impl Iterator for One { type Item = u8; fn next() { trait Four {} } }
            fn of(one: One) -> Two { let union = Five; }";
        let names: Vec<String> = defined(&tokens(text)).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["One", "Two", "Three", "Four"]);
    }

    #[test]
    fn the_crate_of_a_file_is_above_its_sources() {
        for (file, dir) in [
            ("crates/ends/sftp/src/tests/server.rs", "crates/ends/sftp"),
            ("crates/cli/tests/e2e/main.rs", "crates/cli"),
            ("bench/src/main.rs", "bench"),
        ] {
            assert_eq!(crate_of(Path::new(file)), Path::new(dir), "{file}");
        }
    }
}
