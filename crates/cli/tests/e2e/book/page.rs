//! A page of the book: its blocks in their order, and whether the output of haul is that of the page.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// A block between the paragraphs of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PageBlock {
    /// Commands that are shown and run: a fence marked `sh`.
    Shell(String),
    /// Commands that are run and not shown: a comment that begins with `test`.
    Hidden(String),
    /// The output of the commands before it: a fence marked `output`.
    Output(String),
    /// Commands that are shown and not run (`sh,ignore`), and why not: the comment `not run: REASON` before them.
    Ignored { reason: String, text: String },
    /// Another fence: its mark.
    Other(String),
}

/// The root of the repository.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a page, by its path in the repository.
pub(super) fn text(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// The pages of the book, by their paths in the repository.
pub(super) fn pages() -> Vec<String> {
    let links = |line: &str| Some(line.split_once("](")?.1.split_once(')')?.0.to_owned());
    text("book/SUMMARY.md").lines().filter_map(links).collect()
}

/// The blocks of a page.
pub(super) fn blocks(text: &str) -> Vec<PageBlock> {
    let (mut blocks, mut reason) = (Vec::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut until = |end: &str| {
            let inside: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != end).collect();
            inside.join("\n") + "\n"
        };
        if let Some(why) = line.strip_prefix("<!-- not run: ") {
            reason = why.trim_end_matches("-->").trim().to_owned();
        } else if line.trim() == "<!-- test" {
            blocks.push(PageBlock::Hidden(until("-->")));
        } else if let Some(mark) = line.trim().strip_prefix("```") {
            let inside = until("```");
            blocks.push(match mark {
                "sh" => PageBlock::Shell(inside),
                "output" => PageBlock::Output(inside),
                "sh,ignore" => PageBlock::Ignored { reason: std::mem::take(&mut reason), text: inside },
                other => PageBlock::Other(other.to_owned()),
            });
        }
    }
    blocks
}

/// One script of all commands of a page. Each block writes its output to a file of its number.
pub(super) fn script(blocks: &[PageBlock], output: &str) -> String {
    let mut script = String::new();
    for (number, block) in blocks.iter().enumerate() {
        if let PageBlock::Shell(text) | PageBlock::Hidden(text) = block {
            let _ = write!(script, "{{\n{text}}} >{output}/{number} 2>&1\n");
        }
    }
    script
}

/// The first line of `shown` that is not in `printed`, or not after the line before it. Numbers and units may differ.
pub(super) fn missing<'a>(shown: &'a str, printed: &str) -> Option<&'a str> {
    let mut lines = printed.lines().map(masked);
    shown.lines().find(|line| {
        let line = masked(line);
        // Three dots stand for lines that are left out.
        line != "..." && !lines.any(|other| other == line)
    })
}

/// The line with one sign for each amount, with or without a unit.
fn masked(line: &str) -> String {
    const UNITS: [&str; 14] =
        ["B", "KiB", "MiB", "GiB", "TiB", "B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s", "s", "min", "h", "d"];
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let unit = word.trim_end_matches(['(', ')', ',', ':', ';']);
        match words.last_mut() {
            Some(last) if last.ends_with('#') && UNITS.contains(&unit) => last.push_str(&word[unit.len()..]),
            _ => words.push(without_digits(word)),
        }
    }
    words.join(" ")
}

/// The word with one sign for each number in it.
fn without_digits(word: &str) -> String {
    let chars: Vec<char> = word.chars().collect();
    let digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let mut masked = String::new();
    for (at, char) in chars.iter().enumerate() {
        let separates = at > 0 && [',', '.'].contains(char) && digit(at - 1) && digit(at + 1);
        if !digit(at) && !separates {
            masked.push(*char);
        } else if !masked.ends_with('#') {
            masked.push('#');
        }
    }
    masked
}
