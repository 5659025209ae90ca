//! A second run does only the remaining work.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use haul_testkit::compare::fingerprint;
use haul_testkit::tree::set_time;
use haul_testkit::{Need, TestTree, assert_same_tree};

use crate::scene::{RunCounts, Scene, Way, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root;
        a_second_run_writes_nothing,
        changed_metadata_is_set_without_sending_content,
    ];
    all.extend(cases![
        files_of_two_slices_are_committed_once_each,
        a_touched_file_is_copied_again_and_nothing_else,
        a_changed_file_of_the_same_size_and_time_is_found_by_checksum,
        an_interchanged_type_is_put_right,
        a_lost_hard_link_is_linked_again,
        entries_that_only_the_destination_has_stay,
    ]);
    all
}

const TOUCHING: [Way; 3] = [Way::Local, Way::Push, Way::Pull];

fn copied(scene: &Scene, way: Way, from: &Path, to: &Path, more: &[&str]) -> RunCounts {
    let summary = summary(&scene.copy(way, from, to).args(more).finish().expect_success());
    summary.assert_accounted();
    summary
}

fn a_second_run_writes_nothing() {
    for way in TOUCHING {
        let scene = Scene::new();
        let source = TestTree::hard(scene.join("src"), 1);
        let copy = scene.join("dst");
        copied(&scene, way, source.path(), &copy, &[]);
        let (before, source_before) = (fingerprint(&copy), fingerprint(source.path()));
        let again = copied(&scene, way, source.path(), &copy, &[]);
        assert_eq!((again.of("sent_bytes"), again.of("same")), (0, again.of("found")), "{way:?}: {again:?}");
        let after = fingerprint(&copy);
        let touched: Vec<_> = before.iter().filter(|(path, print)| after.get(*path) != Some(print)).collect();
        assert!(touched.is_empty(), "{way:?} touched {touched:?}");
        assert_eq!(before.len(), after.len());
        assert!(fingerprint(source.path()) == source_before, "{way:?}: the source is never touched");
    }
}

/// The two slices of each are written side by side, and either may be the last.
fn files_of_two_slices_are_committed_once_each() {
    let scene = Scene::new();
    let source = scene.tree("src");
    for number in 0..60 {
        source.file(format!("{number}"), (4 << 20) + 1 + number);
    }
    for _ in 0..8 {
        let copy = scene.join("dst");
        let summary = copied(&scene, Way::Local, source.path(), &copy, &["--no-fsync"]);
        assert_eq!((summary.of("copied"), summary.of("failed")), (60, 0), "{summary:?}");
        fs::remove_dir_all(&copy).unwrap();
    }
}

fn a_touched_file_is_copied_again_and_nothing_else() {
    for way in TOUCHING {
        let scene = Scene::new();
        let source = TestTree::mixed(scene.join("src"), 3, &[9 << 20], 40);
        let copy = scene.join("dst");
        copied(&scene, way, source.path(), &copy, &[]);
        let before = fingerprint(&copy);
        source.text("small/0000/0000007.txt", "now something else");
        source.file("small/0000/new", 300);
        let again = copied(&scene, way, source.path(), &copy, &[]);
        assert_eq!((again.of("copied"), again.of("sent_bytes")), (2, 318), "{way:?}: {again:?}");
        let after = fingerprint(&copy);
        let changed: Vec<_> = before.iter().filter(|(path, print)| after.get(*path) != Some(print)).collect();
        assert_eq!(changed.len(), 2, "the file and its directory: {changed:?}");
        assert_same_tree(source.path(), &copy);
    }
}

fn changed_metadata_is_set_without_sending_content() {
    for way in TOUCHING {
        let scene = Scene::new();
        let source = scene.tree("src");
        for name in ["mode", "owner", "attribute", "lost-attribute", "acl", "directory/file"] {
            source.file(name, 5 << 20);
        }
        source.link("link", "mode");
        let set = |name: &str| {
            rustix::fs::setxattr(source.join(name), "user.n", b"v", rustix::fs::XattrFlags::empty())
        };
        set("lost-attribute").unwrap();
        let copy = scene.join("dst");
        copied(&scene, way, source.path(), &copy, &[]);
        let inode = |name: &str| fs::metadata(copy.join(name)).unwrap().ino();
        let before = inode("mode");
        let mode =
            |name: &str, mode| fs::set_permissions(source.join(name), fs::Permissions::from_mode(mode));
        mode("mode", 0o4711).unwrap();
        mode("directory", 0o1700).unwrap();
        std::os::unix::fs::lchown(source.join("owner"), Some(1234), Some(4321)).unwrap();
        std::os::unix::fs::lchown(source.join("link"), Some(1234), None).unwrap();
        set("attribute").unwrap();
        rustix::fs::removexattr(source.join("lost-attribute"), "user.n").unwrap();
        haul_testkit::needs::tool(
            std::process::Command::new("setfacl").args(["-m", "u:9:rw"]).arg(source.join("acl")),
        );
        let again = copied(&scene, way, source.path(), &copy, &[]);
        assert_eq!((again.of("sent_bytes"), again.of("copied")), (0, 0), "{way:?}: {again:?}");
        assert_eq!(again.of("updated"), 7, "{way:?}: {again:?}");
        assert_eq!(inode("mode"), before, "{way:?}: the file itself stays");
        assert_same_tree(source.path(), &copy);
    }
}

fn a_changed_file_of_the_same_size_and_time_is_found_by_checksum() {
    for way in TOUCHING {
        let scene = Scene::new();
        let source = TestTree::mixed(scene.join("src"), 4, &[9 << 20], 20);
        let copy = scene.join("dst");
        copied(&scene, way, source.path(), &copy, &[]);
        for name in ["big/0.ibd", "small/0000/0000003.txt"] {
            let path = copy.join(name);
            let meta = fs::metadata(&path).unwrap();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(b"!", meta.len() / 2).unwrap();
            set_time(&path, meta.mtime(), u32::try_from(meta.mtime_nsec()).unwrap());
        }
        let blind = copied(&scene, way, source.path(), &copy, &[]);
        assert_eq!(blind.of("same"), blind.of("found"), "{way:?}: size and time tell nothing");
        let seeing = copied(&scene, way, source.path(), &copy, &["--checksum"]);
        assert_eq!(seeing.of("copied"), 2, "{way:?}: {seeing:?}");
        assert_same_tree(source.path(), &copy);
    }
}

fn an_interchanged_type_is_put_right() {
    for way in TOUCHING {
        let scene = Scene::new();
        let (source, copy) = (scene.tree("src"), scene.tree("dst"));
        source.file("a file", 10);
        source.file("a file, too", 10);
        source.link("a link", "a file");
        source.dir("a directory");
        source.link("link to directory", "a directory");
        copy.dir("a file");
        copy.link("a file, too", "/etc/passwd");
        copy.file("a link", 4);
        copy.file("a directory", 4);
        copy.dir("link to directory");
        copied(&scene, way, source.path(), copy.path(), &[]);
        assert_same_tree(source.path(), copy.path());
    }
}

fn a_lost_hard_link_is_linked_again() {
    for way in TOUCHING {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.file("one", 5 << 20);
        fs::hard_link(source.join("one"), source.join("two")).unwrap();
        let copy = scene.join("dst");
        copied(&scene, way, source.path(), &copy, &[]);
        let _ = std::process::Command::new("cp").arg("-p").arg(copy.join("one")).arg(copy.join("x")).status();
        fs::rename(copy.join("x"), copy.join("two")).unwrap();
        let again = copied(&scene, way, source.path(), &copy, &[]);
        assert_eq!(again.of("sent_bytes"), 0, "{way:?}: {again:?}");
        fs::hard_link(source.join("one"), source.join("three")).unwrap();
        copied(&scene, way, source.path(), &copy, &[]);
        assert_same_tree(source.path(), &copy);
    }
}

fn entries_that_only_the_destination_has_stay() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("directory/ours", 10);
    copy.text("directory/theirs", "precious");
    copy.text(".haul-notes", "theirs, though the name looks like ours");
    copy.text("directory/.haul-0123.part", "theirs, though the name looks like ours");
    copied(&scene, Way::Push, source.path(), copy.path(), &[]);
    for name in ["directory/theirs", ".haul-notes", "directory/.haul-0123.part", "directory/ours"] {
        assert!(copy.join(name).exists(), "{name} stays");
    }
}
