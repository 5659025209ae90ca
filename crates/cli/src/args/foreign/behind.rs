//! Values that other tools take behind a word that is an option without value in haul. haul would take them for
//! locations: `-P 2222` of scp, `-n 8` of mscp.

use super::word::Tool::{self, Aws, Fpsync, Mc, Mscp, Rclone, S5cmd, Scp};
use super::word::{COMPARES, TREES};

/// How the values look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
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
    /// `id_ed25519`, `.ssh/key`, `key.pem`; also the name of a file that is a private key.
    Key,
    /// One of these, or a longer word that begins with one.
    Begins(&'static [&'static str]),
}

impl Shape {
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
                name.starts_with("id_") || name.ends_with(".pem") || text.contains(".ssh/")
            }
            Self::Begins(words) => words.iter().any(|word| text.starts_with(word)),
        }
    }
}

/// A word that is an option without value in haul.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) tools: &'static [Tool],
    pub(super) at: &'static [&'static str],
    pub(super) advice: &'static str,
}

const fn behind(
    name: &'static str,
    shape: Shape,
    tools: &'static [Tool],
    at: &'static [&'static str],
    advice: &'static str,
) -> Behind {
    Behind { name, shape, tools, at, advice }
}

const PORT: &str = "give the port with -e 'ssh -p PORT', or as ssh://host:PORT/PATH";
const STREAMS: &str = "haul adapts the number of connections itself: omit it (--streams is the upper bound)";
const KEY: &str = "for a key of ssh, use -e 'ssh -i KEY'";
const SIZES: &str = "haul splits large files itself: omit it";
const OTHER_SHELL: &str = "give options of ssh with -e, as in -e 'ssh -o Compression=no'";

pub(super) const BEHIND: &[Behind] = &[
    behind("-P", Shape::Number, &[Scp, Mscp], COMPARES, PORT),
    behind(
        "-p",
        Shape::Size,
        &[S5cmd],
        COMPARES,
        "haul adapts the size of parts itself: omit it (for a port, use -e 'ssh -p PORT')",
    ),
    behind("-i", Shape::Key, &[Scp, Mscp], TREES, KEY),
    behind("-n", Shape::Number, &[Mscp, Fpsync], COMPARES, STREAMS),
    behind("-l", Shape::Number, &[Scp], TREES, "use --bwlimit RATE, as in --bwlimit 8Mbit"),
    behind("-s", Shape::Size, &[Mscp, Fpsync], COMPARES, SIZES),
    behind("-S", Shape::Size, &[Mscp], COMPARES, SIZES),
    behind("-b", Shape::Size, &[Mscp], TREES, "haul adapts its buffers itself: omit it"),
    behind("-L", Shape::Size, &[Mscp], TREES, "use --bwlimit RATE, as in --bwlimit 8Mbit"),
    behind("-I", Shape::Number, &[Mscp], TREES, "haul paces its logins itself: omit it"),
    behind("-o", Shape::Assignment, &[Scp, Mscp], COMPARES, OTHER_SHELL),
    behind(
        "-o",
        Shape::Options,
        &[Fpsync],
        TREES,
        "give the options of rsync themselves, as in `haul sync -a SRC DST`",
    ),
    behind("-c", Shape::Number, &[S5cmd], COMPARES, STREAMS),
    behind(
        "-c",
        Shape::Begins(&["aes128-", "aes192-", "aes256-", "chacha20-", "3des-"]),
        &[Scp, Mscp],
        COMPARES,
        "give the cipher with -e 'ssh -c CIPHER'",
    ),
    behind(
        "-g",
        Shape::Begins(&["bbr", "cubic", "reno", "htcp", "bic", "westwood", "vegas", "dctcp"]),
        &[Mscp],
        COMPARES,
        "use --congestion NAME",
    ),
    behind(
        "--stats",
        Shape::Duration,
        &[Rclone],
        COMPARES,
        "haul shows progress by itself: omit it (--progress without a terminal)",
    ),
    behind(
        "--metadata",
        Shape::Assignment,
        &[Aws],
        TREES,
        "haul has no user metadata for trees; `haul put --metadata NAME=VALUE` sets it for one object",
    ),
    behind(
        "--checksum",
        Shape::Begins(&["CRC", "SHA", "MD5"]),
        &[Mc],
        COMPARES,
        "haul always verifies with BLAKE3, and with a checksum of the store: omit it",
    ),
];
