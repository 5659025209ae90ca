//! Decisions of rules about entries, with files of rules in a tree.

use std::collections::BTreeMap;

use super::*;
use crate::error::ErrorKind;
use crate::path::RelPath;

fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

fn open(rules: &Rules) -> (Filter<'_>, DirRules) {
    Filter::open(rules, |_| Ok(RulesAbove::default())).unwrap()
}

fn excludes(rules: Vec<Rule>, at: &str, is_dir: bool) -> bool {
    let rules = Rules::from(rules);
    let (filter, top) = open(&rules);
    filter.excludes(&top, &path(at), is_dir).is_some()
}

/// The rules of these texts.
fn rules(texts: &[&str]) -> Rules {
    let format = RuleFormat::new(Prefixes::Rules);
    let items = texts.iter().flat_map(|text| parse::parse_rule(text.as_bytes(), &format).unwrap());
    let items = items.map(|parsed| match parsed {
        parse::Parsed::Rule(rule) => RuleItem::Rule(rule),
        parse::Parsed::DirMerge(merge) => RuleItem::DirMerge(merge),
        other => panic!("{other:?}"),
    });
    Rules { items: items.collect(), ..Rules::default() }
}

#[test]
fn the_first_match_decides() {
    let all = || vec![Rule::include("*.c"), Rule::include("*/"), Rule::exclude("*")];
    assert!(!excludes(all(), "a/b.c", false));
    assert!(!excludes(all(), "a", true));
    assert!(excludes(all(), "a/b.o", false));
    assert!(excludes(all(), "a", false), "`*/` is for directories");
    assert!(!excludes(Vec::new(), "a", false));
}

#[test]
fn a_named_root_is_part_of_the_matched_path() {
    let of_src = |pattern: &str| Rules::from(vec![Rule::exclude(pattern)]).below(b"src");
    let excludes =
        |rules: &Rules, at: &str| open(rules).0.excludes(&DirRules::default(), &path(at), true).is_some();
    assert!(excludes(&of_src("/src/tmp"), "tmp") && !excludes(&of_src("/x"), "x"));
    assert!(of_src("src").exclude_root(true));
    assert!(!Rules::from(vec![Rule::exclude("*")]).exclude_root(true), "the nameless root stays");
}

#[test]
fn sides_negation_and_perishable_rules() {
    let rules = rules(&["H a", "P b", "-! */", "-p d"]);
    let of_destination = rules.of_destination();
    let left = Rules { ignores_perishable: true, ..rules.clone() };
    let ask =
        |rules: &Rules, at: &str, is_dir| open(rules).0.excludes(&DirRules::default(), &path(at), is_dir);
    assert!(ask(&rules, "a", true).is_some() && ask(&of_destination, "a", true).is_none());
    assert!(ask(&rules, "b", true).is_none() && ask(&of_destination, "b", true).is_some());
    assert!(ask(&rules, "c", false).is_some() && ask(&rules, "c", true).is_none());
    assert_eq!(ask(&rules, "d", true), Some(Excluded { perishable: true }));
    assert_eq!(ask(&left, "d", true), None);
}

/// A tree of files of rules.
struct RuleFiles(BTreeMap<&'static str, &'static str>);

impl RuleFiles {
    fn excludes(&self, rules: &Rules, above: &RulesAbove, at: &str) -> crate::Result<bool> {
        let (filter, top) = Filter::open(rules, |_| Ok(above.clone()))?;
        let mut read = |path: &RelPath| {
            let name = std::str::from_utf8(path.as_bytes()).unwrap();
            Ok(self.0.get(name).map(|text| text.as_bytes().to_vec()))
        };
        let dir = filter.enter_all(&top, &path(at).parent().unwrap(), &mut read)?;
        Ok(filter.excludes(&dir, &path(at), false).is_some())
    }

    fn check(&self, rules: &Rules, above: &RulesAbove, yes: &[&str], no: &[&str]) {
        for (paths, expected) in [(yes, true), (no, false)] {
            for at in paths {
                assert_eq!(self.excludes(rules, above, at).unwrap(), expected, "{at}");
            }
        }
    }
}

#[test]
fn directories_inherit_the_rules_of_their_parents() {
    let files = RuleFiles(BTreeMap::from([
        (".f", "- *.o\n- /top\n- b/deep\n"),
        ("a/.f", "+ keep.o\n- /x\n"),
        ("a/b/.f", "!\n- y\n"),
        ("n/.n", "- z\n"),
    ]));
    let rules = rules(&[": .f", ":n .n", "- last"]);
    let yes = ["1.o", "top", "a/1.o", "a/x", "a/b/y", "n/z", "a/b/last", "b/deep", "q/b/deep"];
    let no = ["a/top", "a/keep.o", "a/q/x", "a/b/1.o", "n/m/z", "y", "a/b/deep"];
    files.check(&rules, &RulesAbove::default(), &yes, &no);
}

#[test]
fn files_name_further_files() {
    let files = RuleFiles(BTreeMap::from([
        ("a/.f", ". lib/more\n: .g\n- x\n"),
        ("a/lib/more", "- m\n"),
        ("a/.g", "+ x\n"),
        ("a/b/.g", "- g\n"),
        (".g", "- never\n"),
        ("loop/.f", "merge me\n"),
        ("loop/me", "merge me\n"),
    ]));
    let rules = rules(&[": .f"]);
    let none = RulesAbove::default();
    files.check(&rules, &none, &["a/m", "a/b/m", "a/b/g"], &["a/x", "a/b/x", "never", "m", "a/g"]);
    assert_eq!(files.excludes(&rules, &none, "loop/x").unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn files_above_the_root_count_from_the_named_directory_on() {
    let file = |dir: &str, text: &str| AboveFile { dir: dir.into(), name: b".f".to_vec(), text: text.into() };
    let files = vec![file("/", "- r\n"), file("/s", "- /t/x\n- /x\n- s\n"), file("/s/t", "- /u/y\n")];
    let above = RulesAbove { root: b"/s/t/u".to_vec(), files };
    let none = RuleFiles(BTreeMap::new());
    none.check(&rules(&[": /.f"]), &above, &["r", "s", "y", "a/s"], &["x", "u", "a/y"]);
    none.check(&rules(&[": /s/.f"]), &above, &["s", "y"], &["r"]);
    none.check(&rules(&[": ../.f"]), &above, &["y"], &["r", "s"]);
    none.check(&rules(&[": sub/.f", "-/ /s/t/u/z"]), &above, &["z"], &["r", "s", "y", "a/z"]);
    none.check(&rules(&["-/ t/u/*", "-/ /u/y"]), &above, &["q"], &["a/q"]);
}

#[test]
fn a_tag_excludes_all_else_in_its_directory() {
    let files =
        RuleFiles(BTreeMap::from([("a/[t]", "x"), ("a/.f", "+ *"), ("b/[t]", "no"), ("c/.f", "- x")]));
    let mut rules = rules(&[": .f"]);
    rules.items.insert(0, RuleItem::DirMerge(MergeRule::tag(b"[t]", b"x", Sides::Both)));
    files.check(
        &rules,
        &RulesAbove::default(),
        &["a/x", "a/.f", "a/t", "a/b/c", "c/x"],
        &["a/[t]", "b/x", "x"],
    );
}

#[test]
fn a_line_that_is_no_rule_is_named_with_its_file() {
    let long = Box::leak("- x\n".repeat(MAX_RULES_LEN / 4 + 1).into_boxed_str());
    let files = RuleFiles(BTreeMap::from([("a/.f", "- x\nnonsense\n"), ("b/.f", long), ("c/.f", ": x/y\n")]));
    let rules = rules(&[": .f"]);
    for (at, said) in [("a/x", "nonsense"), ("b/x", "bytes"), ("c/x", "without a directory")] {
        let error = files.excludes(&rules, &RulesAbove::default(), at).unwrap_err();
        assert!(error.kind() == ErrorKind::Usage && error.cause().contains(said), "{error}");
    }
}
