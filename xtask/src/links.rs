//! `cargo xtask links`: the links of all pages lead to files and headings that exist, also in the book.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::layout::RepositoryFiles;

/// The list of the pages of the book. The links beside it put them at their paths in the repository.
const SUMMARY: &str = "book/SUMMARY.md";

/// Directories that the book contains with all their files.
const WHOLE: [&str; 1] = ["docs"];

/// Prints each broken link. `Ok(false)`: there is one.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn run(root: &Path) -> io::Result<bool> {
    let tree = RepositoryFiles::read(root)?;
    let pages: BTreeMap<&Path, &str> = tree.texts("md").collect();
    let book: Vec<PathBuf> = pages
        .get(Path::new(SUMMARY))
        .into_iter()
        .flat_map(|text| links(text))
        .map(|(_, target)| PathBuf::from(target))
        .collect();
    let mut broken = Vec::new();
    for (page, text) in &pages {
        for (line, target) in links(text) {
            if let Some(why) = problem(root, &pages, &book, page, &target) {
                broken.push(format!("{}:{line}: {target}: {why}", page.display()));
            }
        }
    }
    // A page that the book lacks is found by nobody.
    for page in pages.keys().filter(|page| page.starts_with("docs")) {
        if !book.iter().any(|other| other == page) {
            broken.push(format!("{}: not in {SUMMARY}", page.display()));
        }
    }
    println!(
        "links: {}: every link leads to a file and a heading",
        if broken.is_empty() { "ok" } else { "FAILED" }
    );
    broken.iter().for_each(|line| println!("{line}"));
    Ok(broken.is_empty())
}

/// The problem with a link of a page.
fn problem(
    root: &Path,
    pages: &BTreeMap<&Path, &str>,
    book: &[PathBuf],
    page: &Path,
    target: &str,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    // The summary names the pages as the book does.
    let parent = if page == Path::new(SUMMARY) { Path::new("") } else { page.parent()? };
    let to = if path.is_empty() { page.to_owned() } else { normal(&parent.join(path)) };
    if !root.join(&to).exists() {
        return Some("no such file".to_owned());
    }
    if book.iter().any(|other| other == page) && !path.is_empty() {
        let is_page = to.extension().is_some_and(|extension| extension == "md");
        let inside = if is_page { book.contains(&to) } else { WHOLE.iter().any(|dir| to.starts_with(dir)) };
        if !inside {
            return Some("not in the book".to_owned());
        }
    }
    let headings = pages.get(to.as_path()).map(|text| anchors(text)).unwrap_or_default();
    let anchor = anchor?;
    (!headings.iter().any(|heading| heading == anchor)).then(|| "no such heading".to_owned())
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(parts.pop()),
            std::path::Component::CurDir => {}
            other => parts.push(other),
        }
    }
    parts
}

/// The lines outside of blocks of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let code = fenced || fence || line.starts_with("    ");
        (!code).then_some((number + 1, line))
    })
}

/// The targets of the links of a page, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Every other part is between backquotes. It has no links, but it may be the text of one.
        let bare: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
        for part in bare.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// The anchors of the headings of a page, as GitHub and mdBook make them.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name: String = kept.flat_map(char::to_lowercase).collect::<String>().replace(' ', "-");
        let before = found.iter().filter(|other| **other == name).count();
        found.push(if before == 0 { name } else { format!("{name}-{before}") });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "[a](b.md) `[c](d)` [`e`](f.md#g)\n```sh\n[h](i)\n```\n    [j](k)\n![l](m.svg)";
        let found: Vec<(usize, String)> = links(text);
        let expected = [(1, "b.md"), (1, "f.md#g"), (6, "m.svg")];
        assert_eq!(found, expected.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn headings_have_the_anchors_of_github() {
        let text = "# Two words\n## sync: `x`, (and) more\n```sh\n# a comment\n```\n## Two words\n#hash";
        assert_eq!(anchors(text), ["two-words", "sync-x-and-more", "two-words-1"]);
    }

    #[test]
    fn a_broken_link_is_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages = BTreeMap::from([(Path::new("README.md"), "# Here"), (Path::new("docs/a.md"), "# There")]);
        let problem =
            |target: &str| problem(&root, &pages, &["README.md".into()], Path::new("README.md"), target);
        assert_eq!(problem("#here"), None);
        assert_eq!(problem("https://example.org/x"), None);
        assert_eq!(problem("#there").as_deref(), Some("no such heading"));
        assert_eq!(problem("docs/none.md").as_deref(), Some("no such file"));
        assert_eq!(problem("CONTRIBUTING.md").as_deref(), Some("not in the book"));
    }
}
