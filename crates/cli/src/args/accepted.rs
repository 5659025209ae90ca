//! rsync's requests for progress, which have no option of their own in haul.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// Whether progress was requested by `-P` or `--info=progress2`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AcceptedArgs {
    pub(crate) progress: bool,
}

/// Reads rsync's `--info`. Returns whether it requests progress.
fn parse_info(flags: &str) -> Result<bool, String> {
    let mut progress = false;
    for flag in flags.split(',') {
        match flag.to_ascii_lowercase().trim_end_matches(|c: char| c.is_ascii_digit()) {
            "progress" => progress = !flag.ends_with('0'),
            "stats" => {}
            _ => return Err(format!("`{flag}` is not one of progress2 and stats; -v lists each entry")),
        }
    }
    Ok(progress)
}

impl FromArgMatches for AcceptedArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let by_info =
            matches.get_many::<bool>("info").is_some_and(|mut flags| flags.any(|progress| *progress));
        Ok(Self { progress: by_info || matches.get_flag("partial-progress") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for AcceptedArgs {
    fn augment_args(command: Command) -> Command {
        let info = Arg::new("info").long("info").hide(true).value_name("FLAGS").value_parser(parse_info);
        let partial = Arg::new("partial-progress").short('P').action(ArgAction::SetTrue).hide(true);
        command.arg(info.action(ArgAction::Append)).arg(partial)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
