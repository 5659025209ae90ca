//! Filters. Exclude and include rules keep the order of the command line, which clap's derive does not: this parser is
//! written by hand.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use haul_core::Timestamp;

use super::given::GivenArgs;
use crate::values::{parse_age, parse_size};

const HEADING: &str = "Filters";
/// How ages are written.
const AGES: &str = "AGE counts back from the start of haul: a number with a unit (s, m, h, d, w, M for 30 days, y; a \
                    plain number counts seconds), or several (1h30m). Or it is a date, in local time unless it names a \
                    zone (2024-05-01, 2024-05-01T12:00:00Z). Directories have no age here; DST keeps what is skipped.";

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
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterArgs {
    /// The rules, in the order of the command line.
    pub(crate) words: Vec<FilterWord>,
    /// Entries of lists end with NUL instead of newline.
    pub(crate) from0: bool,
    /// Files smaller than this are skipped.
    pub(crate) min_size: Option<u64>,
    /// Files larger than this are skipped.
    pub(crate) max_size: Option<u64>,
    /// Entries that were modified before this time are skipped.
    pub(crate) modified_from: Option<Timestamp>,
    /// Entries that were modified after this time are skipped.
    pub(crate) modified_until: Option<Timestamp>,
    /// Mount points below the source are not entered.
    pub(crate) one_file_system: bool,
    /// Directories with a file of this name are excluded, but for the file.
    pub(crate) exclude_if_present: Vec<OsString>,
    /// Directories that are tagged as caches are excluded, but for the tag.
    pub(crate) exclude_caches: bool,
    /// What CVS ignores is excluded.
    pub(crate) cvs_exclude: bool,
    /// `sync` deletes what the rules exclude.
    pub(crate) delete_excluded: bool,
}

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
(match the absolute path), `!` (match what the pattern does not match), `s`, `r` (only this side), `p` (perishable: no \
protection in a deleted directory), `C` (what CVS ignores); for files also `-` or `+` (patterns only), `e` (exclude the file \
itself), `n` (not inherited) and `w` (split at white space). See `haul help filters`.";

/// Whether an option with this long name is an exclude or include rule.
pub(crate) fn is_rule(long: &str) -> bool {
    RULES.iter().any(|(name, ..)| *name == long)
}

impl FromArgMatches for FilterArgs {
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
        Ok(Self {
            words: words.into_iter().map(|(_, word)| word).chain(more).collect(),
            from0: matches.get_flag("from0"),
            min_size: matches.get_one("min-size").copied(),
            max_size: matches.get_one("max-size").copied(),
            modified_from: matches.get_one("max-age").copied(),
            modified_until: matches.get_one("min-age").copied(),
            one_file_system: matches.get_flag("one-file-system"),
            exclude_if_present: matches
                .get_many::<OsString>("exclude-if-present")
                .unwrap_or_default()
                .cloned()
                .collect(),
            exclude_caches: matches.get_flag("exclude-caches"),
            cvs_exclude: matches.get_flag("cvs-exclude"),
            delete_excluded: false,
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
        let cvs_exclude = Arg::new("cvs-exclude").long("cvs-exclude").action(ArgAction::SetTrue);
        let cvs_exclude = cvs_exclude.help_heading(HEADING);
        // The short name is that of compression in ssh and scp, where nobody expects files to be omitted.
        let cvs_exclude =
            cvs_exclude.help("Exclude what CVS ignores: *.o, *~, .git/ ..., and names in .cvsignore files");
        let exclude_caches = Arg::new("exclude-caches").long("exclude-caches").action(ArgAction::SetTrue);
        let exclude_caches = exclude_caches.help_heading(HEADING);
        let exclude_caches =
            exclude_caches.help("Exclude the content of cache directories (CACHEDIR.TAG), but not the tag");
        let if_present = Arg::new("exclude-if-present").long("exclude-if-present").value_name("FILE");
        let if_present = if_present.action(ArgAction::Append).value_parser(value_parser!(OsString));
        let if_present = if_present.help_heading(HEADING);
        let if_present =
            if_present.help("Exclude the content of directories with a file named FILE, but not FILE itself");
        let size = |name: &'static str, help: &'static str| {
            let arg = Arg::new(name).long(name).value_name("SIZE").help(help).help_heading(HEADING);
            arg.value_parser(parse_size)
        };
        let age = |name: &'static str, help: &'static str| {
            let arg = Arg::new(name).long(name).value_name("AGE").help(help).help_heading(HEADING);
            arg.long_help(format!("{help}\n\n{AGES}")).value_parser(parse_age)
        };
        let flag = |name: &'static str, short: char, help: &'static str| {
            let arg = Arg::new(name).long(name).short(short).help(help).help_heading(HEADING);
            arg.action(ArgAction::SetTrue)
        };
        command
            .args(rules)
            .arg(rsync_filter)
            .args([if_present, exclude_caches, cvs_exclude])
            .arg(flag("from0", '0', "Entries in --*-from files end with NUL"))
            .arg(size("min-size", "Skip files smaller than SIZE (1K = 1024, 1KB = 1000)"))
            .arg(size("max-size", "Skip files larger than SIZE"))
            .arg(age("max-age", "Skip entries older than AGE (90s, 36h, 7d, 2w, 2024-05-01)"))
            .arg(age("min-age", "Skip entries younger than AGE"))
            .arg(flag("one-file-system", 'x', "Do not cross into other file systems"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
