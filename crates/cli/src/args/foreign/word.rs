//! A word of another tool, and how haul treats it.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::table::rows;
use crate::args::COMMANDS;

/// The tools, in the order of the documentation.
#[cfg(test)]
pub(super) const TOOLS: [&str; 11] =
    ["rsync", "rclone", "scp", "mscp", "fpsync", "xbcloud", "aws s3", "s5cmd", "mc", "robocopy", "coreutils"];

/// Commands that the tables name together.
const SETS: [(&str, &[&str]); 11] = [
    // All commands that take locations.
    ("all", &COMMANDS),
    // Commands that write trees.
    ("trees", &["copy", "sync"]),
    // Commands with the options of `copy` that compare.
    ("compares", &["copy", "sync", "verify"]),
    // Commands that read trees, also from hosts and stores.
    ("reads", &["copy", "sync", "verify", "hash"]),
    // Commands that take hosts.
    ("hosts", &["copy", "sync", "verify", "hash", "plan", "probe"]),
    // Commands that select by size and age.
    ("selects", &["copy", "sync", "verify", "hash", "plan", "probe", "ls", "rm"]),
    // Commands for streams.
    ("streams", &["put", "get"]),
    // Commands for objects.
    ("objects", &["put", "get", "ls", "rm"]),
    // Commands that use object stores.
    (
        "stores",
        &["copy", "sync", "verify", "hash", "put", "get", "index", "ls", "rm", "stat", "mb", "rb", "presign"],
    ),
    // Commands with `--json`.
    ("reports", &["copy", "sync", "verify", "plan", "probe", "put", "get", "ls"]),
    // Commands with `--log-file`.
    ("logged", &["copy", "sync", "verify", "plan", "probe", "put", "get"]),
];

/// The commands that a row names: a set, or each of them.
pub(super) fn commands(names: &'static str) -> Cow<'static, [&'static str]> {
    let set = SETS.iter().find(|(set, _)| *set == names);
    set.map_or_else(|| names.split(' ').collect(), |(_, commands)| Cow::Borrowed(*commands))
}

/// The tools that a row names.
pub(super) fn tools(names: &'static str) -> Vec<&'static str> {
    names.split(", ").collect()
}

/// How haul treats a word. `words.txt` explains each.
#[derive(Clone, Copy, Debug)]
pub(super) enum WordVerdict {
    Default,
    DefaultValue(&'static str),
    Undoes(&'static str),
    Same(&'static str),
    Means(&'static str, &'static str),
    /// Refused with this advice.
    Hint(&'static str),
}

impl WordVerdict {
    fn parse(text: &'static str) -> Self {
        match text.splitn(3, ' ').collect::<Vec<_>>()[..] {
            ["default"] => Self::Default,
            ["default", value] => Self::DefaultValue(value),
            ["undoes", option] => Self::Undoes(option),
            ["same", option] => Self::Same(option),
            ["means", option, value] => Self::Means(option, value),
            _ => Self::Hint(text),
        }
    }
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) names: Vec<&'static str>,
    /// The tools that have the word.
    pub(super) tools: Vec<&'static str>,
    /// The commands of haul that the row is for.
    pub(super) at: Cow<'static, [&'static str]>,
    pub(super) verdict: WordVerdict,
}

/// The whole table.
pub(super) fn words() -> impl Iterator<Item = &'static Word> {
    static WORDS: LazyLock<Vec<Word>> = LazyLock::new(|| {
        let word = |[names, of, at, verdict]: [&'static str; 4]| Word {
            names: names.split(' ').collect(),
            tools: tools(of),
            at: commands(at),
            verdict: WordVerdict::parse(verdict),
        };
        rows(include_str!("words.txt")).map(word).collect()
    });
    WORDS.iter()
}
