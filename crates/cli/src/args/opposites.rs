//! The opposite of each option without value, to switch off options that the settings switch on.

use clap::{Arg, ArgAction, Command};

use super::foreign::has_long;

/// The long name of the opposite of an option: `no-nice` of `nice`, `fsync` of `no-fsync`.
pub(crate) fn opposite(long: &str) -> String {
    long.strip_prefix("no-").map_or_else(|| format!("no-{long}"), str::to_owned)
}

/// Adds the opposites that the command does not have as options or as words of other tools. They are hidden from its
/// help. Of an option and its opposite the last one counts.
pub(super) fn define(command: Command, is_settable: impl Fn(&Arg) -> bool) -> Command {
    let flags: Vec<(String, String)> = command
        .get_arguments()
        .filter(|arg| matches!(arg.get_action(), ArgAction::SetTrue) && is_settable(arg))
        .filter_map(|arg| Some((arg.get_id().to_string(), opposite(arg.get_long()?))))
        .collect();
    flags.into_iter().fold(command, |command, (id, opposite)| {
        let known = command.get_arguments().find(|arg| has_long(arg, &opposite));
        match known.map(|arg| arg.get_id().to_string()) {
            Some(own) => command.mut_arg(&id, |arg| arg.overrides_with(own)),
            None => {
                let arg = Arg::new(opposite.clone()).long(opposite.clone()).hide(true);
                let arg = arg.action(ArgAction::SetTrue).overrides_with_all([id.clone(), opposite.clone()]);
                command.arg(arg).mut_arg(&id, |arg| arg.overrides_with(opposite))
            }
        }
    })
}
