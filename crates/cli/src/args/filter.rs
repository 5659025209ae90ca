//! What is looked at. The rules keep the order of the command line, so they are collected by hand.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use crate::settings::parse_size;

const HEADING: &str = "What is looked at";

/// One word about rules, as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FilterWord {
    Exclude(OsString),
    Include(OsString),
    ExcludeFrom(OsString),
    IncludeFrom(OsString),
}

/// Options that say what is looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterArgs {
    /// The rules, in the order of the command line.
    pub(crate) words: Vec<FilterWord>,
    /// Lists end their lines with NUL.
    pub(crate) from0: bool,
    /// Leave out smaller files.
    pub(crate) min_size: Option<u64>,
    /// Leave out larger files.
    pub(crate) max_size: Option<u64>,
    /// Stay on one file system.
    pub(crate) one_file_system: bool,
}

/// An option that makes rules: its name, what its value is called, its help, and the word that it becomes.
type RuleOption = (&'static str, &'static str, &'static str, fn(OsString) -> FilterWord);

const RULES: [RuleOption; 4] = [
    (
        "exclude",
        "PATTERN",
        "Leave out what matches; of all rules the first that matches decides",
        FilterWord::Exclude,
    ),
    ("include", "PATTERN", "Keep what matches, though a later rule would leave it out", FilterWord::Include),
    (
        "exclude-from",
        "FILE",
        "Read patterns from FILE, one a line; `-` is standard input",
        FilterWord::ExcludeFrom,
    ),
    ("include-from", "FILE", "Read patterns to keep from FILE", FilterWord::IncludeFrom),
];

impl FromArgMatches for FilterArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut words = Vec::new();
        for (name, _, _, word) in RULES {
            let values = matches.get_many::<OsString>(name).unwrap_or_default();
            let places = matches.indices_of(name).unwrap_or_default();
            words.extend(places.zip(values).map(|(place, value)| (place, word(value.clone()))));
        }
        words.sort_by_key(|(place, _)| *place);
        Ok(Self {
            words: words.into_iter().map(|(_, word)| word).collect(),
            from0: matches.get_flag("from0"),
            min_size: matches.get_one("min-size").copied(),
            max_size: matches.get_one("max-size").copied(),
            one_file_system: matches.get_flag("one-file-system"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for FilterArgs {
    fn augment_args(command: Command) -> Command {
        let rules = RULES.map(|(name, value, help, _)| {
            let arg = Arg::new(name).long(name).value_name(value).help(help).action(ArgAction::Append);
            arg.value_parser(value_parser!(OsString)).allow_hyphen_values(true).help_heading(HEADING)
        });
        let size = |name: &'static str, help: &'static str| {
            let arg = Arg::new(name).long(name).value_name("SIZE").help(help).help_heading(HEADING);
            arg.value_parser(parse_size)
        };
        let flag = |name: &'static str, short: char, help: &'static str| {
            let arg = Arg::new(name).long(name).short(short).help(help).help_heading(HEADING);
            arg.action(ArgAction::SetTrue)
        };
        command
            .args(rules)
            .arg(flag("from0", '0', "The lists of all …-from options end each name with NUL, not newline"))
            .arg(size("min-size", "Leave out smaller files (1K is 1024, 1KB is 1000)"))
            .arg(size("max-size", "Leave out larger files"))
            .arg(flag("one-file-system", 'x', "Do not cross into other file systems"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
