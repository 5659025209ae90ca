//! Runs the checks and prints the problems that they find.

use std::io;
use std::path::{Path, PathBuf};

use super::clauses::clauses;
use super::cycles::cycles;
use super::glossary::glossary;
use super::modules::Crate;
use super::orphans::orphans;
use super::promises::promises;
use super::tree::RepositoryFiles;
use super::type_names::type_names;
use super::{layers, sizes, words};

/// The checks, each with its rule.
pub(crate) const CHECKS: [(&str, &str); 10] = [
    ("cycles", "no cycle in the graph of `use` between the files of a crate"),
    ("orphans", "every source file is part of its crate"),
    ("files", "no source file over 500 lines"),
    ("functions", "at most 10 functions over 60 lines"),
    ("words", "no word that docs/GLOSSARY.md has retired"),
    ("clauses", "no `what` in place of a noun in comments and documents"),
    ("glossary", "at most 40 terms in docs/GLOSSARY.md, in order"),
    ("types", "no two types with one name, but for those that type_names.rs lists"),
    ("promises", "every test that SEMANTICS.md names exists"),
    ("layers", "each crate depends on crates of lower layers only"),
];

/// Runs the checks of the names `chosen`, or all. `Ok(false)`: one has failed.
///
/// # Errors
/// If a source file cannot be read.
pub(crate) fn run(root: &Path, chosen: &[&str]) -> io::Result<bool> {
    let tree = RepositoryFiles::read(root)?;
    let crates = crates(root, &tree)?;
    let mut passed = true;
    for (name, rule) in CHECKS {
        if !chosen.is_empty() && !chosen.contains(&name) {
            continue;
        }
        let found = match name {
            "cycles" => crates.iter().flat_map(|krate| cycles(krate, root)).collect(),
            "orphans" => orphans(&tree),
            "files" => sizes::files(&tree),
            "functions" => sizes::functions(&crates, root),
            "words" => words::words(&tree),
            "clauses" => clauses(&tree),
            "glossary" => glossary(&tree),
            "types" => type_names(&tree),
            "promises" => promises(&tree),
            _ => layers::layers(&tree),
        };
        println!("{name}: {}: {rule}", if found.is_empty() { "ok" } else { "FAILED" });
        found.iter().for_each(|problem| println!("{problem}"));
        passed &= found.is_empty();
    }
    Ok(passed)
}

/// Every library and program of the repository.
fn crates(root: &Path, tree: &RepositoryFiles) -> io::Result<Vec<Crate>> {
    let manifests = tree.texts("toml").filter(|(path, _)| path.ends_with("Cargo.toml"));
    let roots = manifests.flat_map(|(path, _)| {
        let source = root.join(path.with_file_name("src"));
        [source.join("lib.rs"), source.join("main.rs")]
    });
    roots.filter(|path: &PathBuf| path.exists()).map(|path| Crate::read(&path)).collect()
}
