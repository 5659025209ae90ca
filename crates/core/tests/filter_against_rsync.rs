//! The filter against the real rsync: the same tree, the same rules, the same names.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use haul_core::RelPath;
use haul_core::filter::{Rule, excludes};

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

fn kept_by_haul(rules: &[Rule], tree: &[(RelPath, bool)], root_name: &[u8]) -> BTreeSet<Vec<u8>> {
    let rules: Vec<Rule> = rules.iter().map(|rule| rule.below(root_name)).collect();
    let mut kept = BTreeSet::new();
    if excludes(&rules, &RelPath::root(), true) {
        return kept;
    }
    kept.insert(Vec::new());
    for (path, is_dir) in tree {
        let parent = path.parent().unwrap();
        if kept.contains(parent.as_bytes()) && !excludes(&rules, path, *is_dir) {
            kept.insert(path.as_bytes().to_vec());
        }
    }
    kept.remove(&Vec::new());
    kept
}

fn kept_by_rsync(rules: &[Rule], source: &Path, root_name: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut command = Command::new("rsync");
    command.env("LC_ALL", "C").args(["-8", "-r", "-n", "--out-format=%n"]);
    for rule in rules {
        // The prefix keeps a pattern that begins with `- `, `+ ` or is `!` a pattern.
        let mut filter = if rule.include { b"--filter=+ ".to_vec() } else { b"--filter=- ".to_vec() };
        filter.extend_from_slice(&rule.pattern);
        command.arg(OsStr::from_bytes(&filter));
    }
    let mut source = source.as_os_str().as_bytes().to_vec();
    if root_name.is_empty() {
        source.push(b'/');
    }
    command.arg(OsStr::from_bytes(&source)).arg("/nonexistent-destination/").stderr(Stdio::inherit());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}");
    let mut prefix = root_name.to_vec();
    if !prefix.is_empty() {
        prefix.push(b'/');
    }
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let names = lines.filter_map(|line| line.strip_prefix(prefix.as_slice()));
    let names = names.map(|name| name.strip_suffix(b"/").unwrap_or(name).to_vec());
    names.filter(|name| !matches!(name.as_slice(), b"" | b".") && !is_chatter(name)).collect()
}

/// What rsync says that is no name.
fn is_chatter(line: &[u8]) -> bool {
    line.starts_with(b"created directory ")
}

#[test]
fn keeps_what_rsync_keeps() {
    if Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: rsync is not installed");
        return;
    }
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for _ in 0..8 {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("foo");
        fs::create_dir(&source).unwrap();
        let tree = make_tree(&mut numbers, &source);
        for case in 0..30 {
            let rules: Vec<Rule> = (0..=numbers.below(3))
                .map(|_| {
                    let pattern = numbers.joined(PATTERN_PARTS, 1, 5);
                    if numbers.below(3) == 0 { Rule::include(pattern) } else { Rule::exclude(pattern) }
                })
                .collect();
            let root_name: &[u8] = if case % 4 == 0 { b"foo" } else { b"" };
            let ours = kept_by_haul(&rules, &tree, root_name);
            let theirs = kept_by_rsync(&rules, &source, root_name);
            let show = |set: BTreeSet<&Vec<u8>>| -> Vec<String> {
                set.into_iter().map(|name| name.escape_ascii().to_string()).collect()
            };
            assert_eq!(
                ours,
                theirs,
                "rules {:?}, root name `{}`: only haul keeps {:?}, only rsync keeps {:?}",
                rules.iter().map(|r| (r.include, r.pattern.escape_ascii().to_string())).collect::<Vec<_>>(),
                root_name.escape_ascii(),
                show(ours.difference(&theirs).collect()),
                show(theirs.difference(&ours).collect()),
            );
        }
    }
}
