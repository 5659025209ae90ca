//! The meaning of locations on the command line, compared with rsync.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use haul_testkit::process::joined;
use haul_testkit::tree::{list, set_time};
use haul_testkit::{CommandRun, Need, Scratch, TestTree, assert_same_tree, differences, needs};

use crate::scene::{HAUL, Scene, WAYS, Way, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        sources_and_destinations_mean_the_same_as_to_rsync,
        several_sources_into_a_file_are_refused,
        a_directory_onto_a_file_fails_and_leaves_the_file,
        a_remote_path_may_hold_any_byte,
        a_remote_path_is_below_the_home_directory,
        a_location_may_be_a_url_with_a_port,
        a_host_may_be_an_alias_of_ssh_config,
        a_file_with_a_colon_is_copied_with_a_dot_slash,
    ];
    all.extend(cases![Need::Root; a_missing_source_is_named_and_fails]);
    all
}

/// The entries before a copy: sources of each kind, and destinations of each kind.
fn ground(root: &Path) -> TestTree {
    let tree = TestTree::new(root, 9);
    tree.file("directory/one", 10);
    tree.file("directory/below/two", 5 << 20);
    tree.dir("directory/empty");
    tree.file("file", 3000);
    tree.file("other file", 77);
    tree.link("to-directory", "directory");
    tree.link("to-file", "file");
    tree.link("to-nothing", "nothing");
    tree.file("there/already", 5);
    tree.file("there/directory/one", 12);
    tree.file("a-file", 9);
    tree.dir("nothing-in-it");
    for path in list(root) {
        tree.time(path, 1_500_000_000, 3);
    }
    tree
}

/// Gives all directories one time: those that something was put into have that of the moment.
fn settle(root: &Path) {
    set_time(root, 1, 1);
    list(root).iter().map(|path| root.join(path)).filter(|path| path.is_dir()).for_each(|path| {
        set_time(&path, 1, 1);
    });
}

/// Sources, and a destination.
const TABLE: [(&[&str], &str); 27] = [
    (&["directory/"], "new"),
    (&["directory/"], "new/"),
    (&["directory"], "new"),
    (&["directory"], "new/"),
    (&["directory/."], "new"),
    (&["directory/"], "there"),
    (&["directory/"], "there/"),
    (&["directory"], "there"),
    (&["directory"], "there/"),
    (&["./directory/below/.."], "there/"),
    (&["directory//"], "there//"),
    (&["directory/below"], "nothing-in-it"),
    (&["file"], "new"),
    (&["file"], "new/"),
    (&["file"], "there"),
    (&["file"], "there/"),
    (&["file"], "a-file"),
    (&["file"], "there/already"),
    (&["file"], "there/renamed"),
    (&["to-directory"], "there"),
    (&["to-directory/"], "there"),
    (&["to-file"], "there"),
    (&["to-file"], "new"),
    (&["to-nothing"], "there/"),
    (&["directory", "file", "other file"], "there"),
    (&["directory/", "nothing-in-it", "file"], "there/"),
    (&["directory", "file"], "new"),
];

fn sources_and_destinations_mean_the_same_as_to_rsync() {
    let scene = Scene::new();
    let wanted = scene.join("rsync");
    let got = scene.join("haul");
    let mut wrong = Vec::new();
    for (sources, target) in TABLE {
        fs::create_dir(&wanted).unwrap();
        ground(&wanted);
        needs::tool(
            Command::new("rsync")
                .args(["-aH", "--modify-window=-1"])
                .args(sources)
                .arg(target)
                .current_dir(&wanted),
        );
        for way in WAYS {
            fs::create_dir(&got).unwrap();
            ground(&got);
            // A remote end does not know where we are, so its paths are absolute.
            let run = if way == Way::Local { scene.haul("copy") } else { scene.haul_ssh("copy") };
            let full = |name: &&str| joined(&[got.as_os_str().as_bytes(), b"/", name.as_bytes()]);
            let source = |name: &&str| match way {
                Way::Local => OsString::from(*name),
                Way::Push => full(name),
                Way::Pull | Way::Relay => scene.remote(full(name)),
            };
            let destination = match way {
                Way::Local => OsString::from(target),
                Way::Pull => full(&target),
                Way::Push | Way::Relay => scene.remote(full(&target)),
            };
            let run = run.in_dir(&got).args(sources.iter().map(source)).arg(destination).finish();
            settle(&wanted);
            settle(&got);
            let found = differences(&wanted, &got);
            if run.code() != Some(0) || !found.is_empty() {
                wrong.push(format!(
                    "{way:?} of {sources:?} to {target:?}: {:?} {found:#?}\n{}",
                    run.code(),
                    run.err()
                ));
            }
            fs::remove_dir_all(&got).unwrap();
        }
        fs::remove_dir_all(&wanted).unwrap();
    }
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), TABLE.len() * 4, wrong.join("\n"));
}

fn several_sources_into_a_file_are_refused() {
    let scene = Scene::new();
    let tree = ground(&scene.join("tree"));
    let before = fs::read(tree.join("a-file")).unwrap();
    let run = scene.haul("copy").in_dir(tree.path()).args(["file", "directory", "a-file"]).finish();
    assert!(matches!(run.code(), Some(1 | 2)), "{run}");
    assert!(run.said().contains("a-file"), "the message names it: {run}");
    assert!(fs::read(tree.join("a-file")).unwrap() == before, "it is left alone");
}

fn a_directory_onto_a_file_fails_and_leaves_the_file() {
    let scene = Scene::new();
    let tree = ground(&scene.join("tree"));
    let before = fs::read(tree.join("a-file")).unwrap();
    for source in ["directory", "directory/"] {
        let run = scene.haul("copy").in_dir(tree.path()).args([source, "a-file"]).finish();
        assert!(matches!(run.code(), Some(1 | 2)), "{run}");
        assert!(fs::read(tree.join("a-file")).unwrap() == before, "it is left alone");
    }
}

fn a_missing_source_is_named_and_fails() {
    for way in WAYS {
        let scene = Scene::new();
        let source = scene.tree("tree");
        let run =
            scene.by(way, "copy", source.join("no such thing"), scene.join("dst")).finish().expect_code(1);
        let said = run.said();
        assert!(said.contains("no such thing"), "{way:?}: {said}");
        assert!(!scene.join("dst").exists(), "{way:?}");
    }
}

/// A directory in the home directory of the user that logs in.
fn in_login_home() -> Scratch {
    let home = needs::tool(Command::new("sh").args(["-c", "eval echo ~$(id -un)"]));
    Scratch::inside(Path::new(home.trim()))
}

fn a_remote_path_may_hold_any_byte() {
    let names: [&[u8]; 9] = [
        b"x y",
        b"$(touch pwned)",
        b"`touch pwned`",
        b"'; touch pwned; '",
        b"\"",
        b"new\nline",
        b"invalid \xff\xfe",
        b"*",
        b"back\\slash",
    ];
    let scene = Scene::new();
    let home = in_login_home();
    let source = TestTree::mixed(scene.join("src"), 2, &[5 << 20], 3);
    for name in names {
        let remote = home.join(OsStr::from_bytes(name));
        let short = home.path().file_name().unwrap();
        // Absolute, and below `~`.
        for spelled in [remote.clone().into_os_string(), joined(&[b"~/", short.as_bytes(), b"/", name])] {
            let there = scene.remote(joined(&[spelled.as_bytes(), b"/"]));
            let back = scene.join("back");
            let _ = scene.haul_ssh("copy").arg(slash(source.path())).arg(&there).finish().expect_success();
            assert_same_tree(source.path(), &remote);
            let _ = scene.haul_ssh("copy").arg(&there).arg(&back).finish().expect_success();
            assert_same_tree(source.path(), &back);
            fs::remove_dir_all(&remote).unwrap();
            fs::remove_dir_all(&back).unwrap();
        }
    }
    assert!(list(home.path()).is_empty(), "no shell has seen a name: {:?}", list(home.path()));
}

fn a_remote_path_is_below_the_home_directory() {
    let scene = Scene::new();
    let home = in_login_home();
    let short = home.path().file_name().unwrap();
    let source = scene.tree("src");
    source.file("file", 100);
    for (number, before) in ["", "~/", "./"].into_iter().enumerate() {
        let name = format!("/{number}");
        let there = scene.remote(joined(&[before.as_bytes(), short.as_bytes(), name.as_bytes()]));
        let _ = scene.haul_ssh("copy").arg(slash(source.path())).arg(there).finish().expect_success();
        assert_same_tree(source.path(), &home.join(number.to_string()));
    }
}

fn a_location_may_be_a_url_with_a_port() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("file", 100);
    // The port of the location, not of the command: ssh takes the first that it is given.
    let shell = scene.sshd().shell();
    let (before, rest) = shell.split_once("-p ").unwrap();
    let (port, after) = rest.split_once(' ').unwrap();
    let there =
        joined(&[format!("ssh://127.0.0.1:{port}").as_bytes(), scene.join("dst").as_os_str().as_bytes()]);
    let run = scene.haul("copy").args(["-e", &format!("{before}{after}"), "--remote-haul", HAUL]);
    let _ = run.arg(slash(source.path())).arg(there).finish().expect_success();
    assert_same_tree(source.path(), &scene.join("dst"));
}

fn a_host_may_be_an_alias_of_ssh_config() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("file", 100);
    let config = scene.sshd().client_config("my-alias");
    let there = joined(&[b"my-alias:", scene.join("dst").as_os_str().as_bytes()]);
    let run: CommandRun =
        scene.haul("copy").args(["-e", &format!("ssh -F {}", config.display()), "--remote-haul", HAUL]);
    let _ = run.arg(slash(source.path())).arg(there).finish().expect_success();
    assert_same_tree(source.path(), &scene.join("dst"));
}

fn a_file_with_a_colon_is_copied_with_a_dot_slash() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("host:file", 100);
    let _ = scene.haul("copy").in_dir(source.path()).args(["./host:file", "copy"]).finish().expect_success();
    assert_eq!(fs::read(source.join("host:file")).unwrap(), fs::read(source.join("copy")).unwrap());
}
