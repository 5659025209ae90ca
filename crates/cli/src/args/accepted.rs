//! rsync options for haul's default behaviour: accepted, alone and in bundles, and hidden from the help.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// Flags that `copy`, `sync` and `verify` accept: long and short name.
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

/// Further flags that `verify` accepts: it always compares content and changes nothing.
const VERIFY: [(&str, Option<char>); 4] =
    [("archive", Some('a')), ("checksum", Some('c')), ("dry-run", Some('n')), ("devices", None)];

/// Accepted flags and the options of haul that they override; the last one on the command line wins.
const OVERRIDES: [(&str, &str); 2] = [("fsync", "no_fsync"), ("numeric-ids", "owner_by_name")];

/// The flags that `copy` and `sync` accept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AcceptedArgs {
    /// Whether progress was requested by `-P` or `--info=progress2`.
    pub(crate) progress: bool,
}

/// The flags that `verify` accepts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AcceptedByVerify(pub(crate) AcceptedArgs);

fn word(long: &'static str, short: Option<char>) -> Arg {
    let arg = Arg::new(long).action(ArgAction::SetTrue).hide(true);
    // rsync has only a short name, `-D`, for these two.
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

fn read(matches: &ArgMatches) -> AcceptedArgs {
    let by_info = matches.get_many::<bool>("info").is_some_and(|mut flags| flags.any(|progress| *progress));
    AcceptedArgs { progress: by_info || matches.get_flag("partial-progress") }
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
