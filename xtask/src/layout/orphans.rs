//! Checks that the compiler sees every source file: a file that no `mod` names is dead code without a warning.

use std::path::Path;

use super::tree::RepositoryFiles;

/// Files below a `src` directory that no other file of their crate names.
pub(crate) fn orphans(tree: &RepositoryFiles) -> Vec<String> {
    let sources: Vec<(&Path, &str)> = tree.texts("rs").collect();
    let is_named = |path: &Path| {
        sources.iter().any(|(other, text)| *other != path && same_source(other, path) && names(text, path))
    };
    let orphans = sources.iter().filter(|(path, _)| is_in_source(path) && !is_root(path) && !is_named(path));
    orphans.map(|(path, _)| format!("{}: no `mod` names it", path.display())).collect()
}

fn is_in_source(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "src")
}

/// Whether cargo finds it by itself.
fn is_root(path: &Path) -> bool {
    ["src/lib.rs", "src/main.rs"].iter().any(|root| path.ends_with(root))
}

/// Whether both are below the same `src` directory.
fn same_source(one: &Path, other: &Path) -> bool {
    let source = |path: &Path| path.ancestors().filter(|dir| dir.ends_with("src")).last().map(Path::to_owned);
    source(one) == source(other)
}

/// Whether a text has a `mod` of the file, or its path in an attribute.
fn names(text: &str, path: &Path) -> bool {
    let is_directory = path.ends_with("mod.rs");
    let named = if is_directory { path.parent().and_then(Path::file_name) } else { path.file_stem() };
    let (Some(name), Some(file)) = (named, path.file_name()) else { return false };
    let (name, file) = (name.to_string_lossy(), file.to_string_lossy());
    let (declared, attribute) = (format!("mod {name};"), format!("{file}\"]"));
    text.lines().map(str::trim).any(|line| {
        let is_attribute = !is_directory && line.starts_with("#[path = \"") && line.ends_with(&attribute);
        line == declared || line.ends_with(&format!(" {declared}")) || is_attribute
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_module_or_its_path() {
        let path = Path::new("crates/a/src/b/c.rs");
        for text in ["mod c;", "#[cfg(test)]\npub(crate) mod c;", "#[path = \"b/c.rs\"]\nmod other;"] {
            assert!(names(text, path), "{text}");
        }
        for text in ["", "mod cc;", "// see c.rs", "use c;"] {
            assert!(!names(text, path), "{text}");
        }
        assert!(names("mod b;", Path::new("crates/a/src/b/mod.rs")));
        assert!(!names("mod b;", path));
    }

    #[test]
    fn crates_are_told_apart() {
        let file = Path::new("crates/a/src/c.rs");
        assert!(same_source(file, Path::new("crates/a/src/lib.rs")));
        assert!(!same_source(file, Path::new("crates/b/src/lib.rs")));
        assert!(is_root(Path::new("crates/a/src/lib.rs")) && !is_root(file));
        assert!(is_in_source(file) && !is_in_source(Path::new("crates/a/tests/c.rs")));
    }
}
