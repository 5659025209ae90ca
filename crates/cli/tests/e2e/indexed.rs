//! Runs with `--index`: which directories they read, which changes they miss, and when they find them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use haul_slowfs::{MountOptions, Op, OpCounts, SlowMount};
use haul_testkit::process::kill;
use haul_testkit::{CommandRun, Finished, Need, TestTree, assert_same_tree};

use crate::scene::{HAUL, RunCounts, Scene, Way, events, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        a_change_in_place_is_missed_and_heals,
        nothing_is_done_on_the_word_of_an_index,
        a_sync_makes_the_same_tree_whatever_became_of_the_source,
        rules_may_be_others_each_time,
        an_index_that_cannot_be_used_costs_one_full_run,
        a_run_that_is_killed_or_dry_leaves_the_index_as_it_was,
        an_index_is_refused_where_there_can_be_none,
    ];
    all.extend(cases![
        Need::Fuse;
        a_second_run_asks_about_directories_not_about_files,
    ]);
    all
}

/// A directory is believed once it has been as it is for longer than file systems' times are coarse.
fn settle() {
    sleep(Duration::from_millis(2100));
}

/// `WORD --index=FILE SOURCE/ DESTINATION/`.
fn run(scene: &Scene, word: &str, from: &Path, to: &Path) -> CommandRun {
    scene.by(Way::Local, word, slash(from), slash(to)).arg(option(&scene.join("index")))
}

fn option(file: &Path) -> OsString {
    let mut option = OsString::from("--index=");
    option.push(file);
    option
}

/// Directories that were read, and those that were known.
#[track_caller]
fn directories(summary: &RunCounts) -> (u64, u64) {
    summary.assert_accounted();
    let of = |name: &str| summary.0["index"][name].as_u64().unwrap_or_else(|| panic!("{summary:?}"));
    (of("folders_read"), of("folders_known"))
}

#[track_caller]
fn done(run: CommandRun) -> RunCounts {
    summary(&run.finish().expect_success())
}

fn has_note(run: &Finished, text: &str) -> bool {
    let is_it = |line: &serde_json::Value| line["text"].as_str().is_some_and(|note| note.contains(text));
    events(run).iter().any(|line| line["type"] == "note" && is_it(line))
}

/// Writes into the file, whose length stays.
fn write_in_place(path: &Path, text: &str) {
    assert_eq!(fs::metadata(path).unwrap().len(), text.len() as u64);
    fs::write(path, text).unwrap();
}

fn a_change_in_place_is_missed_and_heals() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("a/file", "old");
    source.text("b/file", "old");
    let copy = scene.join("dst");
    settle();
    let index = |more: &[&str]| done(run(&scene, "copy", source.path(), &copy).args(more));
    assert_eq!(directories(&index(&[])), (3, 0));
    for name in ["a/file", "b/file"] {
        write_in_place(&source.join(name), "new");
    }
    // Both are missed: that is the price of an index.
    let second = index(&[]);
    assert_eq!((directories(&second), second.of("copied")), ((0, 3), 0));
    assert_eq!(fs::read_to_string(copy.join("a/file")).unwrap(), "old");
    // A name that comes or goes in its directory brings one to light.
    source.text("a/other", "x");
    settle();
    let third = index(&[]);
    assert_eq!((directories(&third), third.of("copied")), ((1, 2), 2));
    assert_eq!(fs::read_to_string(copy.join("a/file")).unwrap(), "new");
    assert_eq!(fs::read_to_string(copy.join("b/file")).unwrap(), "old");
    // The other one comes to light when its directory was read too long ago.
    let last = index(&["--index-refresh", "2s"]);
    assert!(directories(&last).0 >= 2 && last.of("copied") == 1, "{last:?}");
    assert_same_tree(source.path(), &copy);
    // Or in a run without.
    write_in_place(&source.join("b/file"), "NEW");
    assert_eq!(index(&[]).of("copied"), 0);
    assert_eq!(done(scene.copy(Way::Local, source.path(), &copy)).of("copied"), 1);
    assert_same_tree(source.path(), &copy);
}

fn nothing_is_done_on_the_word_of_an_index() {
    let scene = Scene::new();
    let source = scene.tree("src");
    for name in ["a/content", "a/mode", "a/both", "b/file"] {
        source.text(name, "old");
    }
    source.link("a/link", "elsewhere");
    let copy = scene.join("dst");
    settle();
    let index = |more: &[&str]| done(run(&scene, "sync", source.path(), &copy).args(more));
    let _ = index(&[]);
    let mode = |mode: u32| fs::Permissions::from_mode(mode);
    write_in_place(&source.join("a/content"), "new");
    write_in_place(&source.join("a/both"), "new");
    fs::set_permissions(source.join("a/mode"), mode(0o600)).unwrap();
    fs::set_permissions(source.join("a/both"), mode(0o600)).unwrap();
    // A run without it copies the new entries, and the next one with it does not bring back the old ones.
    let _ = done(scene.copy(Way::Local, source.path(), &copy));
    assert_same_tree(source.path(), &copy);
    let after = index(&[]);
    assert_eq!((directories(&after), after.of("same")), ((0, 3), after.of("found")));
    assert_same_tree(source.path(), &copy);
    // Entries that the destination lacks come as they are now, in content and all else.
    fs::remove_dir_all(&copy).unwrap();
    fs::set_permissions(source.join("b/file"), mode(0o640)).unwrap();
    let again = index(&[]);
    assert_eq!((directories(&again), again.of("copied")), ((0, 3), 4));
    assert_same_tree(source.path(), &copy);
    // Content is compared as it is now.
    write_in_place(&source.join("b/file"), "new");
    assert_eq!(index(&["-c"]).of("copied"), 1);
    assert_same_tree(source.path(), &copy);
}

fn a_sync_makes_the_same_tree_whatever_became_of_the_source() {
    let scene = Scene::new();
    let source = TestTree::hard(scene.join("src"), 1);
    source.many("many", 500, 0..300);
    let copy = scene.join("dst");
    let sync = |more: &[&str]| done(run(&scene, "sync", source.path(), &copy).args(more));
    settle();
    let _ = sync(&[]);
    assert_same_tree(source.path(), &copy);
    let nothing = sync(&[]);
    // Directories with a time in the future are never believed.
    let (read, known) = directories(&nothing);
    assert_eq!(nothing.of("same"), nothing.of("found"));
    assert!(read < 5 && known > 100, "{nothing:?}");
    // Names come, go, are given to something else, and move with all that is below them.
    fs::remove_file(source.join("many/0000/0000007.txt")).unwrap();
    fs::remove_dir_all(source.join("many/0001")).unwrap();
    fs::rename(source.join("many/0002"), source.join("many/moved")).unwrap();
    fs::remove_file(source.join("many/0003/0000300.txt")).unwrap();
    symlink("elsewhere", source.join("many/0003/0000300.txt")).unwrap();
    source.text("many/0004/deep/er/file", "x");
    // And entries at the destination change, in directories that did not change at the source.
    fs::write(copy.join("many/0003/extra"), "x").unwrap();
    fs::remove_file(copy.join("many/0003/0000301.txt")).unwrap();
    let would = sync(&["-n"]);
    let after = sync(&[]);
    assert_same_tree(source.path(), &copy);
    let (read, known) = directories(&after);
    assert!(known > 100 && read > 5, "{after:?}");
    for count in ["removed", "copied", "found"] {
        assert_eq!(would.of(count), after.of(count), "{count}");
    }
}

fn rules_may_be_others_each_time() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("a/file", "x");
    source.text("a/x.tmp", "x");
    source.file("a/large", 5000);
    source.text("b/c/file", "x");
    source.text("b/.haul-0123456789abcdef.part", "left by another run");
    let copy = scene.join("dst");
    settle();
    let copied = |rules: &[&str]| {
        let done = done(run(&scene, "sync", source.path(), &copy).args(rules));
        (done.of("copied"), done.of("excluded"), directories(&done))
    };
    assert_eq!(copied(&["--exclude", "*.tmp", "--exclude", "/b/", "--max-size", "1K"]), (1, 3, (2, 0)));
    assert_eq!(copied(&["--exclude", "/b/"]), (2, 1, (0, 2)), "what was left out was seen all the same");
    assert_eq!(copied(&[]), (1, 1, (2, 2)), "what was not looked into is looked into now");
    assert_eq!(copied(&[]), (0, 1, (0, 4)));
    fs::remove_file(source.join("b/.haul-0123456789abcdef.part")).unwrap();
    assert_eq!(copied(&[]), (0, 0, (1, 3)));
    assert_same_tree(source.path(), &copy);
}

fn an_index_that_cannot_be_used_costs_one_full_run() {
    let scene = Scene::new();
    let (source, other) = (scene.tree("src"), scene.tree("other"));
    for tree in [&source, &other] {
        tree.many("many", 300, 0..100);
    }
    let (copy, file) = (scene.join("dst"), scene.join("index"));
    settle();
    let index = |from: &TestTree| run(&scene, "copy", from.path(), &copy).finish().expect_success();
    let _ = index(&source);
    let whole = fs::read(&file).unwrap();
    let torn = &whole[..whole.len() / 2];
    let mut flipped = whole.clone();
    flipped[whole.len() / 3] ^= 4;
    for (bytes, why) in
        [(torn, "damaged"), (&flipped, "damaged"), (b"", "damaged"), (&b"some text\n".repeat(9), "no index")]
    {
        fs::write(&file, bytes).unwrap();
        let run = index(&source);
        assert!(has_note(&run, why) && has_note(&run, "all directories are read"), "{run}");
        assert_eq!(directories(&summary(&run)), (5, 0));
        assert_eq!(directories(&summary(&index(&source))), (0, 5));
    }
    let run = index(&other);
    assert!(has_note(&run, "another source"), "{run}");
    assert_eq!(directories(&summary(&run)), (5, 0));
}

fn a_run_that_is_killed_or_dry_leaves_the_index_as_it_was() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.many("many", 300, 0..100);
    let copy = scene.join("dst");
    settle();
    let index = || scene.haul("sync").args(["--index", "--json"]).arg(slash(source.path())).arg(slash(&copy));
    let _ = done(index());
    // Named by itself, among the user's own records.
    let directory = scene.home().join("state/haul/index");
    assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    let files =
        || -> Vec<PathBuf> { fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path()).collect() };
    let [file] = files().try_into().unwrap();
    let before = fs::read(&file).unwrap();
    source.file("new/large", 64 << 20);
    fs::remove_dir_all(source.join("many/0001")).unwrap();
    settle();
    let _ = done(index().arg("-n"));
    let running = index().args(["--bwlimit", "8M"]).start();
    sleep(Duration::from_millis(1500));
    kill(running.pid());
    let _ = running.finish();
    assert_eq!(files(), std::slice::from_ref(&file));
    assert!(fs::read(&file).unwrap() == before);
    let _ = done(index());
    assert_same_tree(source.path(), &copy);
    assert!(fs::read(&file).unwrap() != before);
    assert_eq!(directories(&done(index())), (0, 5));
    scene.assert_all_gone();
}

fn an_index_is_refused_where_there_can_be_none() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("file", "x");
    fs::create_dir(scene.join("dst")).unwrap();
    let refused = |words: &[&str], why: &str| {
        let run = CommandRun::new(HAUL, scene.tag()).env("HOME", scene.home()).in_dir(scene.path());
        let run = run.args(words).finish().expect_code(2);
        assert!(run.said().contains(why), "{why}: {run}");
    };
    refused(&["copy", "--index", "nowhere.invalid:/src/", "dst/"], "on the host of the source");
    refused(&["sync", "--index", "s3://bucket/src/", "dst/"], "on the host of the source");
    refused(&["copy", "--index", "src", "other", "dst/"], "--index=FILE");
    refused(&["copy", "--index", "--files-from", "list", "src", "dst/"], "--files-from");
    refused(&["copy", "--index=dst/index", "src/", "dst/"], "destination");
    refused(&["copy", "--index=none/index", "src/", "dst/"], "none");
    refused(&["copy", "--index=src", "src/", "dst/"], "directory");
    refused(&["copy", "--index-refresh", "2d", "src/", "dst/"], "--index");
    assert!(!scene.join("dst/file").exists());
}

fn a_second_run_asks_about_directories_not_about_files() {
    let scene = Scene::new();
    let source = scene.tree("behind");
    let (directories_there, files) = (21, 800);
    for directory in 0_u64..20 {
        for file in 0..40 {
            source.file(format!("{directory:02}/{file:02}"), (directory * 311 + file * 97) % 900);
        }
    }
    let (at, copy) = (scene.join("mnt"), scene.join("dst"));
    fs::create_dir(&at).unwrap();
    settle();
    let sync = |more: &[OsString]| -> (RunCounts, OpCounts) {
        // Mounted anew, it has another number, and nothing is known of it.
        let options =
            MountOptions { meta: Duration::from_millis(1), xattrs: false, ..MountOptions::default() };
        let slow = SlowMount::new(source.path(), &at, options).unwrap();
        let run = scene.by(Way::Local, "sync", slash(&at), slash(&copy)).args(more);
        (done(run), slow.counts())
    };
    let index = [option(&scene.join("index"))];
    let (first, counts) = sync(&index);
    assert_eq!((directories(&first), first.of("copied")), ((directories_there, 0), files));
    assert!(counts.of(Op::Lookup) > files, "{}", counts.json());
    let (_, without) = sync(&[]);
    let (second, counts) = sync(&index);
    assert_eq!(
        (directories(&second), second.of("same")),
        ((0, directories_there), files + directories_there)
    );
    assert_eq!(counts.of(Op::Opendir) + counts.of(Op::Readdir) + counts.of(Op::Open), 0, "{}", counts.json());
    let asked = counts.of(Op::Lookup) + counts.of(Op::Getattr);
    assert!(asked <= directories_there * 3, "{}", counts.json());
    assert!(counts.total() * 8 < without.total(), "{} without: {}", counts.json(), without.json());
    // One directory changes: that one is listed, and looked through.
    source.text("07/new", "x");
    fs::remove_file(source.join("07/00")).unwrap();
    settle();
    let (third, counts) = sync(&index);
    assert_eq!(directories(&third), (1, directories_there - 1));
    assert_eq!((third.of("copied"), third.of("removed")), (1, 1));
    // Once for the entries in it, and once for those to remove.
    assert!(counts.of(Op::Opendir) <= 2, "{}", counts.json());
    assert!(counts.total() < directories_there * 3 + 40 * 5, "{}", counts.json());
    assert_same_tree(source.path(), &copy);
}
