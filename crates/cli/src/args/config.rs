//! `haul config`.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};

use super::typed_only::COMMANDS;

const EXAMPLES: &str = "\
Examples:
  haul config show          # all settings
  haul config show copy     # those that apply to haul copy
  haul config path          # the files

`haul help config` explains the files and the HAUL_* variables.";

/// Show the settings, and the file and line that each comes from
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConfigArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

/// Subcommands of `haul config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Print the settings, each with the file and line or the variable that it comes from
    Show {
        /// Print only the settings that apply to this command
        #[arg(value_name = "COMMAND", value_parser = PossibleValuesParser::new(COMMANDS), hide_possible_values = true)]
        command: Option<String>,
    },
    /// Print the paths of the settings files; the first takes precedence
    Path,
}
