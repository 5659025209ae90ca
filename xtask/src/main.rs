//! Checks of this repository. `cargo xtask` lists them; CONTRIBUTING.md says when to run which.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command line tool")]

mod check;
mod command;
mod coverage;
mod layout;
mod links;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check                   format, lints, unit tests and layout: two minutes, without root
  layout [CHECK]...       only the layout: cycles, orphans, files, functions, words, clauses, glossary,
                          promises, layers
  links                   the links of all pages lead to files and headings that exist
  coverage [--require N]  line coverage of the engine and three ends; fails below N percent";

fn main() -> ExitCode {
    if let Some(code) = coverage::compile(std::env::args_os().skip(1)) {
        return code;
    }
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["check"] => check::run(&root()),
        ["layout", checks @ ..]
            if checks.iter().all(|word| layout::CHECKS.iter().any(|(name, _)| name == word)) =>
        {
            layout::run(&root(), checks).map_err(|error| error.to_string())
        }
        ["links"] => links::run(&root()).map_err(|error| error.to_string()),
        ["coverage"] => coverage::run(&root(), 0.0),
        ["coverage", "--require", percent] => match percent.parse() {
            Ok(percent) => coverage::run(&root(), percent),
            Err(_) => Err(format!("--require takes a percentage, not {percent}")),
        },
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}
