//! Another entry in the place of an entry: a directory, a hard link, an excluded entry, an entry of another source.
//! Where rsync defines the result, it is compared with rsync.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::process::joined;
use haul_testkit::tree::list;
use haul_testkit::{Care, CommandRun, Need, TestMount, TestTree, content, duplicate, tree_differences};

use crate::scene::{Scene, Way, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        a_file_takes_the_place_of_a_directory_in_one_run,
        over_sftp_a_file_takes_the_place_of_a_directory_in_one_run,
        a_directory_that_holds_excluded_things_does_not_give_way,
        entries_that_max_delete_keeps_do_not_give_way,
        copy_leaves_the_directory_in_the_way_and_says_so,
        an_entry_that_an_option_left_out_protects_all_below_its_name,
        excluded_things_keep_a_directory_and_that_is_no_failure,
        staged_files_of_a_killed_run_do_not_keep_a_directory,
        a_name_that_left_its_hard_links_gets_a_file_of_its_own,
        metadata_of_a_split_hard_link_is_its_own,
        the_first_of_several_sources_has_the_name,
        a_device_or_a_pipe_as_destination_is_never_replaced,
    ];
    all.extend(cases![Need::Root; entries_below_a_mount_point_are_not_removed]);
    all
}

/// `rsync` with these words, which must succeed.
fn rsync(words: &[&str], from: &Path, to: &Path) {
    tool(
        Command::new("rsync").args(["-aH", "--modify-window=-1"]).args(words).arg(slash(from)).arg(slash(to)),
    );
}

fn assert_equal(one: &Path, other: &Path, what: &str) {
    let found = tree_differences(one, other, &Care::default());
    assert!(found.is_empty(), "{what}: {found:#?}");
}

/// A source in which files, links and further names stand where the destination has directories with something in them.
fn in_the_way(scene: &Scene) -> (TestTree, TestTree) {
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("small", 1000);
    source.file("empty", 0);
    source.file("big", (9 << 20) + 5);
    source.link("link", "small");
    fs::hard_link(source.join("small"), source.join("further")).unwrap();
    fs::hard_link(source.join("small"), source.join("z-further")).unwrap();
    source.file("was-file/inside", 10);
    for directory in ["small", "empty", "big", "link", "further"] {
        copy.file(format!("{directory}/file"), 100);
        copy.file(format!("{directory}/sub/file"), 100);
        copy.link(format!("{directory}/sub/link"), "nowhere");
    }
    copy.file("was-file", 50);
    (source, copy)
}

fn a_file_takes_the_place_of_a_directory_in_one_run() {
    for (way, words) in [(Way::Local, &[][..]), (Way::Local, &["--inplace"]), (Way::Push, &[])] {
        let scene = Scene::new();
        let (source, copy) = in_the_way(&scene);
        let sync = || scene.by(way, "sync", slash(source.path()), slash(copy.path())).args(words);
        let before = list(copy.path());
        let would = summary(&sync().arg("-n").finish().expect_success());
        would.assert_accounted();
        assert_eq!(list(copy.path()), before, "{way:?}: nothing is changed");
        let did = summary(&sync().finish().expect_success());
        did.assert_accounted();
        assert_equal(source.path(), copy.path(), "the copy");
        for name in ["found", "copied", "copied_bytes", "made", "linked", "removed", "failed"] {
            assert_eq!(would.of(name), did.of(name), "{way:?}: {name}");
        }
        let again = summary(&sync().finish().expect_success());
        assert_eq!(again.of("same"), again.of("found"), "{way:?}: {again:?}");
        scene.assert_all_gone();
    }
}

fn over_sftp_a_file_takes_the_place_of_a_directory_in_one_run() {
    let scene = Scene::new();
    let (source, copy) = in_the_way(&scene);
    let sync = || {
        let to = format!("sftp://{}/{}", scene.sshd().host(), slash(copy.path()).to_str().unwrap());
        scene.haul("sync").args(["-e", &scene.sshd().shell(), "--json"]).arg(slash(source.path())).arg(to)
    };
    let would = summary(&sync().arg("-n").finish().expect_success());
    let did = summary(&sync().finish().expect_success());
    for name in ["found", "copied", "made", "linked", "removed", "failed"] {
        assert_eq!(would.of(name), did.of(name), "{name}");
    }
    let care = Care { nanoseconds: false, ..Care::default() };
    let found = tree_differences(source.path(), copy.path(), &care);
    assert!(found.is_empty(), "{found:#?}");
    scene.assert_all_gone();
}

fn a_directory_that_holds_excluded_things_does_not_give_way() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("name", 10);
    source.file("other", 10);
    copy.file("name/sub/kept.tmp", 5);
    copy.file("name/gone", 5);
    let sync = || {
        let run = scene.by(Way::Local, "sync", slash(source.path()), slash(copy.path()));
        run.arg("--exclude=*.tmp")
    };
    let would = sync().arg("-n").finish().expect_code(1);
    let run = sync().finish().expect_code(1);
    for run in [would, run] {
        assert!(run.said().contains("directory that is not empty is in its place"), "{run}");
    }
    assert!(copy.join("name/sub/kept.tmp").exists() && !copy.join("name/gone").exists());
    assert!(copy.join("other").is_file());
}

fn entries_that_max_delete_keeps_do_not_give_way() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("name", 10);
    copy.file("name/one", 5);
    copy.file("name/two", 5);
    let run = scene.by(Way::Local, "sync", slash(source.path()), slash(copy.path()));
    let run = run.arg("--max-delete=2").finish().expect_code(1);
    assert!(run.said().contains("3 entries would have to go"), "the directory counts: {run}");
    assert!(copy.join("name/one").exists() && copy.join("name/two").exists());
}

fn copy_leaves_the_directory_in_the_way_and_says_so() {
    let scene = Scene::new();
    let (source, copy) = in_the_way(&scene);
    for words in [&["-n"][..], &[]] {
        let run = scene.copy(Way::Local, source.path(), copy.path()).args(words).finish().expect_code(1);
        assert!(run.said().contains("directory that is not empty is in its place"), "{run}");
        assert_eq!(summary(&run).of("removed"), 0);
    }
    assert!(copy.join("small/sub/file").exists());
}

fn an_entry_that_an_option_left_out_protects_all_below_its_name() {
    let options = ["--ignore-existing", "--existing", "--update", "--max-size=3", "--min-size=100"];
    for way in [Way::Local, Way::Push] {
        let scene = Scene::new();
        for option in options {
            let (source, copy) = (scene.tree(&format!("src{option}")), scene.tree(&format!("dst{option}")));
            source.text("name", "12345");
            source.time("name", 1_000_000_000, 0);
            source.file("deep/name", 20);
            copy.file("name/inside", 10);
            copy.file("deep/name/in/side", 10);
            copy.file("extra/file", 10);
            let wanted = scene.join(format!("rsync{option}"));
            duplicate(copy.path(), &wanted);
            rsync(&["--delete", option], source.path(), &wanted);
            let run = scene.by(way, "sync", slash(source.path()), slash(copy.path())).arg(option);
            let _ = run.finish().expect_success();
            assert_eq!(list(copy.path()), list(&wanted), "{way:?} {option}");
        }
        scene.assert_all_gone();
    }
    // A file in the place of a directory of the source is left too, with the entries that would be below it.
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("name/sub/file", 10);
    copy.text("name", "kept");
    let run = scene.by(Way::Local, "sync", slash(source.path()), slash(copy.path()));
    let _ = run.arg("--ignore-existing").finish().expect_success();
    assert_eq!(fs::read(copy.join("name")).unwrap(), b"kept");
}

fn excluded_things_keep_a_directory_and_that_is_no_failure() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("file", 10);
    copy.file("gone/sub/x.tmp", 1);
    copy.file("gone/sub/y", 1);
    copy.file("gone-too/y", 1);
    copy.dir("gone/empty");
    let wanted = scene.join("wanted");
    duplicate(copy.path(), &wanted);
    rsync(&["--delete", "--exclude=*.tmp"], source.path(), &wanted);
    for way in [Way::Local, Way::Push] {
        let sync = || {
            let run = scene.by(way, "sync", slash(source.path()), slash(copy.path()));
            run.arg("--exclude=*.tmp")
        };
        let would = summary(&sync().arg("-n").finish().expect_success());
        let did = summary(&sync().finish().expect_success());
        assert_eq!(would.of("removed"), did.of("removed"), "{way:?}");
        assert_eq!(list(copy.path()), list(&wanted), "{way:?}");
    }
}

fn staged_files_of_a_killed_run_do_not_keep_a_directory() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("file", 10);
    source.file("name", 10);
    for directory in ["gone", "name"] {
        copy.file(format!("{directory}/.haul-0123456789abcdef.part"), 10);
        copy.file(format!("{directory}/.haul-0123456789abcdef.journal"), 10);
    }
    let run = scene.by(Way::Local, "sync", slash(source.path()), slash(copy.path()));
    let _ = run.finish().expect_success();
    assert_equal(source.path(), copy.path(), "the copy");
}

fn a_name_that_left_its_hard_links_gets_a_file_of_its_own() {
    for way in [Way::Local, Way::Push] {
        for words in [&["--inplace"][..], &[]] {
            let scene = Scene::new();
            let (source, copy) = (scene.tree("src"), scene.tree("dst"));
            source.file("a", 6_000_000);
            for name in ["b", "c"] {
                fs::hard_link(source.join("a"), source.join(name)).unwrap();
            }
            let sync = || {
                let run = scene.by(way, "sync", slash(source.path()), slash(copy.path()));
                run.args(words)
            };
            let _ = sync().finish().expect_success();
            assert_equal(source.path(), copy.path(), "the first run");
            // `b` leaves, then the group becomes another one.
            fs::remove_file(source.join("b")).unwrap();
            source.file("b", 6_000_100);
            source.time("b", 1_600_000_000, 1);
            let _ = sync().finish().expect_success();
            assert_equal(source.path(), copy.path(), "one left");
            fs::remove_file(source.join("c")).unwrap();
            fs::hard_link(source.join("b"), source.join("c")).unwrap();
            content::write_file(&source.join("b"), 9, 6_000_200);
            let _ = sync().finish().expect_success();
            assert_equal(source.path(), copy.path(), "one went to the other");
            let again = summary(&sync().finish().expect_success());
            assert_eq!(again.of("same"), again.of("found"), "{again:?}");
            scene.assert_all_gone();
        }
    }
}

fn metadata_of_a_split_hard_link_is_its_own() {
    for way in [Way::Local, Way::Push] {
        let scene = Scene::new();
        let (source, copy) = (scene.tree("src"), scene.tree("dst"));
        source.file("a", 100);
        source.file("big", 5 << 20);
        source.link("link", "target");
        for (one, other) in [("a", "b"), ("big", "big-too"), ("link", "link-too")] {
            fs::hard_link(source.join(one), source.join(other)).unwrap();
        }
        let sync = || scene.by(way, "sync", slash(source.path()), slash(copy.path()));
        let _ = sync().finish().expect_success();
        for (one, other) in [("a", "b"), ("big", "big-too"), ("link", "link-too")] {
            fs::remove_file(source.join(other)).unwrap();
            tool(Command::new("cp").arg("-a").arg(source.join(one)).arg(source.join(other)));
        }
        fs::set_permissions(source.join("b"), fs::Permissions::from_mode(0o600)).unwrap();
        let would = summary(&sync().arg("-n").finish().expect_success());
        let did = summary(&sync().finish().expect_success());
        for name in ["copied", "made", "updated", "linked"] {
            assert_eq!(would.of(name), did.of(name), "{way:?}: {name}");
        }
        assert_equal(source.path(), copy.path(), "split");
        let again = summary(&sync().finish().expect_success());
        assert_eq!(again.of("same"), again.of("found"), "{way:?}: {again:?}");
        scene.assert_all_gone();
    }
}

fn entries_below_a_mount_point_are_not_removed() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("file", 10);
    source.dir("mnt");
    let _mount = TestMount::tmpfs_at(&source.join("mnt"), 1 << 20);
    fs::write(source.join("mnt/other"), "x").unwrap();
    copy.file("mnt/extra", 10);
    copy.file("mnt/sub/extra", 10);
    copy.file("gone/extra", 10);
    let wanted = scene.join("wanted");
    duplicate(copy.path(), &wanted);
    rsync(&["-x", "--delete"], source.path(), &wanted);
    for way in [Way::Local, Way::Pull] {
        let run = scene.by(way, "sync", slash(source.path()), slash(copy.path()));
        let _ = run.arg("-x").finish().expect_success();
        assert_eq!(list(copy.path()), list(&wanted), "{way:?}");
    }
}

fn the_first_of_several_sources_has_the_name() {
    let scene = Scene::new();
    let sources = [scene.tree("s1"), scene.tree("s2"), scene.tree("s3")];
    for (number, source) in sources.iter().enumerate() {
        source.text("one", format!("content of {number}"));
        source.time("one", 1_600_000_000 + number as i64, 5);
        source.file("both/own".to_owned() + &number.to_string(), 10);
        source.file("big", (5 << 20) + number as u64);
        fs::set_permissions(source.join("both"), fs::Permissions::from_mode(0o700 + number as u32)).unwrap();
    }
    // A directory stays a directory, whichever source has it.
    sources[0].dir("directory-first");
    sources[1].text("directory-first", "file");
    sources[0].text("directory-later", "file");
    sources[2].file("directory-later/inside", 10);
    // Names of one file, of which another source has one.
    fs::hard_link(sources[1].join("one"), sources[1].join("linked")).unwrap();
    for (source, time) in sources.iter().zip([7, 8, 9]) {
        source.time("both", time, 0);
        source.time("", time, 0);
    }
    let paths: Vec<_> = sources.iter().map(|source| slash(source.path())).collect();
    let wanted = scene.join("wanted");
    tool(Command::new("rsync").arg("-a").args(&paths).arg(slash(&wanted)));
    for way in [Way::Local, Way::Push] {
        let copy = scene.join(format!("dst-{way:?}"));
        let to = if way == Way::Push { scene.remote(slash(&copy)) } else { slash(&copy) };
        let run = || -> CommandRun {
            let run = if way == Way::Push { scene.haul_ssh("copy") } else { scene.haul("copy") };
            run.arg("--json").args(&paths).arg(&to)
        };
        let would = summary(&run().arg("-n").finish().expect_success());
        let did = summary(&run().finish().expect_success());
        did.assert_accounted();
        assert_eq!(would.of("copied"), did.of("copied"), "{way:?}");
        // rsync gives directories the times of the last source that writes into them.
        let care = Care { directory_times: false, ..Care::default() };
        let found = tree_differences(&wanted, &copy, &care);
        assert!(found.is_empty(), "{way:?}: {found:#?}");
        assert_eq!(fs::metadata(copy.join("both")).unwrap().mtime(), 7, "{way:?}: as in the first source");
        let again = summary(&run().finish().expect_success());
        assert_eq!(
            (again.of("copied"), again.of("updated"), again.of("made")),
            (0, 0, 0),
            "{way:?}: {again:?}"
        );
        scene.assert_all_gone();
    }
    let told = scene.haul("copy").args(&paths).arg(slash(&scene.join("told"))).finish().expect_success();
    assert!(told.said().contains("names of several sources skipped on"), "{told}");
}

fn a_device_or_a_pipe_as_destination_is_never_replaced() {
    let scene = Scene::new();
    let (from, pipe, device) = (scene.join("from"), scene.join("pipe"), scene.join("device"));
    fs::write(&from, "content").unwrap();
    tool(Command::new("mkfifo").arg(&pipe));
    symlink("/dev/null", &device).unwrap();
    for (to, kind) in [(&pipe, "a pipe"), (&device, "a device")] {
        for way in [Way::Local, Way::Push] {
            let run = scene.by(way, "copy", &from, to).finish().expect_code(2);
            assert!(run.err().contains(&format!("it is {kind}, which a file does not replace")), "{run}");
        }
    }
    let over_sftp = scene.haul("copy").args(["-e", &scene.sshd().shell()]).arg(&from);
    let run =
        over_sftp.arg(joined(&[b"sftp://127.0.0.1", pipe.as_os_str().as_bytes()])).finish().expect_code(2);
    assert!(run.err().contains("it is a pipe, which a file does not replace"), "{run}");
    // Nobody reads the pipe.
    let get = |to: &Path| scene.haul("get").arg(&from).arg(to);
    let run = get(&pipe).finish().expect_code(2);
    assert!(run.err().contains("no program reads this pipe"), "{run}");
    let into = File::create(scene.join("read")).unwrap();
    let mut reader = Command::new("cat").arg(&pipe).stdout(into).spawn().unwrap();
    // The reader may not have opened it yet.
    let is_read = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(50));
        get(&pipe).finish().code() == Some(0)
    });
    assert!(is_read);
    assert!(reader.wait().unwrap().success());
    assert_eq!(fs::read_to_string(scene.join("read")).unwrap(), "content");
    get(&device).finish().expect_success();
    let there = |path: &Path| fs::symlink_metadata(path).unwrap().file_type();
    assert!(there(&pipe).is_fifo() && there(&device).is_symlink());
    assert_eq!(get(Path::new("/dev/stdout")).finish().expect_success().stdout, b"content");
}
