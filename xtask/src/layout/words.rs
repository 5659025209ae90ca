//! Finds words that docs/GLOSSARY.md has retired.

use std::path::Path;

use super::tree::RepositoryFiles;

/// Retired words and phrases, each with the term that takes its place. In identifiers a word counts as a part of its own
/// (`is_giant`, `GiantFile`), and an `s` at its end is ignored.
const RETIRED: [(&[&str], &str); 22] = [
    (&["giant"], "large file"),
    (&["lane"], "connection"),
    (&["keeper"], "supervisor"),
    (&["housekeeper"], "flusher"),
    (&["companion"], "sidecar"),
    (&["crew"], "thread pool"),
    (&["underway"], "in flight"),
    (&["distant"], "network file system, or remote"),
    (&["pulse"], "liveness"),
    (&["far", "end"], "remote end"),
    (&["near", "end"], "local end"),
    (&["far", "side"], "remote end"),
    (&["hub"], "session"),
    (&["neighbour"], "puller (third-party copy)"),
    (&["governor"], "rate controller, or concurrency limiter"),
    (&["patience"], "timeout, or retry policy"),
    (&["restless"], "unstable"),
    (&["soiled"], "dirty"),
    (&["lively"], "responsive"),
    (&["unhurt"], "healthy"),
    (&["backend"], "end"),
    (&["folder"], "directory"),
];

/// Places where a word has another meaning: a part of a path, and the word.
const OTHER_MEANINGS: [(&str, &str); 11] = [
    // The governor of the processor's frequency.
    ("probe", "governor"),
    ("crates/wire/src/tests/samples.rs", "governor"),
    // A word in the output of libFuzzer.
    ("scripts/fuzz", "pulse"),
    // An option of Azurite or SeaweedFS.
    ("crates/testkit/src/store", "backend"),
    // A function of reqwest.
    ("crates/object/src/http/exchange.rs", "backend"),
    // Keys of JSON, which programs read.
    ("docs/JSON.md", "folder"),
    ("crates/cli/src/render/json", "folder"),
    ("crates/cli/src/jobs/record.rs", "folder"),
    ("crates/plan/src/tally.rs", "folder"),
    ("crates/cli/tests/e2e/plan.rs", "folder"),
    ("crates/cli/tests/e2e/indexed.rs", "folder"),
];

/// Files that are not read: lists of names that others chose, and this list.
const SKIPPED: [&str; 3] = ["Cargo.lock", "fuzz/Cargo.lock", "xtask/src/layout/words.rs"];

/// Each place of a retired word.
pub(crate) fn words(tree: &RepositoryFiles) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.all().filter(|(path, _)| is_read(path)) {
        for (line, word, term) in retired(text) {
            let path_text = path.to_string_lossy();
            if OTHER_MEANINGS.iter().any(|(place, other)| path_text.contains(place) && word == *other) {
                continue;
            }
            found.push(format!("{}:{line}: `{word}`: the term is {term}", path.display()));
        }
    }
    found
}

fn is_read(path: &Path) -> bool {
    let skipped = SKIPPED.iter().any(|name| path == Path::new(name));
    !skipped && path.extension().is_none_or(|extension| extension != "svg")
}

/// A part of the text: a word in lower case, where it is, and whether only blanks and comment signs precede it.
struct Part {
    word: String,
    line: usize,
    follows: bool,
}

fn retired(text: &str) -> Vec<(usize, String, &'static str)> {
    let parts = parts(text);
    let mut found = Vec::new();
    for at in 0..parts.len() {
        for (phrase, term) in RETIRED {
            let Some(here) = parts.get(at..at + phrase.len()) else { continue };
            let same = here.iter().zip(phrase).all(|(part, word)| is_word(&part.word, word));
            if same && here[1..].iter().all(|part| part.follows) {
                found.push((here[0].line, phrase.join(" "), term));
            }
        }
    }
    found
}

fn is_word(found: &str, word: &str) -> bool {
    found == word || found.strip_suffix('s') == Some(word)
}

/// Splits text into words, and identifiers into the words that they are made of.
fn parts(text: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let (mut line, mut follows, mut last) = (1, false, ' ');
    // A name of its own, not a hub.
    for char in text.replace("GitHub", "Github").chars() {
        if char.is_alphabetic() {
            let starts = !last.is_alphabetic() || last.is_lowercase() && char.is_uppercase();
            if starts {
                parts.push(Part { word: String::new(), line, follows });
            }
            if let Some(part) = parts.last_mut() {
                part.word.extend(char.to_lowercase());
            }
            follows = true;
        } else if !char.is_whitespace() && !['/', '!', '#', '*', '_', '-'].contains(&char) {
            follows = false;
        }
        line += usize::from(char == '\n');
        last = char;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        retired(text).into_iter().map(|(line, word, _)| (line, word)).collect()
    }

    #[test]
    fn words_are_found_in_text_and_in_identifiers() {
        assert_eq!(found("a\nis_giant"), [(2, "giant".to_owned())]);
        assert_eq!(found("TwoGiants, Lanes"), [(1, "giant".to_owned()), (1, "lane".to_owned())]);
        assert_eq!(found("a plane, gigantic; GitHub"), []);
    }

    #[test]
    fn phrases_are_found_across_lines() {
        assert_eq!(found("the far\n/// end of it"), [(1, "far end".to_owned())]);
        assert_eq!(found("so far. End"), []);
    }
}
