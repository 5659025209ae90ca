//! Prompts of ssh stay visible until they are answered, and then the copy starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::terminal::Terminal;
use haul_testkit::{Need, Sshd, TestTree, assert_same_tree, write_program};

use crate::scene::{HAUL, Scene, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Program("script");
        the_key_of_a_new_host_is_asked_for_and_accepted,
        the_passphrase_of_a_key_is_asked_for,
        an_interrupted_question_is_an_interrupted_run,
        a_login_that_takes_long_is_announced_on_a_line_of_its_own,
    ];
    all.extend(cases![
        a_host_key_that_has_changed_is_told_in_full,
        an_unknown_host_without_a_terminal_names_the_way_out,
    ]);
    all
}

/// A source, and the remote end for the copy of it.
pub(crate) fn trees(scene: &Scene) -> (TestTree, PathBuf) {
    let source = scene.tree("src");
    source.many("files", 12, 0..2000);
    source.file("large", 6 << 20);
    (source, scene.join("dst"))
}

/// The line of the shell that copies with this ssh.
fn copying(scene: &Scene, ssh: &str, source: &Path, copy: &Path) -> String {
    let (source, remote) = (slash(source), scene.remote(slash(copy)));
    haul(scene, ssh, &format!("copy --remote-haul {HAUL} {} {}", source.display(), remote.display()))
}

/// The line of the shell that runs haul with this ssh and these words.
pub(crate) fn haul(scene: &Scene, ssh: &str, words: &str) -> String {
    format!("HOME={0} XDG_STATE_HOME={0}/state {HAUL} {words} -e '{ssh}'", scene.home().display())
}

/// An ssh that asks, with this key and these known hosts.
pub(crate) fn asking(server: &Sshd, key: &Path, known: &Path) -> String {
    let port = server.port();
    format!(
        "ssh -F /dev/null -p {port} -i {} -o UserKnownHostsFile={} -o StrictHostKeyChecking=ask \
         -o IdentitiesOnly=yes -o IdentityAgent=none -o ConnectTimeout=20",
        key.display(),
        known.display()
    )
}

/// Waits for the end of a copy that went well; gives the screen.
pub(crate) fn done(terminal: Terminal, source: &TestTree, copy: &Path) -> String {
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("copied"), "{screen}");
    assert_same_tree(source.path(), copy);
    screen
}

fn the_key_of_a_new_host_is_asked_for_and_accepted() {
    let scene = Scene::new();
    let (source, copy) = trees(&scene);
    let known = scene.join("known");
    let ssh = asking(scene.sshd(), &scene.sshd().client_key(), &known);
    let mut terminal = Terminal::run(&copying(&scene, &ssh, source.path(), &copy), scene.tag());
    let question = "Are you sure you want to continue connecting";
    terminal.wait_for(question);
    terminal.assert_stays(question);
    assert!(
        terminal.lines().iter().any(|line| line.contains("authenticity of host")),
        "{:?}",
        terminal.lines()
    );
    terminal.type_line("yes");
    let _ = done(terminal, &source, &copy);
    assert!(!fs::read_to_string(known).unwrap().is_empty(), "ssh has noted the key");
}

fn the_passphrase_of_a_key_is_asked_for() {
    let scene = Scene::new();
    let (source, copy) = trees(&scene);
    let key = scene.join("locked");
    tool(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "open sesame", "-f"]).arg(&key));
    scene.sshd().authorize(&key.with_extension("pub"));
    let ssh = asking(scene.sshd(), &key, &scene.sshd().known_hosts());
    let mut terminal = Terminal::run(&copying(&scene, &ssh, source.path(), &copy), scene.tag());
    terminal.wait_for("Enter passphrase for key");
    terminal.assert_stays("Enter passphrase for key");
    terminal.type_line("wrong");
    terminal.wait_for_lines("Enter passphrase for key", 2);
    terminal.type_line("open sesame");
    let _ = done(terminal, &source, &copy);
}

fn an_interrupted_question_is_an_interrupted_run() {
    let scene = Scene::new();
    let (source, copy) = trees(&scene);
    let key = scene.join("locked");
    tool(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "open sesame", "-f"]).arg(&key));
    scene.sshd().authorize(&key.with_extension("pub"));
    let (known, none) = (scene.sshd().known_hosts(), scene.join("none"));
    for (key, known, question) in [
        (scene.sshd().client_key(), none, "Are you sure you want to continue connecting"),
        (key, known, "Enter passphrase for key"),
    ] {
        let ssh = asking(scene.sshd(), &key, &known);
        let mut terminal = Terminal::run(&copying(&scene, &ssh, source.path(), &copy), scene.tag());
        terminal.wait_for(question);
        terminal.type_bytes(b"\x03");
        let (code, screen) = terminal.finish();
        assert_eq!(code, Some(130), "{screen}");
        assert!(!screen.contains("Host key verification failed") && !screen.contains("hint:"), "{screen}");
    }
    assert!(!copy.exists());
}

/// A program in the place of ssh: `before`, then the ssh of the server.
fn in_the_place_of_ssh(scene: &Scene, before: &str) -> String {
    let path = scene.join("other-ssh");
    let text = format!("#!/bin/sh\n{before}\nexec {} \"$@\"\n", scene.sshd().shell());
    write_program(&path, text);
    path.display().to_string()
}

fn a_login_that_takes_long_is_announced_on_a_line_of_its_own() {
    let scene = Scene::new();
    let (source, copy) = trees(&scene);
    let go = scene.join("go");
    let wait = format!("while ! [ -e {} ]; do sleep 0.1; done", go.display());
    let ssh = in_the_place_of_ssh(&scene, &wait);
    let mut terminal = Terminal::run(&copying(&scene, &ssh, source.path(), &copy), scene.tag());
    terminal.wait_for("connecting to 127.0.0.1");
    terminal.assert_stays("connecting to 127.0.0.1");
    assert_eq!(terminal.lines().iter().filter(|line| !line.is_empty()).count(), 1, "{:?}", terminal.lines());
    fs::write(go, "").unwrap();
    let _ = done(terminal, &source, &copy);
}

fn a_host_key_that_has_changed_is_told_in_full() {
    let scene = Scene::new();
    let (source, copy) = trees(&scene);
    let other = scene.join("other");
    tool(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&other));
    let key = fs::read_to_string(other.with_extension("pub")).unwrap();
    let known = scene.join("known");
    fs::write(&known, format!("[127.0.0.1]:{} {key}", scene.sshd().port())).unwrap();
    let ssh = asking(scene.sshd(), &scene.sshd().client_key(), &known);
    let run = scene.haul("copy").args(["-e", &ssh, "--remote-haul", HAUL]);
    let run = run.arg(slash(source.path())).arg(scene.remote(slash(&copy))).finish().expect_code(4);
    for words in [
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "man-in-the-middle",
        "SHA256:",
        "Offending ED25519 key in",
        "Host key verification failed",
        "hint: ",
    ] {
        assert!(run.err().contains(words), "{words}: {run}");
    }
}

fn an_unknown_host_without_a_terminal_names_the_way_out() {
    let scene = Scene::new();
    let (source, copy) = trees(&scene);
    let ssh = asking(scene.sshd(), &scene.sshd().client_key(), &scene.join("none"));
    let ssh = ssh.replace("StrictHostKeyChecking=ask", "StrictHostKeyChecking=yes");
    let run = scene.haul("copy").args(["-e", &ssh, "--remote-haul", HAUL]);
    let run = run.arg(slash(source.path())).arg(scene.remote(slash(&copy))).finish().expect_code(4);
    assert!(run.err().contains("Host key verification failed"), "{run}");
    assert!(run.err().contains("once and accept it"), "{run}");
}
