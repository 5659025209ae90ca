//! The help texts, compared with the files in `tests/snapshots`. `SNAPSHOTS=renew cargo test -p haul snapshots` renews
//! the files.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;

use super::command;
use super::short_help::short_help;

/// The width of the texts, whatever terminal the test runs on.
const WIDTH: usize = 100;

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots")
}

/// The output of the program for these arguments.
fn help(parser: Command, args: &[&str]) -> String {
    match parser.term_width(WIDTH).try_get_matches_from(args) {
        Err(error) if error.exit_code() == 0 => error.to_string(),
        other => panic!("{args:?}: {other:?}"),
    }
}

/// Each visible command with its help texts: file name and text.
fn texts() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    let mut left = vec![(vec!["haul".to_owned()], command())];
    while let Some((words, parser)) = left.pop() {
        for below in parser.get_subcommands().filter(|below| !below.is_hide_set()) {
            left.push(([words.as_slice(), &[below.get_name().to_owned()]].concat(), below.clone()));
        }
        for (option, parser) in [("--help", command()), ("-h", short_help())] {
            let args: Vec<&str> = words.iter().map(String::as_str).chain([option]).collect();
            texts.push((format!("{}{option}.txt", words.join("-")), help(parser, &args)));
        }
    }
    texts
}

/// The lines that differ, those of the file with `-`, those of the program with `+`.
fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[start..], &new[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let mut text = format!("from line {}:\n", start + 1);
    for line in &old[..old.len() - end] {
        let _ = writeln!(text, "- {line}");
    }
    for line in &new[..new.len() - end] {
        let _ = writeln!(text, "+ {line}");
    }
    text
}

#[test]
fn help_texts_match_the_snapshots() {
    let (dir, renew) = (dir(), std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "renew"));
    let texts = texts();
    assert!(texts.len() > 20, "{} texts", texts.len());
    let mut known: Vec<String> = fs::read_dir(&dir)
        .map(|files| files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect())
        .unwrap_or_default();
    let mut failures = String::new();
    for (name, text) in texts {
        known.retain(|other| *other != name);
        let old = fs::read_to_string(dir.join(&name)).unwrap_or_default();
        if old == text {
            continue;
        }
        if renew {
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(&name), text).unwrap();
        } else {
            let _ = write!(failures, "{name}: {}", diff(&old, &text));
        }
    }
    for name in known {
        if renew {
            fs::remove_file(dir.join(&name)).unwrap();
        } else {
            let _ = writeln!(failures, "{name}: no command has this text");
        }
    }
    assert!(failures.is_empty(), "{failures}To renew: SNAPSHOTS=renew cargo test -p haul snapshots");
}

#[test]
fn examples_fit_a_terminal_of_80_columns() {
    for (name, text) in texts() {
        // clap wraps descriptions itself; examples are printed as they are.
        let examples = text.split_once("\nExamples:\n").map(|(_, examples)| examples).unwrap_or_default();
        let long: Vec<&str> = examples.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(long.is_empty(), "{name}: {long:#?}");
    }
}

#[test]
fn a_difference_is_shown_by_its_lines() {
    assert_eq!(diff("a\nb\nc\n", "a\nx\ny\nc\n"), "from line 2:\n- b\n+ x\n+ y\n");
    assert_eq!(diff("", "a\n"), "from line 1:\n+ a\n");
}
