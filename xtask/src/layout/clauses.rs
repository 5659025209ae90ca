//! Finds relative clauses with `what` in comments and documents: they hide the noun that a reader looks for.

use std::path::Path;

use super::tree::RepositoryFiles;

/// Each comment and each line of a document with the word `what`. Questions may have it, and so may code.
pub(crate) fn clauses(tree: &RepositoryFiles) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.all() {
        for line in lines(path, text) {
            found.push(format!("{}:{line}: `what` in place of a noun", path.display()));
        }
    }
    found
}

/// The numbers of the lines with the word.
fn lines(path: &Path, text: &str) -> Vec<usize> {
    let is_prose = match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => |line: &str| comment(line).is_some_and(|comment| has_it(&without_code(comment))),
        Some("md") => |line: &str| !line.contains('?') && has_it(&without_code(line)),
        _ => return Vec::new(),
    };
    let numbered = text.lines().zip(1..);
    numbered.filter(|(line, _)| is_prose(line)).map(|(_, number)| number).collect()
}

/// The comment of a line. Between blanks two slashes begin a comment; in `https://` they do not.
fn comment(line: &str) -> Option<&str> {
    let trimmed = line.trim_start();
    if trimmed.starts_with("//") {
        Some(trimmed)
    } else {
        line.split_once(" // ").map(|(_, comment)| comment)
    }
}

/// The line without the parts between backquotes.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

fn has_it(text: &str) -> bool {
    text.split(|char: char| !char.is_alphanumeric()).any(|word| word.eq_ignore_ascii_case("what"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<usize> {
        lines(Path::new(name), text)
    }

    #[test]
    fn comments_are_read_and_code_is_not() {
        // The slashes are apart, as this file is checked too.
        let text = "let what = 1; $ the size\n$/ What it is.\nf(what); $ of what is left\n\"https:$what\"\n$/ `what`";
        assert_eq!(found("a.rs", &text.replace('$', "//")), [2, 3]);
    }

    #[test]
    fn documents_may_ask_and_may_have_code() {
        assert_eq!(found("a.md", "It says what it did.\nThe field `what`.\nWhat are these?\nSomewhat"), [1]);
        assert_eq!(found("a.txt", "what"), []);
    }
}
