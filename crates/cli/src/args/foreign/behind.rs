//! Values that other tools take behind a word that is an option without value in haul.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::table::rows;
use super::word::{commands, tools};

/// How the values look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueShape {
    /// `2222`.
    Number,
    /// `100`, `64M`, `1.5GiB`.
    Size,
    /// `10s`, `1m30s`.
    Duration,
    /// `Port=22`.
    Assignment,
    /// `'-achv --delete'`.
    Options,
    /// `id_ed25519`, `.ssh/x`, `key`, `x.pem`; also the name of a file that is a private key.
    Key,
    /// `ssh_config`, `.ssh/config`.
    Config,
    /// Anything, if it stands before a source and a destination.
    Word,
    /// One of these, separated by commas, or a longer word that begins with one.
    Begins(&'static str),
}

impl ValueShape {
    fn parse(word: &'static str) -> Self {
        match word {
            "NUMBER" => Self::Number,
            "SIZE" => Self::Size,
            "DURATION" => Self::Duration,
            "ASSIGNMENT" => Self::Assignment,
            "OPTIONS" => Self::Options,
            "KEY" => Self::Key,
            "CONFIG" => Self::Config,
            "WORD" => Self::Word,
            words => Self::Begins(words),
        }
    }

    pub(super) fn fits(self, text: &str) -> bool {
        let digits = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let starts = text.starts_with(|c: char| c.is_ascii_digit());
        match self {
            Self::Number => starts && text.len() < 8 && text.bytes().all(|byte| byte.is_ascii_digit()),
            Self::Size => {
                let unit = digits.trim_end_matches("iB").trim_end_matches(['B', 'b']);
                starts && (unit.is_empty() || unit.len() == 1 && "kKmMgGtT".contains(unit))
            }
            Self::Duration => {
                starts && !digits.is_empty() && text.ends_with(['s', 'm', 'h']) && {
                    text.chars().all(|c| c.is_ascii_digit() || ".smh".contains(c))
                }
            }
            Self::Assignment => text.split_once('=').is_some_and(|(name, value)| {
                let letters = |c: char| c.is_ascii_alphanumeric() || c == '-';
                !name.is_empty() && !value.is_empty() && name.chars().all(letters)
            }),
            Self::Options => text.starts_with('-') && text.contains(' '),
            Self::Key => {
                let name = text.rsplit('/').next().unwrap_or(text);
                name.starts_with("id_")
                    || name.ends_with(".pem")
                    || name.contains("key")
                    || text.contains(".ssh/")
            }
            Self::Config => text.contains("ssh") && text.contains("conf"),
            Self::Word => true,
            Self::Begins(words) => words.split(',').any(|word| text.starts_with(word)),
        }
    }
}

/// A word that is an option without value in haul.
#[derive(Clone, Debug)]
pub(super) struct FlagWord {
    pub(super) name: &'static str,
    pub(super) shape: ValueShape,
    pub(super) tools: Vec<&'static str>,
    pub(super) at: Cow<'static, [&'static str]>,
    pub(super) advice: &'static str,
}

pub(super) static BEHIND: LazyLock<Vec<FlagWord>> = LazyLock::new(|| {
    let behind = |[word, of, at, advice]: [&'static str; 4]| {
        let (name, shape) = word.split_once(' ').unwrap_or((word, ""));
        FlagWord { name, shape: ValueShape::parse(shape), tools: tools(of), at: commands(at), advice }
    };
    rows(include_str!("behind.txt")).map(behind).collect()
});
