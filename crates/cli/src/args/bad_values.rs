//! Tries each option with values that it must refuse. The options come from the parser itself.

use std::ffi::OsString;

use clap::{Arg, Command};

use super::parse::is_checked;
use super::refused::REQUIRING;
use super::{RefusedCommand, command, parse};

/// Values that suit few options: words, nothing, numbers that are negative, broken or too large.
const BAD: [&str; 7] =
    ["x y", "", "-1", "-5K", "1.2.3", "99999999999999999999999999", "99999999999999999999999999d"];
/// Of these, those that an option takes.
const GOOD: [(&str, &str); 1] = [("--modify-window", "-1")];
/// One of these is in each line: the words before the values that the option takes.
const TAKEN: [&str; 7] =
    [" from ", " are like ", " not one of ", " is not NAME", " as in ", " lists them", "`off` is"];
/// Options and arguments whose values are text or paths, of which any can be meant.
const FREE: [&str; 52] = [
    "unpack",
    "member",
    "first",
    "into",
    "from",
    "filter",
    "rsync-filter-files",
    "exclude_if_present",
    "profile",
    "ca_cert",
    "smb_credentials",
    "link_dest",
    "compare_dest",
    "backup_dir",
    "suffix",
    "rsh",
    "remote_haul",
    "congestion",
    "index",
    "failed",
    "log_file",
    "files_from",
    "exclude",
    "include",
    "exclude-from",
    "include-from",
    "manifest",
    "sign",
    "allowed_signers",
    "endpoint",
    "region",
    "storage_class",
    "sse",
    "sse_kms_key_id",
    "encrypt",
    "encrypt_file",
    "identity",
    "fifo_dir",
    "unfit",
    "probe",
    "lists",
    "root",
    "ends",
    "source",
    "file",
    "destinations",
    "command",
    "place",
    "word",
    "places",
    "rate",
    "dir",
];

/// Each command with its words, those below commands too.
fn commands() -> Vec<(Vec<String>, Command)> {
    let mut all = Vec::new();
    let mut left = vec![(Vec::new(), command())];
    while let Some((words, command)) = left.pop() {
        for below in command.get_subcommands() {
            let words = [words.as_slice(), &[below.get_name().to_owned()]].concat();
            left.push((words, below.clone()));
        }
        all.push((words, command));
    }
    all
}

fn name(arg: &Arg) -> String {
    let value = || arg.get_value_names().unwrap_or_default()[0].to_string();
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => value(),
    }
}

/// The line for these words behind a command.
fn line(command: &[String], words: &[&str]) -> Option<String> {
    let all = ["haul"].into_iter().chain(command.iter().map(String::as_str)).chain(words.iter().copied());
    match parse(all.map(OsString::from)) {
        Err(refused @ RefusedCommand::Line(_)) if refused.exit_code() != 2 => {
            panic!("{words:?}: {refused:?}")
        }
        Err(RefusedCommand::Line(line)) => Some(line),
        Err(RefusedCommand::Parser(error)) => panic!("{command:?} {words:?}: {error}"),
        Ok(_) => None,
    }
}

#[test]
fn the_error_of_an_invalid_value_names_valid_ones() {
    let mut tried = 0;
    for (words, command) in commands() {
        for arg in command.get_arguments().filter(|arg| is_checked(arg)) {
            let name = name(arg);
            for value in BAD.into_iter().filter(|value| !GOOD.contains(&(&name, value))) {
                let forms = match (arg.is_positional(), arg.get_long()) {
                    (true, _) => vec![vec!["--".to_owned(), value.to_owned()]],
                    // The next word is none of its values.
                    (false, Some(_)) if arg.is_require_equals_set() => vec![vec![format!("{name}={value}")]],
                    (false, Some(_)) => {
                        vec![vec![format!("{name}={value}")], vec![name.clone(), value.to_owned()]]
                    }
                    (false, None) => vec![vec![name.clone(), value.to_owned()]],
                };
                for form in forms {
                    let form: Vec<&str> = form.iter().map(String::as_str).collect();
                    let said = line(&words, &form).unwrap_or_else(|| panic!("{words:?} {form:?} is taken"));
                    let sound = said.starts_with(&name) && said.contains(&format!("`{value}`"));
                    assert!(sound && !said.contains('\n'), "{words:?} {form:?}: {said}");
                    assert!(TAKEN.iter().any(|taken| said.contains(taken)), "{words:?} {form:?}: {said}");
                    for foreign in ["invalid", "digit", "..", "too large", "target type"] {
                        assert!(!said.contains(foreign), "{words:?} {form:?}: {said}");
                    }
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 500, "{tried} values were tried");
}

#[test]
fn every_option_without_its_value_is_one_line() {
    for (words, command) in commands() {
        for arg in
            command.get_arguments().filter(|arg| arg.get_action().takes_values() && !arg.is_positional())
        {
            if arg.get_num_args().is_some_and(|count| count.min_values() == 0) {
                continue;
            }
            let name = name(arg);
            let said = line(&words, &[&name]).unwrap_or_else(|| panic!("{words:?} {name} is taken"));
            assert!(said.starts_with(&name) && !said.contains('\n'), "{words:?} {name}: {said}");
        }
    }
}

#[test]
fn every_option_has_a_parser_or_takes_any_text() {
    let mut seen = Vec::new();
    for (words, command) in commands() {
        for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values() && !is_checked(arg)) {
            let id = arg.get_id().as_str();
            assert!(FREE.contains(&id), "{words:?} {}: give it a parser, or add it to the list", name(arg));
            seen.push(id.to_owned());
        }
    }
    for id in FREE {
        assert!(seen.iter().any(|seen| seen == id), "{id} is in the list, and no option");
    }
}

/// `ARG requires ID` is visible only in the text of an argument for debugging.
fn required_by(arg: &Arg, command: &Command) -> Option<String> {
    let text = format!("{arg:?}");
    let (_, ids) = text.split_once(" requires: [")?;
    let id = ids.split(']').next()?.split('"').nth(1)?;
    command.get_arguments().find(|arg| arg.get_id() == id).map(name)
}

#[test]
fn each_option_that_requires_another_one_is_in_the_table() {
    let mut found = 0;
    for (words, command) in commands() {
        for arg in command.get_arguments() {
            let Some(required) = required_by(arg, &command).filter(|_| words != ["agent"]) else { continue };
            let rows = REQUIRING.iter().find(|(other, _)| *other == required);
            let name = name(arg);
            assert!(
                rows.is_some_and(|(_, options)| options.contains(&&*name)),
                "{words:?} {name}: {required}"
            );
            found += 1;
        }
    }
    assert!(found >= REQUIRING.len(), "{found}");
}

#[test]
fn missing_and_contradicting_arguments_are_one_line() {
    for (words, said) in [
        ("copy --index-refresh 7d a b", "--index is missing: --index-refresh requires it"),
        ("copy --sign=k a b", "--manifest is missing: --sign requires it"),
        ("put --manifest-format sha256 s3://b/k", "--manifest is missing: --manifest-format requires it"),
        ("plan --unfit x s", "--target-kind is missing: --unfit requires it"),
        ("agent --read-only", "--root is missing"),
        ("copy -c --size-only a b", "--checksum cannot be used with --size-only"),
        ("plan --parts 3 --part-size 4K s", "--parts cannot be used with --part-size"),
        ("get --fifo-dir d s3://b/k file", "--fifo-dir cannot be used with FILE"),
        ("jobs --json show 5", "cannot be used with '--json'"),
        ("copy --nice=3 a b", "--nice takes no value; `3` was given"),
        ("hash a b", "unexpected argument `b`"),
        ("probe a b c", "unexpected argument `c`"),
        ("copy", "`haul copy [OPTIONS] SRC... DST`"),
        ("mv", "`haul mv [OPTIONS] SRC... DST`; see `haul mv --help`"),
        ("cat", "arguments are missing: `haul cat "),
        ("du", "arguments are missing: `haul du "),
        ("hash", "`haul hash <SRC>`"),
        ("jobs limit", "`haul jobs limit <ID> <RATE>...`"),
        ("jobs foo", "`foo` is not a command of `haul jobs`"),
        ("config set nice true", "edit ~/.config/haul/config.toml"),
        ("config get nice", "`haul config show` prints"),
        ("sycn a b", "a similar one is `sync`"),
        ("copy a b --bwlimti 3", "a similar one is `--bwlimit`"),
        ("copy a b --compress", "--compress needs a value: one of auto, none, lz4, zstd and zstd:LEVEL"),
        ("copy a b --timeout", "--timeout needs a value: times are like 30, "),
        ("copy a b --streams", "--streams needs a value: a whole number of connections from 1 to 512"),
        ("copy a b --delta", "--delta needs a value: one of auto, on, off"),
        ("put --encrypt", "--encrypt needs a value, as in --encrypt <"),
        ("jobs show 5x", "`5x` is not a job number"),
        ("coppy a b", "a similar one is `copy`"),
        ("copy --sizeonly a b", "a similar one is `--size-only`"),
        ("copy --verbatim a b", "`haul copy --help` lists them"),
        ("copy --ports a-1 a b", "--ports `a-1`: `a` is not a port"),
    ] {
        let all: Vec<&str> = words.split(' ').collect();
        let line = line(&[], &all).unwrap_or_else(|| panic!("{words} is taken"));
        assert!(line.contains(said) && !line.contains('\n'), "{words}: {line}");
    }
}
