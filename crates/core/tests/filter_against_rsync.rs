//! The filter against the real rsync: the same tree, the same rules, the same names.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use haul_core::RelPath;
use haul_core::filter::parse::{Parsed, parse_rule};
use haul_core::filter::{Filter, Prefixes, RuleFormat, RuleItem, Rules, RulesAbove};

/// A small generator of numbers, the same ones in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a [u8]]) -> &'a [u8] {
        from[self.below(from.len())]
    }

    fn joined(&mut self, from: &[&[u8]], min: usize, max: usize) -> Vec<u8> {
        let count = min + self.below(max - min + 1);
        (0..count).flat_map(|_| self.pick(from).to_vec()).collect()
    }
}

const NAME_PARTS: &[&[u8]] =
    &[b"a", b"b", b"c", b"foo", b"bar", b"A", b"1", b".", b"-", b"*", b"[", b"]", b"\\", b"?", b"!", b"\xe9"];

const PATTERN_PARTS: &[&[u8]] = &[
    b"a",
    b"b",
    b"c",
    b"foo",
    b"bar",
    b"/",
    b"/",
    b"/",
    b"*",
    b"*",
    b"*",
    b"**",
    b"***",
    b"?",
    b"[ab]",
    b"[!a]",
    b"[^b]",
    b"[a-c]",
    b"[[:alpha:]]",
    b"[[:digit:]-]",
    b"[]-]",
    b"[\\]]",
    b"[",
    b"]",
    b"\\",
    b"\\*",
    b"-",
    b"!",
    b".",
    b"\xe9",
    b"[a-\\c]",
    b"[[:x]",
    b"[+-[:a]",
    b"**/",
    b"/***",
];

/// Makes a tree and lists it, parents first.
fn make_tree(numbers: &mut Numbers, root: &Path) -> Vec<(RelPath, bool)> {
    let mut dirs = vec![RelPath::root()];
    let mut all = Vec::new();
    for _ in 0..60 {
        let name = if numbers.below(2) == 0 {
            numbers.pick(NAME_PARTS).to_vec()
        } else {
            numbers.joined(NAME_PARTS, 1, 3)
        };
        let Ok(path) = dirs[numbers.below(dirs.len())].join(&name) else { continue };
        let full = root.join(OsStr::from_bytes(path.as_bytes()));
        if full.symlink_metadata().is_ok() {
            continue;
        }
        let is_dir = numbers.below(5) < 2;
        if is_dir {
            fs::create_dir(&full).unwrap();
            dirs.push(path.clone());
        } else {
            fs::write(&full, b"").unwrap();
        }
        all.push((path, is_dir));
    }
    all
}

/// The rules of these arguments of `--filter`.
fn parsed(filters: &[Vec<u8>]) -> Rules {
    let format = RuleFormat::new(Prefixes::Rules);
    let all = filters.iter().flat_map(|text| parse_rule(text, &format).unwrap());
    let items = all.map(|parsed| match parsed {
        Parsed::Rule(rule) => RuleItem::Rule(rule),
        Parsed::DirMerge(merge) => RuleItem::DirMerge(merge),
        other => panic!("{other:?}"),
    });
    Rules { items: items.collect(), ..Rules::default() }
}

fn kept_by_haul(
    rules: &[Vec<u8>],
    source: &Path,
    tree: &[(RelPath, bool)],
    root_name: &[u8],
) -> BTreeSet<Vec<u8>> {
    let rules = parsed(rules).below(root_name);
    let mut kept = BTreeSet::new();
    if rules.exclude_root(true) {
        return kept;
    }
    let root = source.as_os_str().as_bytes().to_vec();
    let (filter, top) = Filter::open(&rules, |_| Ok(RulesAbove { root, files: Vec::new() })).unwrap();
    let mut read = |path: &RelPath| Ok(fs::read(source.join(OsStr::from_bytes(path.as_bytes()))).ok());
    kept.insert(Vec::new());
    for (path, is_dir) in tree {
        let parent = path.parent().unwrap();
        if !kept.contains(parent.as_bytes()) {
            continue;
        }
        let dir = filter.enter_all(&top, &parent, &mut read).unwrap();
        if filter.excludes(&dir, path, *is_dir).is_none() {
            kept.insert(path.as_bytes().to_vec());
        }
    }
    kept.remove(&Vec::new());
    kept
}

fn kept_by_rsync(rules: &[Vec<u8>], source: &Path, root_name: &[u8]) -> Option<BTreeSet<Vec<u8>>> {
    let mut command = Command::new("rsync");
    command.env("LC_ALL", "C").args(["-8", "-r", "-n", "--out-format=%n"]);
    for rule in rules {
        command.arg(OsStr::from_bytes(&[b"--filter=", &rule[..]].concat()));
    }
    let mut source = source.as_os_str().as_bytes().to_vec();
    if root_name.is_empty() {
        source.push(b'/');
    }
    command.arg(OsStr::from_bytes(&source)).arg("/nonexistent-destination/").stderr(Stdio::inherit());
    let output = command.output().unwrap();
    if output.status.code() == Some(1) {
        // A text that is no rule.
        return None;
    }
    assert!(output.status.success(), "{command:?}");
    let mut prefix = root_name.to_vec();
    if !prefix.is_empty() {
        prefix.push(b'/');
    }
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let names = lines.filter_map(|line| line.strip_prefix(prefix.as_slice()));
    let names = names.map(|name| name.strip_suffix(b"/").unwrap_or(name).to_vec());
    Some(names.filter(|name| !matches!(name.as_slice(), b"" | b".") && !is_chatter(name)).collect())
}

/// Whether a line of rsync is a message and no name.
fn is_chatter(line: &[u8]) -> bool {
    line.starts_with(b"created directory ")
}

/// A rule: some have modifiers.
fn rule(numbers: &mut Numbers) -> Vec<u8> {
    const PREFIXES: &[&[u8]] = &[
        b"- ",
        b"- ",
        b"- ",
        b"+ ",
        b"+ ",
        b"-! ",
        b"H ",
        b"S ",
        b"P ",
        b"R ",
        b"-p ",
        b"exclude,s ",
        b"-/ ",
    ];
    [numbers.pick(PREFIXES), &numbers.joined(PATTERN_PARTS, 1, 5)].concat()
}

/// Writes files of rules into some directories, and lists them.
fn write_rules(numbers: &mut Numbers, root: &Path, tree: &[(RelPath, bool)]) -> Vec<(RelPath, bool)> {
    let mut files = Vec::new();
    let dirs = tree.iter().filter(|(_, is_dir)| *is_dir).map(|(path, _)| path.clone());
    for dir in dirs.chain([RelPath::root()]) {
        // As rsync puts the path of the directory into the patterns, wildcards in it would change them.
        let is_plain = !dir.as_bytes().iter().any(|byte| b"*?[\\".contains(byte));
        for name in [".f", ".g"].into_iter().filter(|_| is_plain) {
            if numbers.below(3) == 0 {
                let mut text = Vec::new();
                for _ in 0..=numbers.below(3) {
                    text.extend(if numbers.below(8) == 0 { b"!".to_vec() } else { rule(numbers) });
                    text.push(b'\n');
                }
                fs::write(root.join(OsStr::from_bytes(dir.as_bytes())).join(name), text).unwrap();
                files.push((dir.join(name.as_bytes()).unwrap(), false));
            }
        }
    }
    files
}

#[test]
fn keeps_the_metadata_that_rsync_keeps() {
    if Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: rsync is not installed");
        return;
    }
    const MERGES: &[&[u8]] = &[b": .f", b":n .f", b":e .f", b":s .g", b":r .g", b"dir-merge,- .g", b":w+ .g"];
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for _ in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("foo");
        fs::create_dir(&source).unwrap();
        let tree = make_tree(&mut numbers, &source);
        let tree = [tree.clone(), write_rules(&mut numbers, &source, &tree)].concat();
        for case in 0..36 {
            let mut rules: Vec<Vec<u8>> = (0..=numbers.below(3)).map(|_| rule(&mut numbers)).collect();
            if case % 3 != 0 {
                rules.insert(numbers.below(rules.len() + 1), numbers.pick(MERGES).to_vec());
            }
            if case % 9 == 1 {
                rules.insert(numbers.below(rules.len() + 1), numbers.pick(MERGES).to_vec());
            }
            let root_name: &[u8] = if case % 4 == 0 { b"foo" } else { b"" };
            let Some(theirs) = kept_by_rsync(&rules, &source, root_name) else { continue };
            let ours = kept_by_haul(&rules, &source, &tree, root_name);
            let show = |set: BTreeSet<&Vec<u8>>| -> Vec<String> {
                set.into_iter().map(|name| name.escape_ascii().to_string()).collect()
            };
            assert_eq!(
                ours,
                theirs,
                "rules {:?}, root name `{}`: only haul keeps {:?}, only rsync keeps {:?}",
                rules.iter().map(|rule| rule.escape_ascii().to_string()).collect::<Vec<_>>(),
                root_name.escape_ascii(),
                show(ours.difference(&theirs).collect()),
                show(theirs.difference(&ours).collect()),
            );
        }
    }
}
