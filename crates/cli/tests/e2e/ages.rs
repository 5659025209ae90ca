//! Entries that are selected by their age, compared with the selection of rclone, and files that are copied in any
//! case.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use haul_testkit::needs::tool;
use haul_testkit::tree::list;
use haul_testkit::{Need, TestTree, assert_same_tree};

use crate::scene::{Scene, WAYS, Way, slash, summary};
use crate::sftp;
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        sync_keeps_entries_of_another_age,
        files_of_the_same_size_and_time_are_copied_if_times_are_ignored,
        ages_that_exclude_everything_are_refused,
    ];
    all.extend(cases![
        Need::Program("rclone");
        ages_select_as_in_rclone,
    ]);
    all.extend(cases![
        Need::Program("weed");
        ages_select_objects_by_their_recorded_times,
    ]);
    all
}

/// Files of some ages, from minutes to years.
fn source(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    for (name, age) in [
        ("minutes", 600),
        ("hours", 5 * 3600),
        ("dir/days", 3 * 86_400),
        ("dir/weeks", 20 * 86_400),
        ("deep/dir/years", 900 * 86_400),
        ("new", -600),
    ] {
        tree.file(name, 1000);
        tree.time(name, now - age, 0);
    }
    tree
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = list(dir).into_iter().filter(|name| dir.join(name).is_file()).collect();
    files.sort();
    files
}

const SELECTIONS: [&[&str]; 8] = [
    &["--max-age", "1d"],
    &["--min-age", "1d"],
    &["--max-age=1M", "--min-age=36h"],
    &["--max-age", "1h30m"],
    &["--max-age", "2w"],
    &["--min-age", "2024-05-01"],
    &["--max-age", "2024-05-01T12:00:00Z"],
    &["--max-age", "7200"],
];

fn ages_select_as_in_rclone() {
    let scene = Scene::new();
    let source = source(&scene);
    for (number, options) in SELECTIONS.into_iter().enumerate() {
        let expected = scene.join(format!("expected-{number}"));
        std::fs::create_dir(&expected).unwrap();
        let mut rclone = Command::new("rclone");
        tool(rclone.args(["--config", "/dev/null", "copy"]).args(options).arg(source.path()).arg(&expected));
        let ways: &[Way] = if number < 3 { &WAYS } else { &[Way::Local] };
        for way in ways {
            let copy = scene.join(format!("{way:?}-{number}"));
            let run = scene.copy(*way, source.path(), &copy).args(options).finish().expect_success();
            assert_eq!(files(&copy), files(&expected), "{options:?} {way:?}");
            // Excluded entries are counted apart from those that were found.
            summary(&run).assert_accounted();
        }
        if number < 3 {
            let copy = scene.join(format!("sftp-{number}"));
            let _ = sftp::pull(&scene, source.path(), &copy).args(options).finish().expect_success();
            assert_eq!(files(&copy), files(&expected), "{options:?} SFTP");
        }
    }
}

fn ages_select_objects_by_their_recorded_times() {
    let bucket = TestBucket::new();
    let source = source(&bucket.scene);
    let copy = |from: &OsStr, to: &OsStr, options: &[&str]| {
        let run = crate::objtrees::copy(bucket.haul("copy"), from, to).args(options);
        drop(run.finish().expect_success());
    };
    let key = |name: &str| std::ffi::OsString::from(bucket.at(name));
    copy(&slash(source.path()), &key("all/"), &[]);
    for (number, options) in SELECTIONS.into_iter().enumerate().take(3) {
        let (expected, back) =
            (bucket.scene.join(format!("e{number}")), bucket.scene.join(format!("b{number}")));
        copy(&slash(source.path()), &slash(&expected), options);
        copy(&key("all/"), &slash(&back), options);
        assert_eq!(files(&back), files(&expected), "{options:?}");
    }
}

fn sync_keeps_entries_of_another_age() {
    for way in [Way::Local, Way::Push] {
        let scene = Scene::new();
        let (source, copy) = (source(&scene), scene.tree("dst"));
        for name in ["minutes", "dir/weeks", "extra"] {
            copy.file(name, 7);
        }
        let run = scene.by(way, "sync", slash(source.path()), slash(copy.path())).args(["--max-age", "1d"]);
        let _ = run.finish().expect_success();
        let kept = ["dir/weeks", "hours", "minutes", "new"].map(PathBuf::from);
        assert_eq!(files(copy.path()), kept, "{way:?}");
        assert_eq!(std::fs::metadata(copy.join("dir/weeks")).unwrap().len(), 7, "{way:?}");
    }
}

fn ages_that_exclude_everything_are_refused() {
    let scene = Scene::new();
    let (source, copy) = (source(&scene), scene.tree("dst"));
    let run = scene.copy(Way::Local, source.path(), copy.path()).args(["--max-age=1h", "--min-age=1d"]);
    let run = run.finish().expect_code(2);
    assert!(run.said().contains("nothing has such an age"), "{run}");
}

fn files_of_the_same_size_and_time_are_copied_if_times_are_ignored() {
    for way in WAYS {
        let scene = Scene::new();
        let (source, copy) = (source(&scene), scene.join("dst"));
        source.file("big", 5 << 20);
        std::fs::hard_link(source.join("new"), source.join("new-too")).unwrap();
        let _ = scene.copy(way, source.path(), &copy).finish().expect_success();
        // The same size and time, and other content.
        for name in ["minutes", "big", "new-too"] {
            let file = copy.join(name);
            let time = std::fs::metadata(&file).unwrap().modified().unwrap();
            let content = vec![0; std::fs::read(&file).unwrap().len()];
            if name == "new-too" {
                std::fs::remove_file(&file).unwrap();
            }
            std::fs::write(&file, content).unwrap();
            std::fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        }
        let told = summary(&scene.copy(way, source.path(), &copy).finish().expect_success());
        assert_eq!(told.of("copied"), 0, "{way:?}: nothing shows that they differ");
        let run = scene.copy(way, source.path(), &copy).arg("-I").finish().expect_success();
        assert_eq!(summary(&run).of("copied"), 7, "{way:?}: all of them {run}");
        assert_same_tree(source.path(), &copy);
    }
    let scene = Scene::new();
    let (source, copy) = (source(&scene), scene.join("dst"));
    for _ in 0..2 {
        let run = sftp::push(&scene, source.path(), &copy).arg("--ignore-times").finish().expect_success();
        assert_eq!(summary(&run).of("copied"), 6, "{run}");
    }
}
