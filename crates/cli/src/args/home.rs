//! `~/` at the start of a file that an option names, as in `--log-file=~/haul.log`: shells expand it only at the start of
//! a word.

use std::any::TypeId;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

use super::foreign;

/// The words of a command line, with the home directory in the place of `~` where an option of `command` names a file of
/// this machine; `None` if that changes nothing.
pub(super) fn with_home(words: &[OsString], command: &Command, home: Option<&Path>) -> Option<Vec<OsString>> {
    let home = home?;
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut all = words.to_vec();
    let mut is_changed = false;
    for word in all.iter_mut().take(end) {
        if let Some(expanded) = expanded(word, command, home) {
            *word = expanded;
            is_changed = true;
        }
    }
    is_changed.then_some(all)
}

fn expanded(word: &OsStr, command: &Command, home: &Path) -> Option<OsString> {
    let bytes = word.as_bytes();
    let at = bytes.windows(3).position(|part| part == b"=~/")?;
    let long =
        str::from_utf8(bytes.get(..at)?).ok()?.strip_prefix("--").filter(|long| !long.contains('='))?;
    let is_file = |arg: &Arg| foreign::has_long(arg, long) && names_local_file(arg);
    if !command.get_arguments().any(is_file) {
        return None;
    }
    let (option, path) = (bytes.get(..=at)?, bytes.get(at + 3..)?);
    let mut expanded = OsStr::from_bytes(option).to_owned();
    expanded.push(home.join(OsStr::from_bytes(path)));
    Some(expanded)
}

/// Whether the values of an option are files or directories of this machine.
fn names_local_file(arg: &Arg) -> bool {
    names_files(arg)
        || arg.get_action().takes_values() && arg.get_value_parser().type_id() == TypeId::of::<PathBuf>()
}

/// Whether the values of an option are files of this machine.
pub(crate) fn names_files(arg: &Arg) -> bool {
    arg.get_value_names().is_some_and(|names| names.iter().any(|name| *name == "FILE"))
}

#[cfg(test)]
mod tests {
    use super::super::parse::parser;
    use super::*;

    #[test]
    fn a_tilde_in_the_value_of_a_file_is_the_home_directory() {
        let of = |command: &str, word: &str| {
            let words = ["haul", command, word, "--", "--log-file=~/y"].map(OsString::from);
            let parser = parser(command);
            let own = parser.find_subcommand(command).unwrap();
            let found = with_home(&words, own, Some(Path::new("/home/me")));
            assert!(found.as_ref().is_none_or(|words| words[4] == "--log-file=~/y"), "behind the options");
            found.map(|words| words[2].to_str().unwrap().to_owned())
        };
        for (command, word, expected) in [
            ("ls", "--smb-credentials=~/x", "--smb-credentials=/home/me/x"),
            ("copy", "--log-file=~/a=~/b", "--log-file=/home/me/a=~/b"),
            ("copy", "--sign=~/.ssh/key", "--sign=/home/me/.ssh/key"),
            ("put", "--ca-cert=~/", "--ca-cert=/home/me/"),
        ] {
            assert_eq!(of(command, word).as_deref(), Some(expected));
        }
        for (command, word) in [
            ("copy", "--log-file=~"),
            ("copy", "--log-file=x/~/y"),
            ("copy", "--exclude=~/x"),
            ("copy", "--link-dest=~/x"),
            ("copy", "--remote-haul=~/bin/haul"),
            ("copy", "nas=~/x"),
        ] {
            assert_eq!(of(command, word), None, "{word}");
        }
    }
}
