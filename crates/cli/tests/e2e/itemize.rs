//! Each change with its reason, compared with the output of rsync for the same change.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::tree::{list, listed_before, set_time};
use haul_testkit::{Finished, Need, TestTree};
use serde_json::Value;

use crate::scene::{Scene, Way, events, slash};
use crate::sftp;
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root, Need::Program("rsync");
        changes_are_itemized_as_by_rsync,
        changes_over_sftp_are_itemized_as_by_rsync,
    ];
    all.extend(cases![
        Need::Root, Need::Program("weed");
        changes_in_a_store_have_reasons,
    ]);
    all.extend(cases![
        entries_in_json_have_their_reasons,
        the_last_of_quiet_and_itemized_counts,
        a_private_key_behind_the_option_is_refused
    ]);
    all
}

const OLD: i64 = 1_500_000_000;
const NEW: i64 = 1_600_000_000;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn times(tree: &TestTree, seconds: i64) {
    // Whole seconds: rsync compares no others.
    for name in list(tree.path()).into_iter().rev() {
        tree.time(name, seconds, 0);
    }
    tree.time("", seconds, 0);
}

/// A source, and a destination that differs from it in each way. `all`: also in metadata that SFTP does not carry.
fn trees(scene: &Scene, all: bool) -> (TestTree, TestTree) {
    let (source, there) = (scene.tree("src"), scene.tree("there"));
    let first = listed_before(scene.path(), "first", &["second"]);
    for tree in [&source, &there] {
        for name in ["same", "time", "mode", "owner", "dir/same", &first, "many"] {
            tree.text(name, "content");
        }
        tree.link("link", "same");
        tree.dir("dir-mode");
        if all {
            for name in ["acl", "xattr"] {
                tree.text(name, "content");
            }
        }
    }
    source.text("size", "longer content");
    there.text("size", "content");
    source.text("many", "longer content");
    for name in ["new", "dir/new", "dir/deep/new", "of\x1bname"] {
        source.text(name, "content");
    }
    source.dir("new-dir");
    source.link("new-link", "to the target");
    fs::remove_file(source.join("link")).unwrap();
    source.link("link", "other");
    there.text("kind", "content");
    source.dir("kind");
    for name in ["gone", "gone-dir/one"] {
        there.text(name, "content");
    }
    for (tree, seconds) in [(&source, NEW), (&there, NEW)] {
        times(tree, seconds);
    }
    set_time(&there.join("time"), OLD, 0);
    set_time(&there.join("many"), OLD, 0);
    mode(&source.join("mode"), 0o600);
    mode(&source.join("many"), 0o600);
    mode(&source.join("dir-mode"), 0o700);
    chown(source.join("owner"), Some(5), Some(6)).unwrap();
    chown(source.join("many"), Some(5), None).unwrap();
    fs::hard_link(source.join(&first), source.join("second")).unwrap();
    if all {
        tool(Command::new("mkfifo").arg(source.join("fifo")));
        tool(Command::new("setfacl").args(["-m", "u:7:r"]).args([source.join("acl"), source.join("many")]));
        for name in ["xattr", "many"] {
            tool(Command::new("setfattr").args(["-n", "user.x", "-v", "y"]).arg(source.join(name)));
        }
    }
    source.time("", NEW, 0);
    set_time(&source.join("link"), NEW, 0);
    (source, there)
}

fn copy_of(scene: &Scene, there: &TestTree, name: &str) -> std::path::PathBuf {
    let copy = scene.join(name);
    tool(Command::new("cp").arg("-a").arg(there.path()).arg(&copy));
    copy
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The output of rsync, with names as haul escapes them.
fn rsync(options: &[&str], source: &Path, copy: &Path) -> Vec<String> {
    let mut rsync = Command::new("rsync");
    let output = rsync.args(options).arg(slash(source)).arg(slash(copy)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    sorted(&String::from_utf8(output.stdout).unwrap().replace("\\#033", "\\x1b"))
}

fn lines(run: &Finished) -> Vec<String> {
    sorted(&run.out())
}

fn changes_are_itemized_as_by_rsync() {
    let scene = Scene::new();
    let (source, there) = trees(&scene, true);
    let options: [(&str, &[&str], &[&str]); 5] = [
        ("copy", &["-aHAXi"], &[]),
        ("sync", &["-aHAXi", "--delete"], &["--force-delete"]),
        ("copy", &["-aHAXic"], &["-c"]),
        ("copy", &["-aHXi", "--no-times", "--no-perms"], &["--no-times", "--no-perms"]),
        (
            "copy",
            &["-aHi", "--no-owner", "--existing"],
            &["--no-owner", "--existing", "--no-acls", "--no-xattrs"],
        ),
    ];
    for (number, (word, rsync_words, words)) in options.into_iter().enumerate() {
        let expected = rsync(rsync_words, source.path(), &copy_of(&scene, &there, &format!("r{number}")));
        for way in [Way::Local, Way::Push, Way::Pull] {
            let copy = copy_of(&scene, &there, &format!("{way:?}{number}"));
            // rsync prints `<` if it sends to another host.
            let sent =
                |line: &String| if way == Way::Push { line.replacen('>', "<", 1) } else { line.clone() };
            let is_file = |line: &String| line.starts_with('>');
            let mut expected: Vec<String> =
                expected.iter().map(|line| if is_file(line) { sent(line) } else { line.clone() }).collect();
            expected.sort();
            for dry_run in [true, false] {
                let run = plain(&scene, way, word, source.path(), &copy).arg("-i").args(words);
                let run = if dry_run { run.arg("-n") } else { run };
                let (found, expected) = (lines(&run.finish().expect_success()), expected.clone());
                let of_run = |lines| if dry_run { lines } else { without_dir_times(lines) };
                assert_eq!(of_run(found), of_run(expected), "{way:?} {words:?} {dry_run}");
            }
            let run = plain(&scene, way, word, source.path(), &copy).arg("-i").args(words);
            let again = run.finish().expect_success().out();
            assert!(words.contains(&"--no-times") || again.is_empty(), "{words:?} {again}");
        }
    }
}

/// Without the times of existing directories: entries in them may be made before the times are compared.
fn without_dir_times(lines: Vec<String>) -> Vec<String> {
    let rest = lines
        .into_iter()
        .map(|line| if line.starts_with(".d") { line.replacen(".t", "..", 1) } else { line });
    let mut rest: Vec<String> = rest.filter(|line| !line.starts_with(".d.........")).collect();
    rest.sort();
    rest
}

/// The command without `--json`.
fn plain(scene: &Scene, way: Way, word: &str, from: &Path, to: &Path) -> haul_testkit::CommandRun {
    let (from, to) = (slash(from), slash(to));
    match way {
        Way::Push => scene.haul_ssh(word).arg(from).arg(scene.remote(to)),
        Way::Pull => scene.haul_ssh(word).arg(scene.remote(from)).arg(to),
        Way::Local | Way::Relay => scene.haul(word).arg(from).arg(to),
    }
}

fn changes_over_sftp_are_itemized_as_by_rsync() {
    let scene = Scene::new();
    let (source, there) = trees(&scene, false);
    let expected = rsync(&["-aHi"], source.path(), &copy_of(&scene, &there, "expected"));
    let copy = copy_of(&scene, &there, "copy");
    let run = sftp::push(&scene, source.path(), &copy).arg("-n").finish().expect_success();
    let planned = reasons(&run);
    let run = sftp::push(&scene, source.path(), &copy).arg("-v").finish().expect_success();
    assert_eq!(reasons(&run), planned);
    for (name, changes) in &planned {
        let has = |word: &str| changes.contains(&word);
        let name = &name.replace('\x1b', "\\x1b");
        let line = expected.iter().find(|line| {
            line[12..].trim_end_matches('/') == name || line[12..].starts_with(&format!("{name} "))
        });
        let line = line.unwrap_or_else(|| panic!("{name} {changes:?} is not in {expected:?}"));
        let attributes: Vec<bool> = "cstpog".chars().map(|letter| line[2..11].contains(letter)).collect();
        let words = ["content", "size", "time", "mode", "owner", "group"].map(has);
        if has("new") || has("kind") {
            assert!(line[..12].ends_with("+++++++++ "), "{line} {changes:?}");
        } else {
            assert_eq!(attributes, words, "{line} {changes:?}");
        }
    }
    assert_eq!(planned.len(), expected.len(), "{planned:?} {expected:?}");
}

/// The names and reasons of the entries in JSON.
fn reasons(run: &Finished) -> Vec<(String, Vec<&'static str>)> {
    const WORDS: [&str; 10] =
        ["new", "kind", "content", "size", "time", "mode", "owner", "group", "acl", "xattr"];
    let word = |value: &Value| *WORDS.iter().find(|word| value == **word).unwrap();
    let mut all: Vec<_> = events(run)
        .iter()
        .filter(|event| event["type"] == "entry" && event["action"] != "left")
        .map(|event| {
            let changes = event["changes"].as_array().unwrap().iter().map(word).collect();
            (event["path"].as_str().unwrap().to_owned(), changes)
        })
        .collect();
    all.sort();
    all
}

fn changes_in_a_store_have_reasons() {
    let bucket = TestBucket::new();
    let tree = bucket.scene.tree("src");
    for name in ["same", "mode", "size", "time", "xattr"] {
        tree.text(name, "content");
    }
    times(&tree, OLD);
    let to = bucket.at("tree/");
    let copy = |words: &[&str]| {
        let run = crate::objtrees::copy(bucket.haul("copy"), slash(tree.path()), &to);
        run.args(words).finish().expect_success()
    };
    let first = reasons(&copy(&["-v"]));
    assert!(first.iter().all(|(name, changes)| name == "." || changes == &["new"]), "{first:?}");
    mode(&tree.join("mode"), 0o600);
    tree.text("size", "longer content");
    set_time(&tree.join("time"), NEW, 0);
    tool(Command::new("setfattr").args(["-n", "user.x", "-v", "y"]).arg(tree.join("xattr")));
    set_time(tree.path(), OLD, 0);
    let expected = [("mode", "mode"), ("size", "size"), ("time", "time"), ("xattr", "xattr")]
        .map(|(name, word)| (name.to_owned(), vec![word]));
    let planned = reasons(&copy(&["-n"]));
    assert_eq!(planned, expected);
    assert_eq!(reasons(&copy(&["-v"])), expected);
}

fn entries_in_json_have_their_reasons() {
    for way in [Way::Local, Way::Push, Way::Pull, Way::Relay] {
        let scene = Scene::new();
        let source = scene.tree("src");
        for name in ["a", "large"] {
            source.text(name, "content");
        }
        source.file("large", 5 << 20);
        times(&source, OLD);
        let copy = scene.join("copy");
        let run = scene.copy(way, source.path(), &copy).arg("-v").finish().expect_success();
        let all = |words: &'static [&'static str]| {
            move |names: &[&str]| -> Vec<_> {
                names.iter().map(|name| ((*name).to_owned(), words.to_vec())).collect()
            }
        };
        assert_eq!(reasons(&run), all(&["new"])(&[".", "a", "large"]), "{way:?}");
        set_time(&source.join("large"), NEW, 0);
        let run = scene.copy(way, source.path(), &copy).arg("-v").finish().expect_success();
        assert_eq!(reasons(&run), all(&["time"])(&["large"]), "{way:?}");
        source.text("a", "other content");
        set_time(&source.join("a"), OLD, 0);
        set_time(source.path(), OLD, 0);
        // -i lists the entries like -v.
        let run = scene.copy(way, source.path(), &copy).args(["-i", "-c"]).finish().expect_success();
        assert_eq!(reasons(&run), all(&["content", "size"])(&["a"]), "{way:?}");
    }
}

fn the_last_of_quiet_and_itemized_counts() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("a", "content");
    for (options, printed) in [(["-i", "-q"], ""), (["-q", "-i"], ">f+++++++++ a\n")] {
        let run = scene.haul("copy").args(options).arg(slash(source.path())).arg(scene.tree("to").path());
        let run = run.finish().expect_success();
        assert_eq!(
            run.out().replace(".d..t...... ./\n", "").replace("cd+++++++++ ./\n", ""),
            printed,
            "{run}"
        );
        fs::remove_file(scene.join("to/a")).unwrap();
    }
}

/// scp has `-i KEY`: the key must not be taken for a source.
fn a_private_key_behind_the_option_is_refused() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("a", "content");
    let key = scene.join("deploy");
    fs::write(&key, "-----BEGIN OPENSSH PRIVATE KEY-----\nnone\n").unwrap();
    let run = scene.haul("copy").arg("-i").arg(&key).arg(slash(source.path())).arg(scene.join("copy"));
    let run = run.finish().expect_code(2);
    assert!(run.err().contains("-e 'ssh -i KEY'") && !scene.join("copy").exists(), "{run}");
}
