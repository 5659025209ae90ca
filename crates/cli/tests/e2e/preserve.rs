//! Metadata that is not taken over from the source, compared with the result of rsync with the same options.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use haul_slowfs::{MountOptions, SlowMount};
use haul_testkit::needs::tool;
use haul_testkit::tree::{list, set_time};
use haul_testkit::{Need, TestTree, assert_no_half_files};

use crate::scene::{HAUL, Scene, WAYS, Way, slash, summary};
use crate::sftp;
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root, Need::Program("rsync");
        metadata_that_is_left_out_stays_as_by_rsync,
        metadata_that_is_left_out_over_sftp_stays_as_by_rsync,
        times_of_directories_and_links_are_left_as_by_rsync,
        the_umask_and_default_acls_limit_new_entries,
        modes_and_owners_are_changed_as_by_rsync,
        modes_and_owners_are_changed_over_sftp_as_by_rsync,
        changes_that_cannot_be_made_are_refused,
    ];
    all.extend(cases![
        Need::Root, Need::Program("setpriv");
        a_user_without_rights_has_nothing_to_do_the_second_time,
        owners_that_are_given_are_set_or_the_run_fails,
    ]);
    all.extend(cases![
        Need::Root, Need::Program("weed");
        a_store_records_only_metadata_that_is_taken_over,
    ]);
    all.extend(cases![
        Need::Fuse;
        without_times_no_part_of_a_file_has_its_name_on_a_network_file_system,
    ]);
    all.extend(cases![one_of_owner_and_group_is_refused_over_sftp]);
    all
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// Entries with owners, modes, attributes and times of their own.
fn source(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    for (name, len, mode, owner) in [
        ("private", 100, 0o600, 5),
        ("open", 5000, 0o666, 6),
        ("run", 300, 0o755, 0),
        ("same", 400, 0o640, 7),
        ("other", 500, 0o644, 8),
        ("big", 5 << 20, 0o664, 9),
        ("old-big", 6 << 20, 0o640, 9),
        ("dir/file", 10, 0o444, 10),
        ("shared/file", 20, 0o660, 11),
        ("locked/file", 30, 0o400, 12),
    ] {
        tree.file(name, len);
        set_mode(&tree.join(name), mode);
        chown(tree.join(name), Some(owner), Some(owner + 100)).unwrap();
    }
    tree.link("link", "open");
    tree.dir("empty");
    for (name, mode) in [("dir", 0o750), ("shared", 0o2775), ("locked", 0o555), ("empty", 0o1777)] {
        set_mode(&tree.join(name), mode);
    }
    fs::hard_link(tree.join("run"), tree.join("run-too")).unwrap();
    for name in ["same", "open", "other"] {
        tool(Command::new("setfattr").args(["-n", "user.of", "-v", "source"]).arg(tree.join(name)));
    }
    tool(Command::new("setfacl").args(["-m", "u:77:rw"]).arg(tree.join("open")));
    for name in list(tree.path()).into_iter().rev() {
        tree.time(name, 1_600_000_000, 0);
    }
    tree.time("", 1_600_000_000, 0);
    tree
}

/// A destination that has some of it already: the same, or of other content, with other metadata.
fn destination(scene: &Scene, source: &TestTree, name: &str) -> TestTree {
    let tree = scene.tree(name);
    for (name, mode) in [("same", 0o604), ("other", 0o604), ("old-big", 0o606), ("dir/file", 0o604)] {
        let content = if matches!(name, "same" | "dir/file") {
            fs::read(source.join(name)).unwrap()
        } else {
            b"older content".to_vec()
        };
        tree.text(name, content);
        set_mode(&tree.join(name), mode);
        chown(tree.join(name), Some(21), Some(22)).unwrap();
        tool(Command::new("setfattr").args(["-n", "user.of", "-v", "old"]).arg(tree.join(name)));
        let seconds = if matches!(name, "same" | "dir/file") { 1_600_000_000 } else { 1_500_000_000 };
        set_time(&tree.join(name), seconds, 0);
    }
    set_mode(&tree.join("dir"), 0o711);
    tree.dir("shared");
    chown(tree.join("shared"), Some(21), Some(23)).unwrap();
    set_mode(&tree.join("shared"), 0o2750);
    tool(Command::new("setfacl").args(["-m", "u:78:r"]).arg(tree.join("same")));
    tree
}

/// Everything about the entries that a run could set. Times only if they are preserved: else they are those of the run.
fn facts(dir: &Path, times: bool, attributes: bool) -> String {
    let format = if times { "%P %y %m %U %G %T@ %l %s\\n" } else { "%P %y %m %U %G %l %s\\n" };
    let run = |command: &mut Command| {
        let output = command.current_dir(dir).output().unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // The size of a directory depends on its history.
    let found = run(Command::new("find").args([".", "-type", "d", "-printf"]).arg(format.replace(" %s", "")));
    let found = found + &run(Command::new("find").args([".", "!", "-type", "d", "-printf", format]));
    let mut lines: Vec<&str> = found.lines().collect();
    lines.sort_unstable();
    let mut facts = lines.join("\n");
    if attributes {
        facts += &run(Command::new("sh").args(["-c", "find . | sort | xargs getfattr -h -d -m ^user"]));
        facts += &run(Command::new("sh").args(["-c", "find . ! -type l | sort | xargs getfacl -n -p"]));
    }
    facts
}

fn rsync(words: &[&str], from: &Path, to: &Path) {
    tool(Command::new("rsync").args(words).arg(slash(from)).arg(slash(to)));
}

fn metadata_that_is_left_out_stays_as_by_rsync() {
    let all: &[&str] = &["--no-owner", "--no-group", "--no-perms", "--no-times", "--no-acls", "--no-xattrs"];
    for (number, options) in [
        &["--no-owner"][..],
        &["--no-group"],
        // An ACL is a permission: haul takes none over then. rsync sets the mode wherever it sets an attribute.
        &["--no-perms", "--no-acls", "--no-xattrs"],
        &["--no-times"],
        &["--no-acls"],
        &["--no-xattrs"],
        &["--no-o", "--no-g", "--no-p", "--no-t", "--no-A", "--no-X"],
        all,
    ]
    .into_iter()
    .enumerate()
    {
        let scene = Scene::new();
        let source = source(&scene);
        let expected = destination(&scene, &source, "expected");
        let words = [&["-aHAX", "--numeric-ids"][..], options].concat();
        rsync(&words, source.path(), expected.path());
        let times = !options.contains(&"--no-times") && !options.contains(&"--no-t");
        let ways: &[Way] = if number < 3 || options == all { &WAYS } else { &[Way::Local] };
        for way in ways {
            let copy = destination(&scene, &source, &format!("{way:?}"));
            let run = scene.copy(*way, source.path(), copy.path()).args(options).finish().expect_success();
            let told = summary(&run);
            told.assert_accounted();
            assert_eq!(told.0["metadata"].as_array().unwrap().len(), 0, "{run}");
            let (wanted, found) = (facts(expected.path(), times, true), facts(copy.path(), times, true));
            assert!(wanted == found, "{options:?} {way:?}\nrsync:\n{wanted}\nhaul:\n{found}");
            // Without times, all files differ again; sizes show that nothing else does.
            let again = if times { "-v" } else { "--size-only" };
            let run = scene.copy(*way, source.path(), copy.path()).args(options).arg(again);
            let run = run.finish().expect_success();
            let told = summary(&run);
            assert_eq!(told.of("same") + told.of("linked"), told.of("found"), "{options:?} {way:?} {run}");
            // Two files were there with their times, which nothing has changed.
            if !times {
                let run = scene.copy(*way, source.path(), copy.path()).args(options).finish();
                assert_eq!(summary(&run.expect_success()).of("copied"), 8, "{options:?} {way:?}");
            }
        }
    }
}

fn metadata_that_is_left_out_over_sftp_stays_as_by_rsync() {
    for options in [
        &["--no-owner", "--no-group"][..],
        &["--no-perms"],
        &["--no-times"],
        &["--no-owner", "--no-group", "--no-perms", "--no-times"],
    ] {
        let scene = Scene::new();
        let source = source(&scene);
        let (expected, copy) =
            (destination(&scene, &source, "expected"), destination(&scene, &source, "sftp"));
        // SFTP carries no attributes; times of links need an extension of the server.
        let words = [&["-aH", "--numeric-ids"][..], options].concat();
        rsync(&words, source.path(), expected.path());
        let run = sftp::push(&scene, source.path(), copy.path()).args(["--no-acls", "--no-xattrs"]);
        let run = run.args(options).finish().expect_success();
        assert_eq!(summary(&run).0["metadata"].as_array().unwrap().len(), 0, "{run}");
        let times = !options.contains(&"--no-times");
        let (wanted, found) = (facts(expected.path(), times, false), facts(copy.path(), times, false));
        assert!(wanted == found, "{options:?}\nrsync:\n{wanted}\nhaul:\n{found}");
        let run = sftp::push(&scene, source.path(), copy.path()).args(["--no-acls", "--no-xattrs"]);
        let run = run.args(options).args(if times { "-v" } else { "--size-only" }.split(' '));
        let run = run.finish().expect_success();
        let told = summary(&run);
        assert_eq!(told.of("same") + told.of("linked"), told.of("found"), "{options:?} {run}");
    }
}

/// Each entry with its time, unless that is of this run.
fn times(dir: &Path) -> Vec<(std::path::PathBuf, Option<i64>)> {
    let time = |path: &Path| Some(dir.join(path).symlink_metadata().unwrap().mtime());
    let known = |path: &Path| time(path).filter(|seconds| *seconds < 1_700_000_000);
    [std::path::PathBuf::new()]
        .into_iter()
        .chain(list(dir))
        .map(|path| (path.clone(), known(&path)))
        .collect()
}

fn times_of_directories_and_links_are_left_as_by_rsync() {
    let ways = WAYS.map(|way| ("-OJ", Some(way)));
    let local = Some(Way::Local);
    for (option, way) in ways.into_iter().chain([("-OJ", None), ("-O", local), ("-J", local), ("-J", None)]) {
        let scene = Scene::new();
        let source = source(&scene);
        source.link("new-link", "open");
        let run = |to: &TestTree| {
            let run = match way {
                Some(way) => scene.copy(way, source.path(), to.path()),
                None => sftp::push(&scene, source.path(), to.path()).args(["--no-acls", "--no-xattrs"]),
            };
            summary(&run.arg(option).arg("-v").finish().expect_success())
        };
        let [expected, copy] = ["expected", "copy"].map(|name| {
            let tree = destination(&scene, &source, name);
            tree.link("link", "open");
            // In the first, files are replaced; in the second, only the mode of a file is set.
            for name in ["link", "shared", "dir"] {
                tree.time(name, 1_500_000_000, 0);
            }
            tree
        });
        rsync(&["-aH", "--numeric-ids", option], source.path(), expected.path());
        run(&copy).assert_accounted();
        assert_eq!(times(expected.path()), times(copy.path()), "{option} {way:?}");
        let again = run(&copy);
        assert_eq!(again.of("same") + again.of("linked"), again.of("found"), "{option} {way:?} {again:?}");
        assert_eq!(times(expected.path()), times(copy.path()), "{option} {way:?}");
    }
}

fn one_of_owner_and_group_is_refused_over_sftp() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("f", 10);
    let run = sftp::push(&scene, source.path(), copy.path()).arg("--no-owner").finish().expect_code(2);
    assert!(run.said().contains("both --no-owner and --no-group"), "{run}");
    assert!(!copy.join("f").exists());
}

fn the_umask_and_default_acls_limit_new_entries() {
    let scene = Scene::new();
    let source = source(&scene);
    for umask in ["000", "027", "077"] {
        let run = |program: &str, words: &[&str], to: &Path| {
            let script = format!("umask {umask}; exec \"$@\"");
            let mut command = Command::new("sh");
            command.env("HOME", scene.home()).args(["-c", &script, "sh", program]).args(words);
            tool(command.arg(slash(source.path())).arg(slash(to)));
        };
        let (expected, copy) =
            (scene.tree(&format!("expected-{umask}")), scene.tree(&format!("copy-{umask}")));
        for tree in [&expected, &copy] {
            tree.dir("dir");
            tool(Command::new("setfacl").args(["-d", "-m", "u::rwx,g::r,o::-"]).arg(tree.join("dir")));
        }
        run("rsync", &["-aH", "--numeric-ids", "--no-perms"], expected.path());
        run(HAUL, &["copy", "--no-perms", "--no-xattrs"], copy.path());
        let (wanted, found) = (facts(expected.path(), true, false), facts(copy.path(), true, false));
        assert!(wanted == found, "{umask}\nrsync:\n{wanted}\nhaul:\n{found}");
    }
}

fn modes_and_owners_are_changed_as_by_rsync() {
    for (number, options) in [
        &["--chmod=D2775,F640", "--chown=7:8"][..],
        &["--chown", "daemon:bin", "--chmod", "ug=rwX,o="],
        &["--usermap=5-7:100,root:200,*:daemon", "--groupmap=105:bin,root:300"],
        &["--chmod=u+w,go-rwx", "--chmod", "Dg+s,F+x"],
        &["--chmod=+w,-x", "--chown=:9"],
        &["--chmod=Fo=r,Da+t,u-s", "--usermap=:77,r*t:78,d?emon:79"],
        // With attributes to set, rsync 3.5 changes the modes of existing files too.
        &["--no-perms", "--no-xattrs", "--chmod=a+rwx"],
        &["--chown=11", "--no-group"],
    ]
    .into_iter()
    .enumerate()
    {
        let scene = Scene::new();
        let source = source(&scene);
        let expected = destination(&scene, &source, "expected");
        // An ACL sets the mode once more.
        let words = [&["-aHX", "--no-acls"][..], options].concat();
        rsync(&words, source.path(), expected.path());
        let ways: &[Way] = if number < 3 { &WAYS } else { &[Way::Local] };
        for way in ways {
            let copy = destination(&scene, &source, &format!("{way:?}"));
            let run = scene.copy(*way, source.path(), copy.path()).arg("--no-acls").args(options);
            summary(&run.finish().expect_success()).assert_accounted();
            let (wanted, found) = (facts(expected.path(), true, true), facts(copy.path(), true, true));
            assert!(wanted == found, "{options:?} {way:?}\nrsync:\n{wanted}\nhaul:\n{found}");
            let run = scene.copy(*way, source.path(), copy.path()).arg("--no-acls").args(options);
            let told = summary(&run.finish().expect_success());
            assert_eq!(told.of("same") + told.of("linked"), told.of("found"), "{options:?} {way:?}");
        }
    }
}

fn modes_and_owners_are_changed_over_sftp_as_by_rsync() {
    let scene = Scene::new();
    let source = source(&scene);
    let (expected, copy) = (destination(&scene, &source, "expected"), destination(&scene, &source, "sftp"));
    let options = ["--chmod=D750,F640", "--usermap=5-7:100,*:200", "--chown=:300"];
    rsync(&[&["-aH"][..], &options].concat(), source.path(), expected.path());
    for _ in 0..2 {
        let run = sftp::push(&scene, source.path(), copy.path()).args(["--no-acls", "--no-xattrs"]);
        let _ = run.args(options).finish().expect_success();
        let (wanted, found) = (facts(expected.path(), true, false), facts(copy.path(), true, false));
        assert!(wanted == found, "rsync:\n{wanted}\nhaul:\n{found}");
    }
}

fn changes_that_cannot_be_made_are_refused() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("f", 10);
    for way in WAYS {
        let run = scene.copy(way, source.path(), copy.path()).arg("--chown=no-such-user").finish();
        let run = run.expect_code(2);
        assert!(run.said().contains("no user of this name"), "{way:?} {run}");
        assert!(!copy.join("f").exists(), "{way:?}");
    }
    let run = sftp::push(&scene, source.path(), copy.path()).arg("--chown=root").finish().expect_code(2);
    assert!(run.said().contains("map to numbers"), "{run}");
    for (options, why) in [
        (["--chown=1", "--no-owner"], "--no-owner sets none"),
        (["--groupmap=1:2", "--no-group"], "--no-group sets none"),
        (["--chown=1", "--usermap=1:2"], "--chown gives all entries one"),
    ] {
        let run = scene.copy(Way::Local, source.path(), copy.path()).args(options).finish().expect_code(2);
        assert!(run.said().contains(why), "{run}");
    }
    assert!(!copy.join("f").exists());
}

fn a_user_without_rights_has_nothing_to_do_the_second_time() {
    let scene = Scene::new();
    let (source, copy) = (source(&scene), scene.tree("dst"));
    tool(Command::new("chmod").args(["-R", "a+rX"]).arg(source.path()));
    chown(copy.path(), Some(65534), Some(65534)).unwrap();
    let copies = |options: &[&str]| {
        let run = scene.as_nobody().args(["copy", "--json"]).args(options);
        let run = run.arg(slash(source.path())).arg(slash(copy.path())).finish().expect_success();
        let told = summary(&run);
        (told.of("found") - told.of("same") - told.of("linked"), told.0["metadata"].as_array().unwrap().len())
    };
    let options = ["--no-owner", "--no-group", "--no-acls"];
    assert_eq!(copies(&options).1, 0, "nothing is warned of");
    assert_eq!(copies(&options), (0, 0), "nothing differs");
    assert!(copies(&[]).1 > 0, "without the options something is");
}

fn owners_that_are_given_are_set_or_the_run_fails() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("file", 10);
    tool(Command::new("chmod").args(["-R", "a+rX"]).arg(source.path()));
    chown(copy.path(), Some(65534), Some(65534)).unwrap();
    for option in ["--chown=root", "--usermap=*:0", "--chown=root:root"] {
        for quiet in [&[][..], &["-q"]] {
            let run = scene.as_nobody().args(["copy", option]).args(quiet).arg(slash(source.path()));
            let run = run.arg(slash(copy.path())).finish().expect_code(1);
            assert!(run.said().contains("owner could not be set on") && copy.join("file").exists(), "{run}");
            assert!(!run.said().contains("again"), "{run}");
        }
    }
}

fn a_store_records_only_metadata_that_is_taken_over() {
    let bucket = TestBucket::new();
    let source = source(&bucket.scene);
    let all = ["--no-owner", "--no-group", "--no-perms", "--no-times", "--no-acls", "--no-xattrs"];
    let push = |prefix: &str, options: &[&str]| {
        let run = crate::objtrees::copy(bucket.haul("copy"), slash(source.path()), bucket.at(prefix));
        let run = run.args(options).finish().expect_success();
        let told = summary(&run);
        told.assert_accounted();
        (told.of("found") - told.of("same"), told.of("updated"))
    };
    let _ = push("none/", &all);
    let back = bucket.scene.tree("back");
    bucket.rclone_copy(false, back.path(), "none");
    let run = crate::objtrees::copy(bucket.haul("copy"), bucket.at("none/"), slash(back.path()));
    let _ = run.finish().expect_success();
    for name in ["private", "open", "big"] {
        let now = fs::metadata(back.join(name)).unwrap();
        assert_eq!((now.uid(), now.gid(), mode(&back.join(name))), (0, 0, 0o644), "{name}");
        assert_ne!(now.mtime(), 1_600_000_000);
    }
    // By size everything is up to date. Without recorded times, all files are sent again.
    let by_size = [&all[..], &["--size-only"]].concat();
    assert_eq!(push("none/", &by_size).0, 0);
    assert!(push("none/", &all).0 > 8);
    // Recorded metadata stays when the rest is updated.
    let _ = push("full/", &[]);
    chown(source.join("private"), Some(55), Some(56)).unwrap();
    set_mode(&source.join("private"), 0o640);
    assert_eq!(push("full/", &["--no-owner", "--no-group", "--no-perms"]), (0, 0));
    assert_eq!(push("full/", &["--no-owner", "--no-group"]), (1, 1));
    let again = bucket.scene.tree("again");
    let run = crate::objtrees::copy(bucket.haul("copy"), bucket.at("full/"), slash(again.path()));
    let _ = run.finish().expect_success();
    let now = fs::metadata(again.join("private")).unwrap();
    assert_eq!((now.uid(), now.gid(), mode(&again.join("private"))), (5, 105, 0o640));
}

fn without_times_no_part_of_a_file_has_its_name_on_a_network_file_system() {
    let scene = Scene::new();
    let source = scene.tree("src");
    for number in 0..300 {
        source.file(format!("{:02}/{number}", number % 9), 20_000);
    }
    let behind = scene.join("behind");
    fs::create_dir_all(&behind).unwrap();
    fs::create_dir_all(scene.join("mnt")).unwrap();
    let delay = Duration::from_millis(2);
    let slow = SlowMount::new(
        &behind,
        &scene.join("mnt"),
        MountOptions { meta: delay, data: delay, ..MountOptions::default() },
    );
    let slow = slow.unwrap();
    for part in 1..5 {
        let mut run = scene.copy(Way::Local, source.path(), &slow.join("dst")).arg("--no-times").start();
        let wanted = part * 20;
        run.wait_until("some files are there", || {
            let named = |name: &std::path::PathBuf| behind.join("dst").join(name).is_file();
            behind.join("dst").exists()
                && list(&behind.join("dst")).iter().filter(|name| named(name)).count() > wanted
        });
        haul_testkit::process::kill(run.pid());
        drop(run.finish());
        for name in list(&behind.join("dst")) {
            let (file, from) = (behind.join("dst").join(&name), source.join(&name));
            if from.is_file() {
                assert!(fs::read(&file).unwrap() == fs::read(&from).unwrap(), "{name:?} is half there");
            }
        }
        assert_no_half_files(source.path(), &behind.join("dst"));
    }
    let run = scene.copy(Way::Local, source.path(), &slow.join("dst")).arg("--no-times");
    summary(&run.finish().expect_success()).assert_accounted();
}
