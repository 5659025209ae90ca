//! Checks the value of an option outside of a command line.

use clap::{Arg, Command};

use super::refused::{RefusedCommand, refused};

/// Whether an option takes a word such as `--iops=5`. An error is one line, as for the command line.
pub(crate) fn check_value(arg: &Arg, word: &str) -> Result<(), String> {
    // The option alone: others that it needs or excludes are not defined here.
    let mut alone = Arg::new(arg.get_id().clone())
        .long(arg.get_long().unwrap_or_default().to_owned())
        .action(arg.get_action().clone())
        .value_parser(arg.get_value_parser().clone());
    if let Some(count) = arg.get_num_args() {
        alone = alone.num_args(count);
    }
    let parser = Command::new("haul").no_binary_name(true).disable_help_flag(true).arg(alone);
    let parsed = parser.try_get_matches_from([word]);
    parsed.map(drop).map_err(|error| match refused(error, &[]) {
        RefusedCommand::Line(line) => line,
        RefusedCommand::Parser(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
    })
}
