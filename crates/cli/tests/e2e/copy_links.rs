//! `-L`: symbolic links of the source become their targets, compared with the result of `rsync -aHL`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_testkit::compare::fingerprint;
use haul_testkit::tree::list;
use haul_testkit::{CommandRun, Finished, Need, Scratch, SshdOptions, TestTree};

use crate::scene::{HAUL, Scene, WAYS, Way, slash, summary};
use crate::sftp;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Program("rsync");
        links_become_their_targets_as_with_rsync,
        links_are_followed_over_sftp_as_by_rsync,
        a_changed_target_is_copied_by_the_next_sync,
        links_to_nothing_fail_by_name_and_nothing_is_deleted,
        circles_end_and_are_named,
    ];
    all.extend(cases![
        a_link_that_changes_its_target_during_the_run_gives_one_of_them,
        links_at_the_destination_are_not_followed,
        verify_hash_and_plan_follow_links,
        a_confined_login_follows_no_link_out_of_its_directory,
        commands_that_cannot_follow_links_are_refused,
    ]);
    all.extend(cases![
        Need::Root, Need::Program("rsync");
        other_file_systems_are_left_out_as_by_rsync,
    ]);
    all
}

/// A tree with links of many kinds, none of which leads to nothing or in a circle.
fn source(scene: &Scene) -> TestTree {
    let outside = scene.tree("outside");
    outside.text("far/deep/file", "far away");
    outside.text("far/other", "other");
    outside.file("large", 5 << 20);
    let tree = scene.tree("src");
    tree.text("file", "content");
    tree.text("dir/a", "a");
    tree.text("dir/sub/b", "bb");
    tree.dir("empty");
    tree.text("names", "several");
    fs::hard_link(tree.join("names"), tree.join("names-too")).unwrap();
    let absolute = outside.join("far").display().to_string();
    for (name, target) in [
        ("to-file", "file"),
        ("to-file-too", "file"),
        ("chain-1", "chain-2"),
        ("chain-2", "dir/../chain-3"),
        ("chain-3", "file"),
        ("to-dir", "dir"),
        ("to-dir-too", "./dir/"),
        ("dir/up-and-down", "../empty"),
        ("to-empty", "empty"),
        ("leaves", "../outside/far"),
        ("absolute", &absolute),
        ("large", "../outside/large"),
        ("to-names", "names"),
        ("to-names-too", "names-too"),
        ("through", "to-dir/sub/b"),
    ] {
        tree.link(name, target);
    }
    for name in [&b"odd \n name"[..], b"\xff\xfe", b" ", b"*?[", b"-L"] {
        symlink("file", tree.join(std::ffi::OsStr::from_bytes(name))).unwrap();
    }
    for (tree, start) in [(&outside, 1_500_000_000), (&tree, 1_600_000_000)] {
        let names = list(tree.path()).into_iter().filter(|name| !tree.join(name).is_symlink());
        for (number, name) in names.enumerate() {
            tree.time(&name, start + number as i64, 0);
        }
        tree.time("", start, 0);
    }
    tree
}

/// `rsync -aHL`, and its exit code.
fn rsync(words: &[&str], from: &Path, to: &Path) -> Option<i32> {
    let run = Command::new("rsync").arg("-aHL").args(words).arg(slash(from)).arg(slash(to)).output().unwrap();
    run.status.code()
}

/// Everything about a tree: names, kinds, modes, owners, times, sizes and content, and which names are one file.
fn facts(dir: &Path) -> Vec<String> {
    let mut first = std::collections::HashMap::new();
    let mut facts = Vec::new();
    for name in std::iter::once("".into()).chain(list(dir)) {
        let path = dir.join(&name);
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let one = first.entry(meta.ino()).or_insert_with(|| name.clone());
        facts.push(format!(
            "{name:?} {:o} {} {} {} {} {one:?}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            blake3::hash(&content),
        ));
    }
    facts.sort();
    facts
}

#[track_caller]
fn assert_same_facts(expected: &Path, copy: &Path) {
    let (expected, found) = (facts(expected), facts(copy));
    assert!(expected == found, "rsync:\n{}\nhaul:\n{}", expected.join("\n"), found.join("\n"));
}

fn links_become_their_targets_as_with_rsync() {
    let scene = Scene::new();
    let source = source(&scene);
    let expected = scene.join("expected");
    assert_eq!(rsync(&[], source.path(), &expected), Some(0));
    for way in WAYS {
        let copy = scene.join(format!("{way:?}"));
        let run = scene.copy(way, source.path(), &copy).arg("-L").finish().expect_success();
        summary(&run).assert_accounted();
        assert_same_facts(&expected, &copy);
        let again = scene.copy(way, source.path(), &copy).arg("--copy-links").finish().expect_success();
        let told = summary(&again);
        assert_eq!((told.of("copied"), told.of("made"), told.of("updated")), (0, 0, 0), "{way:?} {again}");
        assert_same_facts(&expected, &copy);
    }
    // The source itself may be a link.
    symlink("src", scene.join("root")).unwrap();
    let run = scene.haul("copy").arg("-L").arg(scene.join("root")).arg(slash(&scene.join("into"))).finish();
    let _ = run.expect_success();
    assert_same_facts(&expected, &scene.join("into/root"));
    // Some of it, by a list.
    fs::write(scene.join("list"), "to-dir/sub\nto-dir/a\nleaves/deep/file\n").unwrap();
    let run = scene.copy(Way::Pull, source.path(), &scene.join("listed")).arg("-L");
    let _ = run.arg("--files-from").arg(scene.join("list")).finish().expect_success();
    for (name, content) in [("to-dir/sub/b", "bb"), ("to-dir/a", "a"), ("leaves/deep/file", "far away")] {
        assert_eq!(fs::read_to_string(scene.join("listed").join(name)).unwrap(), content);
    }
    assert!(!scene.join("listed/to-dir").is_symlink() && !scene.join("listed/file").exists());
}

fn links_are_followed_over_sftp_as_by_rsync() {
    let scene = Scene::new();
    let source = source(&scene);
    let (expected, copy) = (scene.join("expected"), scene.join("copy"));
    // An SFTP server does not tell which names are one file.
    let run = Command::new("rsync").arg("-aL").arg(slash(source.path())).arg(slash(&expected)).status();
    assert!(run.unwrap().success());
    let _ = sftp::pull(&scene, source.path(), &copy).arg("-L").finish().expect_success();
    assert_same_facts(&expected, &copy);
    let told = summary(&sftp::pull(&scene, source.path(), &copy).arg("-L").finish().expect_success());
    assert_eq!(told.of("same"), told.of("found"), "{told:?}");
    let there = scene.join("there");
    fs::create_dir_all(scene.join("kept")).unwrap();
    fs::create_dir(&there).unwrap();
    symlink(scene.join("kept"), there.join("to-dir")).unwrap();
    let _ = sftp::push(&scene, source.path(), &there).arg("-L").finish().expect_success();
    let linked = scene.join("linked");
    assert_eq!(rsync(&[], source.path(), &linked), Some(0));
    assert_same_facts(&linked, &there);
    assert_eq!(list(&scene.join("kept")).len(), 0);
    make_circles(&source);
    source.link("dangling", "nowhere");
    let run = sftp::pull(&scene, source.path(), &scene.join("circles")).arg("-L").finish().expect_code(1);
    assert_circles(&run, &scene.join("circles"));
    assert!(run.said().contains("does not exist"), "{run}");
    fs::write(scene.join("list"), "to-dir/sub\nm1/x/y\nc/up\n").unwrap();
    let run = sftp::pull(&scene, source.path(), &scene.join("listed")).arg("-L");
    let run = run.arg("--files-from").arg(scene.join("list")).finish().expect_code(1);
    assert_eq!(summary(&run).of("failed"), 2, "{run}");
    assert_eq!(fs::read_to_string(scene.join("listed/to-dir/sub/b")).unwrap(), "bb");
}

fn a_changed_target_is_copied_by_the_next_sync() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = source(&scene);
        let (expected, copy) = (scene.join("expected"), scene.join("copy"));
        let sync = || scene.by(way, "sync", slash(source.path()), slash(&copy)).arg("-L").finish();
        let _ = sync().expect_success();
        // The content behind a link, where a link leads, and a name in a directory behind a link.
        scene.tree("outside").text("far/other", "longer than before");
        fs::remove_file(source.join("to-file")).unwrap();
        source.link("to-file", "dir/a");
        fs::remove_file(scene.join("outside/far/deep/file")).unwrap();
        fs::remove_file(source.join("to-empty")).unwrap();
        source.link("to-empty", "dir/sub");
        fs::remove_file(source.join("chain-1")).unwrap();
        let told = summary(&sync().expect_success());
        assert_eq!(rsync(&["--delete"], source.path(), &expected), Some(0));
        assert_same_facts(&expected, &copy);
        assert_eq!(told.of("removed"), 3, "{told:?}");
        assert_eq!(summary(&sync().expect_success()).of("removed"), 0);
    }
}

fn links_to_nothing_fail_by_name_and_nothing_is_deleted() {
    for way in [Way::Local, Way::Pull] {
        let scene = Scene::new();
        let source = source(&scene);
        let (expected, copy) = (scene.join("expected"), scene.join("copy"));
        for (name, target) in [("dangling", "nowhere"), ("through-file", "file/x"), ("gone", "/no/such/dir")]
        {
            source.link(name, target);
        }
        for (tree, name) in
            [(&expected, "extra"), (&copy, "extra"), (&expected, "gone/old"), (&copy, "gone/old")]
        {
            fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap();
            fs::write(tree.join(name), "extra").unwrap();
        }
        assert_eq!(rsync(&["--delete"], source.path(), &expected), Some(23));
        let sync = || scene.by(way, "sync", slash(source.path()), slash(&copy)).arg("-L");
        let run = sync().finish().expect_code(1);
        for name in ["dangling", "through-file", "gone"] {
            assert!(run.said().contains(&format!("/{name}`")), "{name}: {run}");
        }
        let told = summary(&run);
        assert_eq!((told.of("failed"), told.of("removed")), (3, 0), "{run}");
        assert!(copy.join("extra").exists() && copy.join("gone/old").exists());
        assert!(expected.join("extra").exists());
        // Excluded entries do not fail.
        let words = ["--exclude", "dangling", "--exclude", "through-file", "--exclude", "gone"];
        assert_eq!(rsync(&[&["--delete"], &words[..]].concat(), source.path(), &expected), Some(0));
        let run = sync().args(words).finish().expect_success();
        assert_eq!(summary(&run).of("removed"), 1, "{run}");
        assert!(copy.join("gone/old").exists() && !copy.join("extra").exists());
    }
}

/// Links that lead in circles: to itself, to directories above, and to each other.
fn make_circles(tree: &TestTree) {
    for (name, target) in [
        ("self", "self"),
        ("pair-1", "pair-2"),
        ("pair-2", "pair-1"),
        ("dot", "."),
        ("c/up", ".."),
        ("c/d/up-two", "../.."),
        ("m1/x", "../m2"),
        ("m2/y", "../m1"),
    ] {
        fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap();
        tree.link(name, target);
    }
}

#[track_caller]
fn assert_circles(run: &Finished, copy: &Path) {
    for name in ["self", "pair-1", "pair-2", "dot", "c/up", "c/d/up-two", "m1/x/y", "m2/y/x"] {
        assert!(run.said().contains(&format!("/{name}`")), "{name}: {run}");
        assert!(!copy.join(name).exists(), "{name}");
    }
    assert!(run.said().contains("back to a directory above"), "{run}");
    assert!(copy.join("m1/x").is_dir() && copy.join("m2/y").is_dir() && copy.join("to-dir/a").exists());
}

fn circles_end_and_are_named() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = source(&scene);
        make_circles(&source);
        // A circle through a directory outside.
        fs::create_dir(scene.join("ring")).unwrap();
        symlink(source.path(), scene.join("ring/back")).unwrap();
        source.link("ring", "../ring");
        let copy = scene.join("copy");
        let run = scene.copy(way, source.path(), &copy).arg("-L").finish().expect_code(1);
        assert_circles(&run, &copy);
        assert_eq!(summary(&run).of("failed"), 9, "{run}");
        assert!(copy.join("ring").is_dir() && !copy.join("ring/back").exists());
        // A list may begin inside of one.
        fs::write(scene.join("list"), "c/up/c/up\nm1/x/y\nto-dir\n").unwrap();
        let run = scene.copy(way, source.path(), &scene.join("listed")).arg("-L");
        let run = run.arg("--files-from").arg(scene.join("list")).finish().expect_code(1);
        assert_eq!(summary(&run).of("failed"), 2, "{run}");
        assert!(scene.join("listed/to-dir/sub/b").exists());
    }
}

fn a_link_that_changes_its_target_during_the_run_gives_one_of_them() {
    for way in [Way::Local, Way::Pull] {
        let scene = Scene::new();
        let source = scene.tree("src");
        for (name, byte, len) in [("one", b'1', 9 << 20), ("two", b'2', 10 << 20)] {
            source.text(format!("targets/{name}"), vec![byte; len]);
        }
        for number in 0..40 {
            source.link(format!("link-{number}"), "targets/one");
        }
        let copy = scene.join("copy");
        let stop = AtomicBool::new(false);
        let run = std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0_usize.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let link = source.join(format!("link-{}", round % 40));
                    let new = scene.join("new");
                    symlink(if round / 40 % 2 == 0 { "targets/two" } else { "targets/one" }, &new).unwrap();
                    fs::rename(new, link).unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
            let run = scene.copy(way, source.path(), &copy).arg("-L").finish();
            stop.store(true, Ordering::Relaxed);
            run
        });
        assert!(matches!(run.code(), Some(0 | 1)), "{run}");
        summary(&run).assert_accounted();
        // Staged files may be incomplete.
        let is_done = |name: &std::path::PathBuf| {
            copy.join(name).is_file() && !name.file_name().unwrap().as_encoded_bytes().starts_with(b".haul-")
        };
        for name in list(&copy).iter().filter(|name| is_done(name)) {
            let content = fs::read(copy.join(name)).unwrap();
            let len = if content.first() == Some(&b'1') { 9 << 20 } else { 10 << 20 };
            assert!(content.len() == len && content.iter().all(|byte| *byte == content[0]), "{name:?}");
        }
        // Once it is quiet, everything arrives.
        let _ = scene.copy(way, source.path(), &copy).arg("-L").finish().expect_success();
        for name in (0..40).map(|number| format!("link-{number}")) {
            assert_eq!(fs::read(copy.join(&name)).unwrap(), fs::read(source.join(&name)).unwrap());
        }
    }
}

fn links_at_the_destination_are_not_followed() {
    for way in [Way::Local, Way::Push] {
        let scene = Scene::new();
        let source = source(&scene);
        let kept = scene.tree("kept");
        kept.text("a", "kept");
        kept.text("extra", "kept");
        let before = fingerprint(kept.path());
        let copy = scene.tree("copy");
        for name in ["to-dir", "dir", "file", "extra", "to-file"] {
            let target = if name.contains("file") { "../kept/a" } else { "../kept" };
            copy.link(name, target);
        }
        let run = scene.by(way, "sync", slash(source.path()), slash(copy.path())).arg("-L").finish();
        let _ = run.expect_success();
        assert!(fingerprint(kept.path()) == before);
        assert!(list(copy.path()).iter().all(|name| !copy.join(name).is_symlink()));
        assert!(!copy.join("extra").exists());
        fs::remove_file(copy.join("to-file")).unwrap();
        copy.link("to-file", "file");
        let verify = scene.by(way, "verify", slash(source.path()), slash(copy.path())).arg("-L").finish();
        let _ = verify.expect_code(3);
    }
}

fn verify_hash_and_plan_follow_links() {
    let scene = Scene::new();
    let source = source(&scene);
    let copy = scene.join("copy");
    let _ = scene.copy(Way::Local, source.path(), &copy).arg("-L").finish().expect_success();
    for way in [Way::Local, Way::Push, Way::Pull] {
        let verify = || scene.by(way, "verify", slash(source.path()), slash(&copy)).arg("-L").finish();
        let _ = verify().expect_success();
    }
    let hash = |dir: &Path| {
        let run = scene.haul("hash").args(["-q", "-L"]).arg(slash(dir)).finish().expect_success();
        let mut lines: Vec<String> = run.out().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(hash(source.path()), hash(&copy));
    let files = |dir: &Path| {
        let run = scene.haul("plan").args(["--json", "-L"]).arg(slash(dir)).finish().expect_success();
        let last: serde_json::Value = serde_json::from_str(run.out().lines().last().unwrap()).unwrap();
        (last["files"].clone(), last["links"].clone())
    };
    assert_eq!(files(source.path()), files(&copy));
    let _ = scene.haul("verify").arg(slash(source.path())).arg(slash(&copy)).finish().expect_code(3);
    scene.tree("outside").text("far/other", "0ther");
    let run = scene.by(Way::Pull, "verify", slash(source.path()), slash(&copy)).arg("-L").finish();
    let run = run.expect_code(3);
    assert!(run.out().contains("leaves/other") && run.out().contains("absolute/other"), "{run}");
}

/// Removes the file system when the test ends.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn other_file_systems_are_left_out_as_by_rsync() {
    let scene = Scene::new();
    let source = source(&scene);
    let other = scene.tree("other");
    let status = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(other.path()).status().unwrap();
    assert!(status.success());
    let _mounted = Mounted(other.path().to_owned());
    other.text("dir/file", "elsewhere");
    for name in ["dir/file", "dir", ""] {
        other.time(name, 1_400_000_000, 0);
    }
    source.link("other-dir", "../other/dir");
    source.link("other-file", "../other/dir/file");
    let (expected, copy) = (scene.join("expected"), scene.join("copy"));
    for words in [&["-x"][..], &[]] {
        assert_eq!(rsync(words, source.path(), &expected), Some(0));
        let _ = scene.copy(Way::Pull, source.path(), &copy).arg("-L").args(words).finish().expect_success();
        assert_same_facts(&expected, &copy);
        assert_eq!(copy.join("other-dir/file").exists(), words.is_empty());
        assert_eq!(fs::read_to_string(copy.join("other-file")).unwrap(), "elsewhere");
    }
}

fn a_confined_login_follows_no_link_out_of_its_directory() {
    let place = Scratch::new();
    let (vault, outside) = (place.join("vault"), place.join("outside"));
    fs::create_dir_all(vault.join("t/sub")).unwrap();
    fs::create_dir_all(vault.join("beside")).unwrap();
    fs::create_dir_all(outside.join("directory")).unwrap();
    for name in ["secret", "directory/secret"] {
        fs::write(outside.join(name), "secret").unwrap();
    }
    fs::write(vault.join("t/file"), "inside").unwrap();
    fs::write(vault.join("beside/file"), "beside").unwrap();
    let absolute = vault.join("t/file");
    for (name, target) in [
        ("good-file", "sub/../file"),
        ("good-dir", "../beside"),
        ("sub/good", "../../beside/file"),
        ("sub/good-chain", "../good-dir/file"),
        ("bad-file", "../../outside/secret"),
        ("bad-dir", "../../outside"),
        ("bad-missing", "../../outside/missing"),
        ("bad-etc", "/etc"),
        ("bad-proc", "/proc/self/root"),
        ("bad-chain", "bad-dir/secret"),
        ("bad-absolute", absolute.to_str().unwrap()),
        ("sub/bad-back", "../../../outside/../vault/t/file"),
    ] {
        symlink(target, vault.join("t").join(name)).unwrap();
    }
    symlink("../outside", vault.join("root")).unwrap();
    let command = format!("{HAUL} agent --root {}", vault.display());
    let scene = Scene::with_sshd(SshdOptions { force_command: Some(command), ..SshdOptions::default() });
    let remote = |path: &str| OsString::from(format!("127.0.0.1:{path}"));
    let run = |word: &str, from: &str, to: &Path| -> CommandRun {
        scene.haul_ssh(word).arg("-L").arg(remote(from)).arg(to)
    };
    let copy = scene.join("copy");
    let copied = run("copy", "t/", &copy).arg("--json").finish().expect_code(1);
    assert_eq!(summary(&copied).of("failed"), 8, "{copied}");
    for name in ["good-dir/file", "sub/good", "sub/good-chain"] {
        assert_eq!(fs::read_to_string(copy.join(name)).unwrap(), "beside", "{name}");
    }
    assert_eq!(fs::read_to_string(copy.join("good-file")).unwrap(), "inside");
    for name in list(&vault.join("t")) {
        let is_bad = name.file_name().unwrap().as_encoded_bytes().starts_with(b"bad");
        assert!(copy.join(&name).exists() != is_bad, "{name:?}");
    }
    assert!(copied.said().matches("leads out of the directory").count() >= 5, "{copied}");
    // Neither the root itself nor a path from a list leads out.
    let refused = run("copy", "root", &scene.join("other/")).finish();
    assert!(refused.said().contains("leads out"), "{refused}");
    fs::write(scene.join("list"), "bad-dir/secret\nbad-dir/directory\nbad-etc/passwd\ngood-dir/file\n")
        .unwrap();
    let listed = run("copy", "t/", &scene.join("listed")).arg("--files-from").arg(scene.join("list"));
    let listed = listed.finish().expect_code(1);
    assert!(listed.said().contains("leads out"), "{listed}");
    assert_eq!(list(&scene.join("listed")).len(), 2, "{:?}", list(&scene.join("listed")));
    let hashed = scene.haul_ssh("hash").args(["-q", "-L"]).arg(remote("t/")).finish().expect_code(1);
    assert!(!hashed.out().contains("bad"), "{hashed}");
}

fn commands_that_cannot_follow_links_are_refused() {
    let scene = Scene::new();
    let source = source(&scene);
    let before = fingerprint(source.path());
    let copy = scene.join("copy");
    let ends = [slash(source.path()), slash(&copy)];
    let refused = ["copy --index", "mv", "copy --remove-source-files", "verify --manifest list"];
    for words in refused.map(|words| words.split(' ').collect::<Vec<_>>()) {
        let run = scene.haul(words[0]).arg("-L").args(&words[1..]).args(&ends).finish().expect_code(2);
        assert_eq!(run.err().lines().count(), 1, "{run}");
        assert!(run.err().contains("--copy-links"), "{run}");
    }
    let run = scene.haul("copy").args(["-L", "s3://bucket/tree/"]).arg(&copy).finish().expect_code(2);
    assert!(run.err().contains("--copy-links"), "{run}");
    assert!(!copy.exists() && fingerprint(source.path()) == before);
}
