//! A remote haul that a forced command restricts to a directory: it refuses a client that tries to leave it or to do
//! more than allowed, and nothing is touched.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use haul_testkit::compare::fingerprint;
use haul_testkit::{CommandRun, Finished, Scratch, SshdOptions, assert_same_tree};

use crate::scene::{HAUL, Scene, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        a_confined_login_reaches_its_directory_and_nothing_else,
        a_login_that_may_read_writes_nothing,
        a_login_that_may_add_changes_and_removes_nothing,
        a_login_that_may_not_remove_replaces,
    ]
}

/// A server that lets its clients into `vault` only.
fn scene(vault: &Path, access: &str) -> Scene {
    let command = format!("{HAUL} agent --root {} {access}", vault.display());
    Scene::with_sshd(SshdOptions { force_command: Some(command), ..SshdOptions::default() })
}

/// `haul WORD SOURCE DESTINATION`, of which one is far.
fn run(scene: &Scene, word: &str, from: &str, to: &str) -> Finished {
    scene.haul_ssh(word).args([from, to]).finish()
}

fn remote(path: impl AsRef<Path>) -> String {
    format!("127.0.0.1:{}", path.as_ref().display())
}

fn text(path: &Path) -> String {
    slash(path).into_string().unwrap()
}

#[track_caller]
fn assert_refused(run: &Finished, words: &str) {
    assert_eq!(run.code(), Some(1), "{run}");
    assert!(run.said().contains(words), "{words}: {run}");
}

fn a_confined_login_reaches_its_directory_and_nothing_else() {
    let place = Scratch::new();
    let (vault, outside) = (place.join("vault"), place.join("outside"));
    fs::create_dir_all(vault.join("sub")).unwrap();
    fs::create_dir_all(outside.join("directory")).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    symlink("../outside", vault.join("link")).unwrap();
    symlink("/", vault.join("slash")).unwrap();
    let before = fingerprint(&outside);
    let scene = scene(&vault, "");
    let source = scene.tree("src");
    source.many("many", 20, 0..3000);
    source.file("big", 5 << 20);
    let copy = scene.join("copy");

    for there in [remote(vault.join("one/")), remote("sub/two/"), remote("~/three/")] {
        let _ = run(&scene, "copy", &text(source.path()), &there).expect_success();
    }
    for there in ["one", "sub/two", "three"] {
        assert_same_tree(source.path(), &vault.join(there));
    }
    let _ = run(&scene, "copy", &remote("one/"), &text(&copy)).expect_success();
    assert_same_tree(source.path(), &copy);

    let secret = outside.join("secret");
    for (there, words) in [
        (remote(&outside) + "/", "confined to"),
        (remote("/etc/"), "confined to"),
        (remote("/"), "confined to"),
        (remote("../outside/"), "confined to"),
        (remote(format!("{}/../outside/", vault.display())), "confined to"),
        (remote("~root/"), "confined to"),
        (remote("link/"), "confined to"),
        (remote("link/directory/"), "confined to"),
        (remote(format!("slash/{}", secret.display())), "confined to"),
    ] {
        assert_refused(&run(&scene, "copy", &there, &text(&scene.join("got"))), words);
        assert_refused(&run(&scene, "copy", &text(source.path()), &there), words);
        assert_refused(&scene.haul_ssh("hash").arg(&there).finish(), words);
    }
    // A link as the destination is replaced, and nothing is said of the other side of it.
    symlink("/dev/null", vault.join("device")).unwrap();
    let file = source.join("big").display().to_string();
    let _ = run(&scene, "copy", &file, &remote("device")).expect_success();
    assert!(fs::symlink_metadata(vault.join("device")).unwrap().is_file());
    assert!(!scene.join("got/secret").exists() && fingerprint(&outside) == before);
    // No other way than the login, and no other command.
    let tls = scene
        .haul_ssh("copy")
        .args(["--transport", "tls", &remote("one/"), &text(&scene.join("other"))])
        .finish();
    assert_eq!(tls.code(), Some(4), "{tls}");
    let shell = scene.sshd().shell();
    let mut words = shell.split_whitespace();
    let ssh = CommandRun::new(words.next().unwrap(), scene.tag()).args(words);
    let other = ssh.args([scene.sshd().host(), "cat", &secret.display().to_string()]).finish();
    assert!(other.stdout.is_empty() && other.code() != Some(0), "{other}");
    assert!(other.said().contains("serves haul alone"), "{other}");
    scene.assert_all_gone();
}

fn a_login_that_may_read_writes_nothing() {
    let vault = Scratch::new();
    fs::write(vault.join("a"), "a").unwrap();
    let before = fingerprint(vault.path());
    let scene = scene(vault.path(), "--read-only");
    let source = scene.tree("src");
    source.file("new", 1000);
    let _ = run(&scene, "copy", &remote("./"), &text(&scene.join("copy"))).expect_success();
    assert_same_tree(vault.path(), &scene.join("copy"));
    for word in ["copy", "sync"] {
        assert_refused(&run(&scene, word, &text(source.path()), &remote("./")), "may only read");
    }
    assert!(fingerprint(vault.path()) == before);
}

fn a_login_that_may_add_changes_and_removes_nothing() {
    let vault = Scratch::new();
    let scene = scene(vault.path(), "--append-only");
    let source = scene.tree("src");
    source.file("big", 6 << 20);
    source.text("dir/a", "first");
    source.text("dir/gone", "stays");
    source.link("link", "first");
    fs::hard_link(source.join("dir/a"), source.join("dir/b")).unwrap();
    let _ = run(&scene, "copy", &text(source.path()), &remote("t/")).expect_success();
    assert_same_tree(source.path(), &vault.join("t"));
    let _ = run(&scene, "copy", &text(source.path()), &remote("t/")).expect_success();

    let before = fingerprint(vault.path());
    fs::remove_file(source.join("dir/b")).unwrap();
    fs::remove_file(source.join("link")).unwrap();
    source.text("dir/a", "other, longer");
    source.file("big", 7 << 20);
    source.link("link", "second");
    fs::remove_file(source.join("dir/gone")).unwrap();
    for word in ["copy", "sync"] {
        assert_refused(&run(&scene, word, &text(source.path()), &remote("t/")), "may only add");
    }
    let inplace = scene.haul_ssh("copy").args(["--inplace", &text(source.path()), &remote("t/")]).finish();
    assert_refused(&inplace, "may only add");
    assert!(fingerprint(vault.path()) == before, "{:?}\n{before:?}", fingerprint(vault.path()));
    source.text("dir/new", "new");
    assert_refused(&run(&scene, "copy", &text(source.path()), &remote("t/")), "may only add");
    assert_eq!(fs::read_to_string(vault.join("t/dir/new")).unwrap(), "new");
    assert_eq!(fs::read_to_string(vault.join("t/dir/a")).unwrap(), "first");
}

fn a_login_that_may_not_remove_replaces() {
    let vault = Scratch::new();
    let scene = scene(vault.path(), "--no-delete");
    let source = scene.tree("src");
    source.text("a", "first");
    source.text("gone", "stays");
    let _ = run(&scene, "sync", &text(source.path()), &remote("t/")).expect_success();
    source.text("a", "other, longer");
    fs::remove_file(source.join("gone")).unwrap();
    assert_refused(&run(&scene, "sync", &text(source.path()), &remote("t/")), "may not remove");
    assert_eq!(fs::read_to_string(vault.join("t/a")).unwrap(), "other, longer");
    assert_eq!(fs::read_to_string(vault.join("t/gone")).unwrap(), "stays");
}
