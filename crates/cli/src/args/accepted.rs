//! rsync's words for what haul always does: accepted, alone and in bundles, and left out of the help.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// Words without a value that ask for what happens anyway: the long one, and the short one.
const ALWAYS: [(&str, Option<char>); 22] = [
    ("recursive", Some('r')),
    ("links", Some('l')),
    ("perms", Some('p')),
    ("times", Some('t')),
    ("atimes", Some('U')),
    ("group", Some('g')),
    ("owner", Some('o')),
    ("devices-and-specials", Some('D')),
    ("specials", None),
    ("hard-links", Some('H')),
    ("acls", Some('A')),
    ("xattrs", Some('X')),
    ("sparse", Some('S')),
    ("partial", None),
    ("mkpath", None),
    ("fsync", None),
    ("numeric-ids", None),
    ("inc-recursive", None),
    ("secluded-args", Some('s')),
    ("protect-args", None),
    ("stats", None),
    ("no-motd", None),
];

/// The same for `verify`, which compares content and changes nothing.
const VERIFY: [(&str, Option<char>); 4] =
    [("archive", Some('a')), ("checksum", Some('c')), ("dry-run", Some('n')), ("devices", None)];

/// Words of which the last one on the command line counts.
const OVERRIDES: [(&str, &str); 2] = [("fsync", "no_fsync"), ("numeric-ids", "owner_by_name")];

/// The words that `copy` and `sync` accept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AcceptedArgs {
    /// Progress was asked for: `-P` or `--info=progress2`.
    pub(crate) progress: bool,
}

/// The words that `verify` accepts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AcceptedByVerify(pub(crate) AcceptedArgs);

fn word(long: &'static str, short: Option<char>) -> Arg {
    let arg = Arg::new(long).action(ArgAction::SetTrue).hide(true);
    // rsync has only the short word for these two.
    let arg = if long == "devices-and-specials" { arg } else { arg.long(long) };
    match short {
        Some(short) => arg.short(short),
        None => arg,
    }
}

fn augment(command: Command, more: &[(&'static str, Option<char>)]) -> Command {
    let words = ALWAYS.iter().chain(more).map(|(long, short)| word(long, *short));
    let info = Arg::new("info").long("info").hide(true).value_name("FLAGS").value_parser(parse_info);
    let partial = Arg::new("partial-progress").short('P').action(ArgAction::SetTrue).hide(true);
    command.args(words).arg(info.action(ArgAction::Append)).arg(partial)
}

/// Reads rsync's `--info`: what haul shows without being asked. `true`: progress.
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

fn read(matches: &ArgMatches) -> AcceptedArgs {
    let told = matches.get_many::<bool>("info").is_some_and(|mut flags| flags.any(|progress| *progress));
    AcceptedArgs { progress: told || matches.get_flag("partial-progress") }
}

impl FromArgMatches for AcceptedArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(read(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = read(matches);
        Ok(())
    }
}

impl Args for AcceptedArgs {
    fn augment_args(command: Command) -> Command {
        let mut command = augment(command, &[]);
        for (accepted, real) in OVERRIDES {
            command = command.mut_arg(accepted, |arg| arg.overrides_with(real));
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for AcceptedByVerify {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(read(matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0 = read(matches);
        Ok(())
    }
}

impl Args for AcceptedByVerify {
    fn augment_args(command: Command) -> Command {
        augment(command, &VERIFY)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
