//! Rules from `--filter`, `--exclude`, `--include` and the files that they name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use haul_core::filter::parse::{BadRule, Parsed, parse_file, parse_rule};
use haul_core::filter::{MergeRule, Prefixes, RuleFormat, RuleItem, Rules, Sides};
use haul_core::path::MAX_PATH_LEN;
use haul_core::{Error, Result, Side};

use super::errors::usage;
use super::records::{ListRecords, Separator, open_list};
use crate::args::{FilterArgs, FilterWord};

/// The most files that name each other in a row.
const MAX_DEPTH: usize = 32;
/// The most bytes of a file whose rules are split at white space.
const MAX_WORDS: u64 = 16 * 1024 * 1024;
const MERGE_RSYNC_FILTERS: &[u8] = b"dir-merge /.rsync-filter";
/// The first bytes of the file `CACHEDIR.TAG` of a cache (bford.info/cachedir).
const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
const READ: &str = "read the rules";

/// The files that CVS ignores, by rsync's list.
const CVS: &[u8] = b"RCS SCCS CVS CVS.adm RCSLOG cvslog.* tags TAGS .make.state .nse_depinfo *~ #* .#* ,* _$* *$ *.old \
    *.bak *.BAK *.orig *.rej .del-* *.a *.olb *.o *.obj *.so *.exe *.Z *.elc *.ln core .svn/ .git/ .hg/ .bzr/";

/// The rules, in the order of the command line.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if a file cannot be read or a text is no rule.
pub(crate) fn read_rules(args: &FilterArgs) -> Result<Rules> {
    let plain = if args.delete_excluded { Sides::Source } else { Sides::Both };
    let format = |prefixes| RuleFormat { plain, nul: args.from0, ..RuleFormat::new(prefixes) };
    let [rules, exclude, include] =
        [Prefixes::Rules, Prefixes::Old { include: false }, Prefixes::Old { include: true }].map(format);
    let mut reader = RuleReader::default();
    let mut rsync_filters = 0;
    for word in &args.rules.0 {
        match word {
            FilterWord::Exclude(text) => reader.add(text.as_bytes(), &exclude)?,
            FilterWord::Include(text) => reader.add(text.as_bytes(), &include)?,
            FilterWord::Filter(text) => reader.add(text.as_bytes(), &rules)?,
            FilterWord::ExcludeFrom(file) => reader.read(file, &exclude)?,
            FilterWord::IncludeFrom(file) => reader.read(file, &include)?,
            FilterWord::RsyncFilter => {
                rsync_filters += 1;
                match rsync_filters {
                    1 => reader.add(MERGE_RSYNC_FILTERS, &rules)?,
                    2 => reader.add(b"- .rsync-filter", &rules)?,
                    _ => {}
                }
            }
        }
    }
    if args.cvs_exclude {
        reader.add(b":C", &rules)?;
        reader.add(b"-C", &rules)?;
    }
    // No rule overrides a tag.
    let mut tags = RuleReader::default();
    for name in &args.exclude_if_present {
        let name = name.as_bytes();
        if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
            return Err(usage(
                "use --exclude-if-present",
                "it takes the name of a file, without a directory",
            )
            .on(name));
        }
        tags.dir_merge(MergeRule::tag(name, b"", plain));
    }
    if args.exclude_caches {
        tags.dir_merge(MergeRule::tag(b"CACHEDIR.TAG", CACHE_SIGNATURE, plain));
    }
    Ok(Rules { items: [tags.items, reader.items].concat(), ..Rules::default() })
}

/// Collects rules.
#[derive(Default)]
struct RuleReader {
    items: Vec<RuleItem>,
    /// The files that are being read.
    depth: usize,
}

/// A text that is no rule, or another error.
struct RulesError(Error);

impl From<BadRule> for RulesError {
    fn from(bad: BadRule) -> Self {
        Self(usage("read the rule", bad.why).on(bad.text))
    }
}

impl RuleReader {
    /// Adds the rule of a text.
    fn add(&mut self, text: &[u8], format: &RuleFormat) -> Result<()> {
        let parsed = parse_rule(text, format).map_err(|bad| RulesError::from(bad).0)?;
        parsed.into_iter().try_for_each(|parsed| self.take(parsed))
    }

    fn take(&mut self, parsed: Parsed) -> Result<()> {
        match parsed {
            Parsed::Rule(rule) => self.items.push(RuleItem::Rule(rule)),
            Parsed::Clear => self.items.clear(),
            Parsed::Merge(merge) => return self.read(OsStr::from_bytes(&merge.file), &merge.format),
            Parsed::DirMerge(merge) => self.dir_merge(merge),
            Parsed::Cvs(format) => return self.cvs(&format),
        }
        Ok(())
    }

    /// As with rsync, a name counts once.
    fn dir_merge(&mut self, merge: MergeRule) {
        let is_same = |item: &RuleItem| matches!(item, RuleItem::DirMerge(other) if other.is_again(&merge));
        if !self.items.iter().any(is_same) {
            self.items.push(RuleItem::DirMerge(merge));
        }
    }

    /// Adds the rules of a file; `-` is standard input.
    fn read(&mut self, file: &OsStr, format: &RuleFormat) -> Result<()> {
        if self.depth >= MAX_DEPTH {
            return Err(usage(READ, "merge files name each other, or too many in a row").on(file.as_bytes()));
        }
        self.depth += 1;
        let reader = open_list(file)?;
        if format.words {
            self.read_words(reader, file, format)?;
        } else {
            self.read_lines(reader, file, format)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn read_lines(&mut self, reader: impl BufRead, file: &OsStr, format: &RuleFormat) -> Result<()> {
        let separator = if format.nul { Separator::Nul } else { Separator::AnyLineEnd };
        for line in ListRecords::new(reader, separator, MAX_PATH_LEN) {
            let line = line.map_err(|error| Error::io(Side::Local, READ, &error).on(file.as_bytes()))?;
            if !matches!(line.first(), Some(b'#' | b';')) {
                self.add(&line, format)?;
            }
        }
        Ok(())
    }

    fn read_words(&mut self, reader: impl Read, file: &OsStr, format: &RuleFormat) -> Result<()> {
        let mut text = Vec::new();
        let read = reader.take(MAX_WORDS + 1).read_to_end(&mut text);
        read.map_err(|error| Error::io(Side::Local, READ, &error).on(file.as_bytes()))?;
        if text.len() as u64 > MAX_WORDS {
            return Err(usage(READ, "the file has more than 16 MiB").on(file.as_bytes()));
        }
        self.words(&text, format)
    }

    fn words(&mut self, text: &[u8], format: &RuleFormat) -> Result<()> {
        parse_file(text, format, &mut |parsed| self.take(parsed).map_err(RulesError))
            .map_err(|failed| failed.0)
    }

    /// The files that CVS ignores: its own list, and those of the user.
    fn cvs(&mut self, format: &RuleFormat) -> Result<()> {
        // `!` in one of the lists clears these, not the rules of the command line.
        let before = std::mem::take(&mut self.items);
        self.words(CVS, &RuleFormat { perishable: true, ..format.clone() })?;
        if let Some(home) = std::env::var_os("HOME") {
            let file = PathBuf::from(home).join(".cvsignore");
            if let Ok(opened) = File::open(&file) {
                self.read_words(BufReader::new(opened), file.as_os_str(), format)?;
            }
        }
        if let Some(text) = std::env::var_os("CVSIGNORE") {
            self.words(&text.into_vec(), format)?;
        }
        let added = std::mem::replace(&mut self.items, before);
        self.items.extend(added);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use haul_core::filter::Rule;

    use crate::args::RuleArgs;

    use super::*;

    fn read(words: Vec<FilterWord>) -> Result<Vec<RuleItem>> {
        read_rules(&FilterArgs { rules: RuleArgs(words), ..FilterArgs::default() }).map(|rules| rules.items)
    }

    fn from_text(text: &[u8], nul: bool, include: bool) -> Vec<RuleItem> {
        let format = RuleFormat { nul, ..RuleFormat::new(Prefixes::Old { include }) };
        let mut reader = RuleReader::default();
        reader.read_lines(text, OsStr::new("list"), &format).unwrap();
        reader.items
    }

    fn items<const N: usize>(rules: [Rule; N]) -> Vec<RuleItem> {
        rules.into_iter().map(RuleItem::Rule).collect()
    }

    #[test]
    fn lists_of_rules_are_those_of_rsync() {
        let rules = from_text(b"# comment\n; too\n\n*.o\r\n+ keep\n- drop\n a#b \n", false, false);
        let expected =
            [Rule::exclude("*.o"), Rule::include("keep"), Rule::exclude("drop"), Rule::exclude(" a#b ")];
        assert_eq!(rules, items(expected));
        let expected = [Rule::include("a\nb"), Rule::include(*b"c\xff")];
        assert_eq!(from_text(b"a\nb\0c\xff\0", true, true), items(expected));
        assert_eq!(from_text(b"a\n!\nb\n", false, false), items([Rule::exclude("b")]));
    }

    #[test]
    fn rules_keep_their_order() {
        let words = vec![
            FilterWord::Include("a".into()),
            FilterWord::Exclude("*".into()),
            FilterWord::Filter("P b".into()),
            FilterWord::Exclude("+ z".into()),
        ];
        let protect = Rule::exclude("b").at(Sides::Destination);
        let expected = [Rule::include("a"), Rule::exclude("*"), protect, Rule::include("z")];
        assert_eq!(read(words).unwrap(), items(expected));
        for bad in [
            FilterWord::Exclude("- ".into()),
            FilterWord::Filter("a".into()),
            FilterWord::Filter(". /no".into()),
        ] {
            assert!(read(vec![bad]).is_err());
        }
    }

    #[test]
    fn files_name_files_and_the_first_name_of_a_file_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rules");
        let me = file.to_str().unwrap();
        std::fs::write(&file, "- a\n:n .f\n# x\n: x/.f\n").unwrap();
        let merge = FilterWord::Filter(format!("merge {me}").into());
        let found = read(vec![merge.clone(), FilterWord::RsyncFilter, FilterWord::RsyncFilter]).unwrap();
        assert!(matches!(&found[1], RuleItem::DirMerge(merge) if merge.is_private));
        assert!(matches!(&found[2], RuleItem::DirMerge(merge) if merge.file == b"/.rsync-filter"));
        assert_eq!((found.len(), &found[3]), (4, &RuleItem::Rule(Rule::exclude(".rsync-filter"))));
        std::fs::write(&file, format!(". {me}\n")).unwrap();
        assert!(read(vec![merge]).unwrap_err().cause().contains("each other"));
    }

    #[test]
    fn tags_go_before_rules() {
        let args = FilterArgs {
            rules: RuleArgs(vec![FilterWord::Include("*".into())]),
            exclude_if_present: vec![".nobackup".into(), ".nobackup".into()],
            exclude_caches: true,
            ..FilterArgs::default()
        };
        let found = read_rules(&args).unwrap().items;
        assert!(found.len() == 3 && found[2] == RuleItem::Rule(Rule::include("*")), "{found:?}");
        let args = FilterArgs { exclude_if_present: vec!["a/b".into()], ..FilterArgs::default() };
        assert!(read_rules(&args).is_err());
    }

    #[test]
    fn delete_excluded_leaves_plain_rules_to_the_source() {
        let words = vec![FilterWord::Exclude("a".into()), FilterWord::Filter("P b".into())];
        let args = FilterArgs {
            rules: RuleArgs(words),
            delete_excluded: true,
            cvs_exclude: true,
            ..FilterArgs::default()
        };
        let found = read_rules(&args).unwrap().items;
        let expected = [Rule::exclude("a").at(Sides::Source), Rule::exclude("b").at(Sides::Destination)];
        assert_eq!(found[..2], items(expected));
        assert!(matches!(&found[2], RuleItem::DirMerge(merge) if merge.name() == b".cvsignore"));
        let objects = Rule { perishable: true, ..Rule::exclude("*.o").at(Sides::Source) };
        assert!(
            found.contains(&RuleItem::Rule(objects)) && !found.contains(&RuleItem::Rule(Rule::exclude("\\")))
        );
    }
}
