//! Passwords and codes that a real sshd requests through PAM: each is requested once and never shown.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::pam::CODE_WORDS;
use haul_testkit::terminal::Terminal;
use haul_testkit::{Care, Need, Secrets, Sshd, TestTree, tree_differences};

use crate::questions::{asking, done, haul, trees};
use crate::scene::{HAUL, Scene, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Program("script"), Need::Pam;
        a_password_and_a_second_factor_are_asked_for,
        a_wrong_answer_is_asked_for_again,
        three_wrong_passwords_are_exit_4_and_one_line,
        the_question_comes_once_for_all_connections,
        two_remote_ends_ask_one_after_the_other,
    ]
}

const PASSWORD: &str = "correct horse battery";
const CODE: &str = "902174";
const BOTH: Secrets = Secrets { methods: "password,keyboard-interactive", password: PASSWORD, code: CODE };
const ONE: Secrets = Secrets { methods: "keyboard-interactive", password: PASSWORD, code: "" };

/// The prompts of ssh: by the method `password`, and by keyboard-interactive.
const BY_PASSWORD: &str = "'s password:";
const BY_KEYBOARD: &str = "Password:";

/// A scene with a server that asks.
struct PasswordScene {
    scene: Scene,
    server: Sshd,
    source: TestTree,
    copy: PathBuf,
}

impl PasswordScene {
    fn new(secrets: &Secrets) -> Self {
        let scene = Scene::new();
        let server = Sshd::start_asking(scene.tag(), secrets);
        let (source, copy) = trees(&scene);
        Self { scene, server, source, copy }
    }

    fn run(&self, words: &str) -> Terminal {
        let ssh = asking(&self.server, &self.server.client_key(), &self.server.known_hosts());
        Terminal::run(&haul(&self.scene, &ssh, words), self.scene.tag())
    }

    /// Copies the source to the remote end, with these words more.
    fn copy(&self, more: &str) -> Terminal {
        let (source, remote) = (slash(self.source.path()), self.scene.remote(slash(&self.copy)));
        self.run(&format!("copy --remote-haul {HAUL} {more} {} {}", source.display(), remote.display()))
    }

    /// Fails if a file of the run holds a secret, or a process of it is left.
    fn nothing_told(self) {
        self.scene.assert_all_gone();
        let mut left = vec![self.scene.path().to_owned()];
        while let Some(path) = left.pop() {
            if path.is_dir() && !path.is_symlink() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() < 1 << 20) {
                assert!(!holds_secret(&path), "{}", path.display());
            }
        }
        assert!(!self.server.log().contains(PASSWORD) && !self.server.log().contains(CODE));
    }
}

fn holds_secret(path: &Path) -> bool {
    let content = fs::read(path).unwrap();
    [PASSWORD, CODE].iter().any(|secret| content.windows(secret.len()).any(|part| part == secret.as_bytes()))
}

/// How many lines of the screen hold these words.
fn times(screen: &str, words: &str) -> usize {
    screen.lines().filter(|line| line.contains(words)).count()
}

fn a_password_and_a_second_factor_are_asked_for() {
    let asked = PasswordScene::new(&BOTH);
    let mut terminal = asked.copy("");
    terminal.wait_for(BY_PASSWORD);
    terminal.assert_stays(BY_PASSWORD);
    terminal.type_secret(PASSWORD);
    terminal.wait_for(BY_KEYBOARD);
    terminal.assert_stays(BY_KEYBOARD);
    let lines = terminal.lines().join("\n");
    assert!(lines.contains(CODE_WORDS) && lines.contains("'s password:"), "{lines}");
    terminal.type_secret(CODE);
    let _ = done(terminal, &asked.source, &asked.copy);
    assert_eq!(asked.server.logged("Accepted keyboard-interactive/pam"), 1, "{}", asked.server.log());
    asked.nothing_told();
}

fn a_wrong_answer_is_asked_for_again() {
    let asked = PasswordScene::new(&BOTH);
    let mut terminal = asked.copy("");
    for (question, answer) in [(BY_PASSWORD, PASSWORD), (BY_KEYBOARD, CODE)] {
        terminal.wait_for(question);
        terminal.type_secret("not the answer");
        terminal.wait_for_lines(question, 2);
        terminal.assert_stays(question);
        terminal.type_secret(answer);
    }
    let screen = done(terminal, &asked.source, &asked.copy);
    assert_eq!((times(&screen, BY_PASSWORD), times(&screen, CODE_WORDS)), (2, 2), "{screen}");
    assert_eq!(times(&screen, "denied"), 0, "what was put right is not told as a failure: {screen}");
    asked.nothing_told();
}

fn three_wrong_passwords_are_exit_4_and_one_line() {
    for (secrets, question) in [(&ONE, BY_KEYBOARD), (&BOTH, BY_PASSWORD)] {
        let asked = PasswordScene::new(secrets);
        let mut terminal = asked.copy("");
        for count in 1..=3 {
            terminal.wait_for_lines(question, count);
            terminal.type_secret("not the password");
        }
        let (code, screen) = terminal.finish();
        assert_eq!(code, Some(4), "{screen}");
        assert_eq!(times(&screen, question), 3, "{screen}");
        let said: Vec<&str> = screen.lines().filter(|line| line.starts_with("haul:")).collect();
        assert!(said.len() == 1 && said[0].contains("127.0.0.1: Permission denied ("), "{screen}");
        assert!(!asked.copy.exists());
        asked.nothing_told();
    }
}

fn the_question_comes_once_for_all_connections() {
    let through_first = "haul goes on through the first connection";
    for (remote, words, said) in [
        ("127.0.0.1:", "--transport ssh --streams 4 --bwlimit 2M", through_first),
        ("127.0.0.1:", "--transport tls --streams 4", "goes directly"),
        ("sftp://127.0.0.1", "--streams 4 --bwlimit 2M", through_first),
    ] {
        let asked = PasswordScene::new(&ONE);
        // It takes so long that more connections are tried.
        let source = TestTree::mixed(asked.scene.join("more"), 21, &[4 << 20, 3 << 20], 30);
        let (from, to) = (source.path().display(), asked.copy.display());
        let mut terminal = asked.run(&format!("copy --remote-haul {HAUL} {words} {from}/ {remote}{to}/"));
        terminal.wait_for(BY_KEYBOARD);
        terminal.type_secret(PASSWORD);
        let (code, screen) = terminal.finish();
        assert_eq!(code, Some(0), "{screen}");
        assert_eq!(times(&screen, BY_KEYBOARD), 1, "{screen}");
        assert_eq!(times(&screen, said), 1, "{screen}");
        assert_eq!(asked.server.logged("Accepted"), 1, "{}", asked.server.log());
        let care = if remote.starts_with("sftp") { Care::of_sftp() } else { Care::default() };
        let found = tree_differences(source.path(), &asked.copy, &care);
        assert!(found.is_empty(), "{found:#?}");
        asked.nothing_told();
    }
}

fn two_remote_ends_ask_one_after_the_other() {
    let asked = PasswordScene::new(&ONE);
    let user = tool(Command::new("id").arg("-un"));
    let mut terminal = asked.run(&format!(
        "copy --remote-haul {HAUL} 127.0.0.1:{}/ {}@127.0.0.1:{}/",
        asked.source.path().display(),
        user.trim(),
        asked.copy.display()
    ));
    for count in 1..=2 {
        terminal.wait_for_lines(BY_KEYBOARD, count);
        terminal.assert_stays(BY_KEYBOARD);
        assert_eq!(times(&terminal.lines().join("\n"), BY_KEYBOARD), count);
        terminal.type_secret(PASSWORD);
    }
    let _ = done(terminal, &asked.source, &asked.copy);
    assert_eq!(asked.server.logged("Accepted"), 2, "{}", asked.server.log());
    asked.nothing_told();
}
