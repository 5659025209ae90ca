//! Hard links on an SFTP server that reports no inode numbers.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use haul_testkit::tree::listed_before;
use haul_testkit::{Care, Need, tree_differences};

use crate::scene::{Scene, summary};
use crate::sftp::{plain, push};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Root;
        a_further_name_that_is_a_file_of_its_own_becomes_the_file_again,
    ]
}

fn a_further_name_that_is_a_file_of_its_own_becomes_the_file_again() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[], 0);
    let first = listed_before(scene.path(), "first", &["mode", "owner", "time"]);
    source.file(&first, 1000);
    source.file("untouched", 1000);
    for name in ["mode", "owner", "time"] {
        fs::hard_link(source.join(&first), source.join(name)).unwrap();
    }
    fs::hard_link(source.join("untouched"), source.join("untouched-too")).unwrap();
    for name in [&*first, "untouched", ""] {
        source.time(name, 1_600_000_000, 0);
    }
    let copy = scene.join("dst");
    let differences = || tree_differences(source.path(), &copy, &Care::of_sftp());
    let _ = push(&scene, source.path(), &copy).finish().expect_success();
    assert_eq!(differences(), [""; 0]);
    // The same content and time, each in an inode of its own.
    for (name, mode, owner, time) in [("mode", 0o600, 0, 0), ("owner", 0o644, 12, 0), ("time", 0o644, 0, 9)] {
        let path = copy.join(name);
        fs::remove_file(&path).unwrap();
        fs::copy(copy.join(&first), &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
        haul_testkit::tree::set_time(&path, 1_600_000_000 + time, 0);
    }
    haul_testkit::tree::set_time(&copy, 1_600_000_000, 0);
    let inode = |name: &str| fs::metadata(copy.join(name)).unwrap().ino();
    let untouched = inode("untouched-too");
    let told = summary(&push(&scene, source.path(), &copy).arg("-n").finish().expect_success());
    assert_eq!(told.of("linked"), 3, "{told:?}");
    let run = summary(&push(&scene, source.path(), &copy).finish().expect_success());
    assert_eq!(
        (run.of("linked"), run.of("sent_bytes"), inode("untouched-too")),
        (3, 0, untouched),
        "{run:?}"
    );
    assert_eq!(differences(), [""; 0]);
    let again = summary(&push(&scene, source.path(), &copy).finish().expect_success());
    assert_eq!((again.of("linked"), again.of("same")), (0, again.of("found")), "{again:?}");
}
