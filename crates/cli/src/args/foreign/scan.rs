//! Words of other tools that look like locations: values of options that take none in haul, and options of robocopy.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use clap::{Arg, Command};
use haul_core::Location;

use super::behind::ValueShape;
use super::lookup::{PLAIN_WORDS, behind, canonical, option_advice, with_value, with_word};
use super::word::{WordVerdict, words};

/// A word of the command line that is no option.
struct FoundWord<'a> {
    text: &'a OsStr,
    /// The option right before it: it takes no value.
    after: Option<String>,
}

/// The error for the first word that is no location: `-P 2222` of scp, `/MIR` of robocopy. A word that names an existing
/// file is a location.
pub(crate) fn misplaced(command: &Command, words: &[OsString]) -> Option<String> {
    let typed = words.get(1)?.to_str()?;
    if let Some(line) = flat_list(typed, words) {
        return Some(line);
    }
    let found = locations(command, words.get(2..)?);
    let (_, sources) = found.split_last()?;
    // rsync's `-p 2024` behind one source may name a new destination; a source that does not exist fails anyway. Behind
    // two locations it is a value, and the one before it is the destination.
    let candidates = if found.len() > 2 { &found[..] } else { sources };
    let value = candidates.iter().find_map(|word| {
        let text = absent(word.text)?;
        let after = word.after.as_deref()?;
        let more = || if found.len() > 2 { with_word(typed, after, text) } else { None };
        let line = with_value(typed, after, text).or_else(more)?;
        Some(format!("{line} (no file here is named {text})"))
    });
    let file = || sources.iter().find_map(|word| file_of_ssh(typed, word));
    // robocopy ignores case. With a source that is missing, nobody means a new directory of that name.
    let any_case = sources.iter().any(|word| is_missing(word.text));
    value.or_else(file).or_else(|| {
        let switches = || found.iter().filter_map(|word| switch(typed, word.text, any_case));
        let ends = found.len() - switches().count();
        // A single letter may name a new destination; a longer name in capitals hardly does.
        let (name, text) = switches().find(|(name, _)| ends >= 2 || name.len() > 2)?;
        let advice = option_advice(typed, name)?.replacen(name, text, 1);
        Some(format!("{advice} (a directory of this name is {text}/)"))
    })
}

/// The error for `--no-R` with a list: in rsync the files of the list then lose their paths.
fn flat_list(command: &str, words: &[OsString]) -> Option<String> {
    let last = words.iter().rev().filter_map(|word| word.to_str());
    let relative =
        last.clone().find(|word| ["-R", "--relative", "--no-R", "--no-relative"].contains(word))?;
    let is_flat = relative.starts_with("--no") && last.clone().any(|word| word.starts_with("--files-from"));
    is_flat.then(|| {
        format!(
            "`{relative}` of rsync is not an option of `haul {command}` with --files-from: haul always keeps the paths \
             of a list below DST"
        )
    })
}

/// The error for a private key behind `-i` and a configuration behind `-F`, as with scp: nobody means to copy them to
/// another host.
fn file_of_ssh(command: &str, word: &FoundWord<'_>) -> Option<String> {
    let (name, text) = (word.after.as_deref()?, word.text.to_str()?);
    behind(command, name, text, |shape| match shape {
        ValueShape::Key => is_private_key(&start_of(Path::new(text))),
        ValueShape::Config => is_ssh_config(&start_of(Path::new(text))),
        _ => false,
    })
}

/// The beginning of a file; nothing if it cannot be read.
fn start_of(path: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    if path.metadata().is_ok_and(|metadata| metadata.is_file())
        && let Ok(file) = File::open(path)
    {
        let _ = file.take(4096).read_to_end(&mut start);
    }
    start
}

fn is_private_key(start: &[u8]) -> bool {
    let first = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    first.starts_with(b"-----BEGIN ") && first.ends_with(b"PRIVATE KEY-----")
}

/// Whether a line begins with `Host`, see ssh_config(5).
fn is_ssh_config(start: &[u8]) -> bool {
    let mut lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
    lines.any(|line| line.get(..5).is_some_and(|word| word.eq_ignore_ascii_case(b"Host ")))
}

/// The text, if no file has this name.
fn absent(text: &OsStr) -> Option<&str> {
    text.to_str().filter(|text| Path::new(text).symlink_metadata().is_err())
}

/// Whether this is a path on this machine, of which nothing is there.
fn is_missing(text: &OsStr) -> bool {
    absent(text).is_some_and(|text| {
        !text.starts_with('/') && matches!(Location::parse(text.as_bytes()), Ok(Location::Local(_)))
    })
}

/// The option of robocopy that a word is: its name in the table, and the word. Without a value and `any_case` only in
/// capitals: `/dst` is a path.
fn switch<'a>(command: &str, text: &'a OsStr, any_case: bool) -> Option<(&'static str, &'a str)> {
    let text = absent(text).filter(|text| text.starts_with('/'))?;
    let (name, value) = text.split_once(':').unwrap_or((text, ""));
    let upper = name.to_ascii_uppercase();
    let is_small = any_case && !PLAIN_WORDS.contains(&upper.as_str()) || !value.is_empty();
    let name = if is_small { upper } else { name.to_owned() };
    let own = canonical(command);
    let mut words = words().filter(|word| {
        word.tools == ["robocopy"] && word.at.contains(&own) && matches!(word.verdict, WordVerdict::Hint(_))
    });
    words.find_map(|word| word.names.iter().find(|other| **other == name)).map(|name| (*name, text))
}

/// The locations among the words behind a command.
fn locations<'a>(command: &Command, words: &'a [OsString]) -> Vec<FoundWord<'a>> {
    let (mut found, mut words, mut after) = (Vec::new(), words.iter(), None);
    while let Some(word) = words.next() {
        let bytes = word.as_encoded_bytes();
        if bytes == b"--" {
            break;
        }
        // fpsync's '-achv --delete' is a value.
        let is_option = bytes.len() > 1 && bytes[0] == b'-' && !(after.is_some() && bytes.contains(&b' '));
        let Some(text) = word.to_str().filter(|_| is_option) else {
            found.push(FoundWord { text: word, after: after.take() });
            continue;
        };
        after = None;
        match last_option(command, text) {
            Some((name, true)) => drop((name, words.next())),
            Some((name, false)) => after = Some(name),
            None => {}
        }
    }
    found
}

/// The last option of a word, and whether its value is the next word. `None` if the value is in the word.
fn last_option(command: &Command, word: &str) -> Option<(String, bool)> {
    let takes = |arg: &Arg| {
        let required = arg.get_num_args().is_none_or(|count| count.min_values() > 0);
        arg.get_action().takes_values() && required && !arg.is_require_equals_set()
    };
    if let Some(long) = word.strip_prefix("--") {
        let arg = (!long.contains('=')).then(|| command.get_arguments().find(|arg| has_long(arg, long)))?;
        return Some((word.to_owned(), arg.is_some_and(takes)));
    }
    let letters = word.get(1..)?;
    let mut last = None;
    for (at, letter) in letters.char_indices() {
        let arg = command.get_arguments().find(|arg| has_short(arg, letter));
        if arg.is_some_and(takes) {
            return (at + letter.len_utf8() == letters.len()).then(|| (format!("-{letter}"), true));
        }
        last = Some((format!("-{letter}"), false));
    }
    last
}

/// Whether an option has this long name or alias.
pub(crate) fn has_long(arg: &Arg, long: &str) -> bool {
    arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
}

fn has_short(arg: &Arg, short: char) -> bool {
    arg.get_short() == Some(short) || arg.get_all_short_aliases().is_some_and(|all| all.contains(&short))
}
