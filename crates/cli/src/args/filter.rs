//! Filters. Exclude and include rules keep the order of the command line, which clap's derive does not: their parser is
//! written by hand.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use haul_core::Timestamp;

use super::given::GivenArgs;
use crate::values::{parse_age, parse_size};

const HEADING: &str = "Filters";
const OLDER: &str = "Skip entries older than AGE (90s, 36h, 7d, 2w, 2024-05-01)";
const YOUNGER: &str = "Skip entries younger than AGE";
/// How ages are written.
const AGES: &str = "AGE counts back from the start of haul: a number with a unit (s, m, h, d, w, M for 30 days, y; a \
                    plain number counts seconds), or several (1h30m). Or it is a date, in local time unless it names a \
                    zone (2024-05-01, 2024-05-01T12:00:00Z). Directories have no age here; DST keeps the skipped files.";

/// One exclude or include option, as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FilterWord {
    Exclude(OsString),
    Include(OsString),
    ExcludeFrom(OsString),
    IncludeFrom(OsString),
    Filter(OsString),
    /// `-F`.
    RsyncFilter,
}

/// Filter options.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FilterArgs {
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    /// Exclude the content of directories with a file named FILE, but not FILE itself
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(crate) exclude_if_present: Vec<OsString>,
    /// Exclude the content of cache directories (CACHEDIR.TAG), but not the tag
    #[arg(long, help_heading = HEADING)]
    pub(crate) exclude_caches: bool,
    /// Exclude the files that CVS ignores: *.o, *~, .git/ ..., and names in .cvsignore files
    // The short name is that of compression in ssh and scp, where nobody expects files to be omitted.
    #[arg(long, help_heading = HEADING)]
    pub(crate) cvs_exclude: bool,
    /// Entries in --*-from files end with NUL
    #[arg(short = '0', long, help_heading = HEADING)]
    pub(crate) from0: bool,
    /// Skip files smaller than SIZE (1K = 1024, 1KB = 1000)
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = HEADING)]
    pub(crate) min_size: Option<u64>,
    /// Skip files larger than SIZE
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = HEADING)]
    pub(crate) max_size: Option<u64>,
    #[arg(long, value_name = "AGE", help = OLDER, long_help = with_ages(OLDER), value_parser = parse_age, help_heading = HEADING)]
    pub(crate) max_age: Option<Timestamp>,
    #[arg(long, value_name = "AGE", help = YOUNGER, long_help = with_ages(YOUNGER), value_parser = parse_age, help_heading = HEADING)]
    pub(crate) min_age: Option<Timestamp>,
    /// Do not cross into other file systems
    #[arg(short = 'x', long, help_heading = HEADING)]
    pub(crate) one_file_system: bool,
    /// `sync` deletes excluded entries too.
    #[arg(skip)]
    pub(crate) delete_excluded: bool,
}

fn with_ages(help: &str) -> String {
    format!("{help}\n\n{AGES}")
}

/// The rules, in the order of the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleArgs(pub(crate) Vec<FilterWord>);

/// A rule option: name, value name, help text and constructor.
type RuleOption = (&'static str, &'static str, &'static str, fn(OsString) -> FilterWord);

const RULES: [RuleOption; 5] = [
    ("exclude", "PATTERN", "Exclude matching paths; the first matching rule wins", FilterWord::Exclude),
    ("include", "PATTERN", "Include matching paths even if a later rule excludes them", FilterWord::Include),
    (
        "exclude-from",
        "FILE",
        "Read exclude patterns from FILE, one per line; `-` reads standard input",
        FilterWord::ExcludeFrom,
    ),
    ("include-from", "FILE", "Read include patterns from FILE", FilterWord::IncludeFrom),
    (
        "filter",
        "RULE",
        "Add a rule in the language of rsync: `- PATTERN`, `P PATTERN`, `merge FILE`, `dir-merge FILE` ...",
        FilterWord::Filter,
    ),
];

/// The name of `-F`, which has no long form in rsync.
const RSYNC_FILTER: &str = "rsync-filter-files";

const FILTER_RULES: &str = "\
A rule is `- PATTERN` (exclude), `+ PATTERN` (include), `H` or `S` (hide from or show to the copy alone), `P` or `R` \
(protect from or leave to the deletion of `sync` alone), `!` (drop all rules so far), `. FILE` (read rules from FILE) or \
`: FILE` (in each directory, read rules from the file of this name in it; its subdirectories inherit them). The long names \
are exclude, include, hide, show, protect, risk, clear, merge and dir-merge. Modifiers follow the letter, or a comma: `/` \
(match the absolute path), `!` (invert the match), `s`, `r` (only this side), `p` (perishable: no \
protection in a deleted directory), `C` (the files that CVS ignores); for files also `-` or `+` (patterns only), `e` (exclude the file \
itself), `n` (not inherited) and `w` (split at white space). See `haul help filters`.";

/// Whether an option with this long name is an exclude or include rule.
pub(crate) fn is_rule(long: &str) -> bool {
    RULES.iter().any(|(name, ..)| *name == long)
}

impl FromArgMatches for RuleArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut words = Vec::new();
        for (name, _, _, word) in RULES {
            let values = matches.get_many::<OsString>(name).unwrap_or_default();
            let places = matches.indices_of(name).unwrap_or_default();
            words.extend(places.zip(values).map(|(place, value)| (place, word(value.clone()))));
        }
        let places = matches.indices_of(RSYNC_FILTER).unwrap_or_default();
        words.extend(places.map(|place| (place, FilterWord::RsyncFilter)));
        words.sort_by_key(|(place, _)| *place);
        let given = GivenArgs::of(matches);
        let more = given.get().rules.iter().filter_map(|(name, value)| {
            RULES.iter().find(|(rule, ..)| rule == name).map(|(.., word)| word(value.clone()))
        });
        Ok(Self(words.into_iter().map(|(_, word)| word).chain(more).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for RuleArgs {
    fn augment_args(command: Command) -> Command {
        let rules = RULES.map(|(name, value, help, _)| {
            let arg = Arg::new(name).long(name).value_name(value).help(help).action(ArgAction::Append);
            let arg =
                arg.value_parser(value_parser!(OsString)).allow_hyphen_values(true).help_heading(HEADING);
            if name == "filter" { arg.short('f').long_help(format!("{help}\n\n{FILTER_RULES}")) } else { arg }
        });
        let rsync_filter = Arg::new(RSYNC_FILTER)
            .short('F')
            .action(ArgAction::Append)
            .num_args(0)
            .default_missing_value("")
            .value_parser(value_parser!(OsString))
            .help("Read rules from .rsync-filter files (--filter 'dir-merge /.rsync-filter'); -FF also excludes them")
            .help_heading(HEADING);
        command.args(rules).arg(rsync_filter)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
