//! `-K`: a symbolic link to a directory at the destination counts as the directory, as with rsync.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::compare::fingerprint;
use haul_testkit::needs::tool;
use haul_testkit::tree::list;
use haul_testkit::{Need, Scratch, SshdOptions, TestTree, assert_same_tree};

use crate::kills::{half_way_with, staged};
use crate::scene::{HAUL, Scene, WAYS, Way, slash, summary};
use crate::sftp;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Program("rsync");
        links_to_directories_stay_as_with_rsync,
        a_directory_of_a_link_gets_the_metadata,
    ];
    all.extend(cases![
        a_large_file_behind_a_link_is_resumed,
        sync_removes_nothing_behind_a_link,
        backups_and_earlier_copies_are_found_behind_links,
        a_link_of_the_source_is_never_followed,
        a_confined_login_keeps_no_links,
        destinations_without_haul_refuse_it,
    ]);
    all.extend(cases![Need::Root; a_link_of_another_user_is_not_followed]);
    all
}

/// A source with directories where the destinations of [`destination`] have links.
fn source(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    tree.text("link/file", "content");
    tree.text("link/sub/below", "below");
    tree.file("link/sub/large", 9 << 20);
    for name in ["nested", "to-nothing", "to-file", "plain"] {
        tree.text(format!("{name}/in"), name);
    }
    fs::hard_link(tree.join("link/file"), tree.join("link/name")).unwrap();
    fs::hard_link(tree.join("link/file"), tree.join("plain/name")).unwrap();
    tree.link("kept", "plain");
    tree.link("link/inner", "sub");
    for dir in ["link/sub", "link", "nested"] {
        tree.time(dir, 1_600_000_000, 0);
    }
    tree
}

/// A destination with links where [`source`] has directories. They lead to directories in `dir`, seen from there.
fn destination(scene: &Scene, name: &str, dir: &str) -> PathBuf {
    let to = scene.tree(name);
    for real in ["one/sub", "two"] {
        fs::create_dir_all(to.join(dir).join(real)).unwrap();
    }
    to.text(format!("{dir}/one/extra"), "extra");
    for (link, target) in [
        ("link", format!("{dir}/one")),
        ("nested", "nested-2".to_owned()),
        ("nested-2", format!("{dir}/two")),
        ("to-nothing", "nowhere".to_owned()),
        ("to-file", format!("{dir}/one/extra")),
        ("kept", "plain".to_owned()),
    ] {
        to.link(link, target);
    }
    to.path().to_owned()
}

/// The links and the contents of the files below a directory, which links are followed for.
fn facts(dir: &Path) -> Vec<(PathBuf, String)> {
    let describe = |path: &PathBuf| {
        let whole = dir.join(path);
        let meta = whole.symlink_metadata().unwrap();
        if meta.is_symlink() {
            return format!("-> {}", fs::read_link(&whole).unwrap().display());
        }
        if meta.is_dir() {
            return "directory".to_owned();
        }
        format!("{} names, {:?}", meta.nlink(), haul_core::Digest::of(&fs::read(&whole).unwrap()))
    };
    let mut all: Vec<_> = list(dir).iter().map(|path| (path.clone(), describe(path))).collect();
    all.sort();
    all
}

fn links_to_directories_stay_as_with_rsync() {
    for way in WAYS {
        let scene = Scene::new();
        let source = source(&scene);
        // The links of this rsync may not lead out of the destination.
        let [expected, copy] = ["rsync", "haul"].map(|name| destination(&scene, name, "inside"));
        tool(Command::new("rsync").arg("-aHK").arg(slash(source.path())).arg(slash(&expected)));
        let dry = scene.copy(way, source.path(), &copy).args(["-K", "-n"]).finish().expect_success();
        assert!(copy.join("inside/one/file").symlink_metadata().is_err(), "{dry}");
        let run = scene.copy(way, source.path(), &copy).arg("-K").finish().expect_success();
        summary(&run).assert_accounted();
        for total in ["copied", "made", "linked"] {
            assert_eq!(summary(&dry).of(total), summary(&run).of(total), "{total}: {run}");
        }
        assert_eq!(facts(&expected), facts(&copy), "{way:?}: {run}");
        assert!(copy.join("link").is_symlink() && copy.join("nested").is_symlink(), "{run}");
        let again = summary(&scene.copy(way, source.path(), &copy).arg("-K").finish().expect_success());
        assert_eq!(again.of("same"), again.of("found"), "{way:?}: {again:?}");
        for words in [&["-K"][..], &["-K", "--content-only"]] {
            let _ = scene
                .by(way, "verify", slash(source.path()), slash(&copy))
                .args(words)
                .finish()
                .expect_success();
        }
        fs::write(copy.join("inside/one/sub/below"), "BELOW").unwrap();
        let run =
            scene.by(way, "verify", slash(source.path()), slash(&copy)).arg("-K").finish().expect_code(3);
        assert!(run.out().contains("link/sub/below"), "{run}");
        // Without it, the links go.
        let _ = scene.copy(way, source.path(), &copy).finish().expect_success();
        assert!(!copy.join("link").is_symlink() && copy.join("inside/one/file").exists());
    }
}

fn a_directory_of_a_link_gets_the_metadata() {
    for way in WAYS {
        let scene = Scene::new();
        let source = source(&scene);
        fs::set_permissions(source.join("link"), fs::Permissions::from_mode(0o750)).unwrap();
        // Links may lead anywhere, in any way.
        let copy = destination(&scene, "copy", "../outside");
        fs::remove_file(copy.join("nested-2")).unwrap();
        symlink(scene.join("outside/two"), copy.join("nested-2")).unwrap();
        let link = copy.join("link").symlink_metadata().unwrap();
        let _ = scene.copy(way, source.path(), &copy).arg("-K").finish().expect_success();
        let now = copy.join("link").symlink_metadata().unwrap();
        assert_eq!((now.ino(), now.mtime_nsec()), (link.ino(), link.mtime_nsec()), "the link itself stays");
        let dir = scene.join("outside/one").metadata().unwrap();
        assert_eq!((dir.mode() & 0o777, dir.mtime()), (0o750, 1_600_000_000));
        assert_eq!(scene.join("outside/two").metadata().unwrap().mtime(), 1_600_000_000);
        fs::remove_file(scene.join("outside/one/extra")).unwrap();
        source.time("link", 1_600_000_000, 0);
        fs::File::open(scene.join("outside/one"))
            .unwrap()
            .set_modified(source.join("link").metadata().unwrap().modified().unwrap())
            .unwrap();
        assert_same_tree(&source.join("link"), &scene.join("outside/one"));
    }
}

fn a_large_file_behind_a_link_is_resumed() {
    const LEN: u64 = 40 << 20;
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("link/huge", LEN);
    let copy = scene.tree("dst");
    fs::create_dir(scene.join("real")).unwrap();
    copy.link("link", "../real");
    half_way_with(&scene, &source, copy.path(), &scene.join("real"), LEN / 2, &["-K"]);
    assert_eq!(staged(&scene.join("real"), ".part").len(), 1, "it is staged beside its final name");
    let run = scene.copy(Way::Push, source.path(), copy.path()).arg("-K").finish().expect_success();
    assert!(summary(&run).of("resumed_bytes") > 0, "{run}");
    assert_same_tree(&source.join("link"), &scene.join("real"));
    assert!(copy.join("link").is_symlink());
}

fn sync_removes_nothing_behind_a_link() {
    for way in WAYS {
        let scene = Scene::new();
        let source = source(&scene);
        let copy = destination(&scene, "copy", "../outside");
        for name in ["gone/deep", "plain/gone"] {
            fs::create_dir_all(copy.join(name)).unwrap();
        }
        symlink("../outside/one", copy.join("gone/link")).unwrap();
        let run =
            scene.by(way, "sync", slash(source.path()), slash(&copy)).arg("-K").finish().expect_success();
        summary(&run).assert_accounted();
        // An extraneous link goes, and its directory stays.
        assert!(
            copy.join("gone").symlink_metadata().is_err()
                && copy.join("nested-2").symlink_metadata().is_err()
        );
        assert_eq!(fs::read_to_string(scene.join("outside/one/extra")).unwrap(), "extra", "{run}");
        assert!(copy.join("link/sub/large").exists() && copy.join("link").is_symlink());

        // Entries that it has just written through a link are not extraneous under their other names.
        let copy = destination(&scene, "inside", "real");
        let run = scene.by(way, "sync", slash(source.path()), slash(&copy)).arg("-K").finish().expect_code(1);
        assert!(run.out().contains("--keep-dirlinks"), "{run}");
        for name in ["file", "sub/below", "extra"] {
            assert!(copy.join("real/one").join(name).exists(), "{name}: {run}");
        }
        let words = ["-K", "--exclude=/real", "--exclude=/nested-2"];
        let _ =
            scene.by(way, "sync", slash(source.path()), slash(&copy)).args(words).finish().expect_success();
    }
}

fn backups_and_earlier_copies_are_found_behind_links() {
    for way in [Way::Local, Way::Push] {
        let scene = Scene::new();
        let source = source(&scene);
        let [earlier, copy] =
            ["earlier", "copy"].map(|name| destination(&scene, name, &format!("../of-{name}")));
        let _ = scene.copy(way, source.path(), &earlier).arg("-K").finish().expect_success();
        let words = ["-K", "--link-dest=../earlier", "--backup-dir=link/old"];
        fs::write(copy.join("link/sub/below"), "older").unwrap();
        fs::set_permissions(scene.join("of-copy/one"), fs::Permissions::from_mode(0o700)).unwrap();
        let run = scene.copy(way, source.path(), &copy).args(words).finish().expect_success();
        let inode = |path: PathBuf| path.metadata().unwrap().ino();
        let [there, here] =
            ["of-earlier", "of-copy"].map(|name| inode(scene.join(name).join("one/sub/large")));
        assert_eq!(there, here, "{way:?}: {run}");
        let kept = scene.join("of-copy/one/old/link/sub/below");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "older", "{run}");
        let mode = scene.join("of-copy/one/old/link").metadata().unwrap().mode() & 0o777;
        assert_eq!(mode, 0o700, "that of the directory, not of the link");
        assert!(copy.join("link").is_symlink());
    }
}

fn a_link_of_the_source_is_never_followed() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.link("x", "../outside");
    source.text("y/x", "file");
    let copy = scene.tree("dst");
    copy.link("x", "../outside");
    fs::create_dir(scene.join("outside")).unwrap();
    let _ = scene.copy(Way::Local, source.path(), copy.path()).arg("-K").finish().expect_success();
    // A file takes the place of a link to a directory.
    copy.link("z", "../outside");
    source.text("z", "z");
    let _ = scene.copy(Way::Local, source.path(), copy.path()).arg("-K").finish().expect_success();
    assert_same_tree(source.path(), copy.path());
    assert!(list(&scene.join("outside")).is_empty());
}

fn a_link_of_another_user_is_not_followed() {
    for way in [Way::Local, Way::Push] {
        let scene = Scene::new();
        let source = source(&scene);
        let copy = destination(&scene, "copy", "../outside");
        lchown(copy.join("link"), Some(7), Some(7)).unwrap();
        let before = fingerprint(&scene.join("outside/one"));
        let run = scene.copy(way, source.path(), &copy).arg("-K").finish().expect_code(1);
        assert!(run.out().contains("belongs to another user"), "{run}");
        assert!(copy.join("link").is_symlink() && copy.join("nested/in").exists(), "{run}");
        assert_eq!(fingerprint(&scene.join("outside/one")), before, "{run}");
        let run = scene.by(way, "verify", slash(source.path()), slash(&copy)).arg("-K").finish();
        assert_ne!(run.code(), Some(0), "{run}");
        // A user may lead the copy into a directory of that user.
        lchown(scene.join("outside/one"), Some(7), Some(7)).unwrap();
        let _ = scene.copy(way, source.path(), &copy).args(["-K", "--no-owner"]).finish().expect_success();
        assert!(scene.join("outside/one/file").exists() && copy.join("link").is_symlink());
    }
}

fn a_confined_login_keeps_no_links() {
    let vault = Scratch::new();
    let command = format!("{HAUL} agent --root {}", vault.path().display());
    let scene = Scene::with_sshd(SshdOptions { force_command: Some(command), ..SshdOptions::default() });
    let source = source(&scene);
    fs::create_dir(scene.join("outside")).unwrap();
    fs::create_dir(vault.join("to")).unwrap();
    symlink(scene.join("outside"), vault.join("to/link")).unwrap();
    let to = format!("127.0.0.1:{}/", vault.join("to").display());
    for word in ["copy", "sync", "verify"] {
        let run = scene.haul_ssh(word).arg("-K").arg(slash(source.path())).arg(&to).finish().expect_code(1);
        assert!(run.err().contains("--keep-dirlinks") && run.err().contains("confined"), "{run}");
    }
    assert!(list(&scene.join("outside")).is_empty());
}

fn destinations_without_haul_refuse_it() {
    let scene = Scene::new();
    let source = source(&scene);
    let copy = scene.join("dst");
    let refused = |run: haul_testkit::CommandRun| {
        let run = run.finish().expect_code(2);
        assert_eq!(run.err().lines().filter(|line| line.starts_with("haul: ")).count(), 1, "{run}");
        assert!(run.err().contains("--keep-dirlinks"), "{run}");
    };
    refused(sftp::push(&scene, source.path(), &copy).arg("-K"));
    for word in ["copy", "sync", "verify"] {
        for to in ["smb://u@127.0.0.1:1/share/x/", "s3://bucket/x/"] {
            let run = scene.haul(word).args(["-K", "--endpoint", "http://127.0.0.1:1"]);
            let run = if to.starts_with("smb") { scene.haul(word).arg("-K") } else { run };
            refused(run.arg(slash(source.path())).arg(to));
        }
    }
    refused(scene.haul("mv").arg("-K").arg(slash(source.path())).arg(&copy));
    assert!(!copy.exists());
}
