//! The short help, `haul COMMAND -h`: the options that most people use, on one screen.

use clap::{Arg, Command, CommandFactory};

use super::cli::Cli;

/// The lines of examples in the short help.
const EXAMPLES: usize = 3;

/// The options at the end of the short help of `copy` and `sync`.
const TRANSFER: &str = "bwlimit nice rsh bootstrap endpoint manifest verbose quiet json";

/// The options in the short help, by command, in their order: its own, and those that it shares. A command that is not
/// listed shows all of its options.
const USUAL: [(&str, [&str; 2]); 13] = [
    ("copy", ["dry_run checksum update exclude exclude-from files_from", TRANSFER]),
    ("sync", ["dry_run checksum exclude exclude-from max_delete force_delete", TRANSFER]),
    (
        "verify",
        ["manifest allowed_signers exclude exclude-from", "rsh bootstrap endpoint verbose quiet json"],
    ),
    ("hash", ["exclude exclude-from", "rsh bootstrap endpoint quiet"]),
    (
        "put",
        [
            "dry_run no_clobber resume compress encrypt storage_class endpoint",
            "fifo_dir bwlimit rsh bootstrap quiet json",
        ],
    ),
    ("get", ["unpack member fifo_dir raw identity compress rsh bootstrap endpoint", "bwlimit quiet json"]),
    ("pipe", ["into from allow_empty compress bwlimit", "rsh bootstrap streams max_memory quiet json"]),
    ("plan", ["top target_kind unfit parts part_size lists exclude", "rsh quiet json"]),
    ("probe", ["doctor quick exclude", "rsh bootstrap streams quiet json"]),
    (
        "ls",
        ["recursive summarize members min_size max_size max_age min_age", "rsh endpoint region profile json"],
    ),
    ("index", ["rsh bootstrap endpoint region", "profile max_memory"]),
    ("rm", ["recursive dry_run incomplete any min_age", "endpoint region profile quiet"]),
    ("stat", ["rsh bootstrap endpoint region", "profile json"]),
];

/// The command line for `-h`.
pub(crate) fn short_help() -> Command {
    USUAL.into_iter().fold(Cli::command(), |command, (name, usual)| {
        command.mut_subcommand(name, |command| usual_only(command, name, &ids(usual)))
    })
}

fn ids(usual: [&'static str; 2]) -> Vec<&'static str> {
    usual.into_iter().flat_map(str::split_whitespace).collect()
}

/// Hides the other options, and shows the usual ones in one list.
fn usual_only(command: Command, name: &str, usual: &[&str]) -> Command {
    let order = |id: &str| usual.iter().position(|usual| *usual == id);
    let command = command.mut_args(|arg: Arg| match order(arg.get_id().as_str()) {
        Some(at) => arg.help_heading(None::<&str>).display_order(at),
        None if arg.is_positional() => arg,
        None => arg.hide(true),
    });
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples = few(examples.split("\n\n").next().unwrap_or_default());
    let more = format!(
        "{examples}\n\nAll options: haul {name} --help. Topics: haul help patterns, haul help units."
    );
    command.after_help(more)
}

/// The heading of the examples, and as many of them as fit in [`EXAMPLES`] lines.
fn few(examples: &str) -> String {
    let mut lines = examples.lines();
    let mut text = lines.next().unwrap_or_default().to_owned();
    let (mut left, mut example) = (EXAMPLES, Vec::new());
    for line in lines {
        example.push(line);
        if line.ends_with('\\') {
            continue;
        }
        if let Some(now) = left.checked_sub(example.len()) {
            left = now;
            example.iter().for_each(|line| text.push_str(&format!("\n{line}")));
        }
        example.clear();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_the_lists_exists() {
        for (name, usual) in USUAL {
            let all = Cli::command();
            let command = all.find_subcommand(name).unwrap();
            for id in ids(usual) {
                assert!(command.get_arguments().any(|arg| arg.get_id() == id), "haul {name} has no {id}");
            }
        }
    }

    #[test]
    fn an_example_of_two_lines_is_shown_whole_or_not_at_all() {
        assert_eq!(few("Examples:\n  a\n  b \\\n    b\n  c"), "Examples:\n  a\n  b \\\n    b");
        assert_eq!(few("Examples:\n  a\n  a\n  b \\\n    b\n  c"), "Examples:\n  a\n  a\n  c");
    }

    #[test]
    fn the_short_help_fits_a_screen() {
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let error = short_help().term_width(100).try_get_matches_from(["haul", name, "-h"]).unwrap_err();
            let text = error.to_string();
            assert!(text.lines().count() <= 40, "haul {name} -h: {} lines\n{text}", text.lines().count());
        }
    }
}
