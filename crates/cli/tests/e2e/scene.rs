//! The environment of a test: a directory, a server if needed, and the program with the options to reach both.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::process::{assert_all_gone, joined};
use haul_testkit::{CommandRun, FaultPlan, Finished, Scratch, Sshd, SshdOptions, TestTree};
use serde_json::Value;
use std::os::unix::ffi::OsStrExt;

/// The program under test: that of this build, or the one that `E2E_HAUL` named when the tests were compiled.
pub(crate) const HAUL: &str = match option_env!("E2E_HAUL") {
    Some(program) => program,
    None => env!("CARGO_BIN_EXE_haul"),
};

/// The first argument that makes this test program the remote shell of a [`FaultPlan`].
pub(crate) const FAULT_SHELL: &str = "--fault-shell";

/// The first argument that makes this test program an SFTP server that tells a [`haul_testkit::lying_sftp::ServerLie`].
pub(crate) const LYING_SERVER: &str = "--lying-server";

/// The host behind the remote shell of a [`FaultPlan`], which may go through the server of the scene.
pub(crate) const REMOTE: &str = "127.0.0.1";

/// How the two ends of a copy are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Both here.
    Local,
    /// The destination is far.
    Push,
    /// The source is far.
    Pull,
    /// Both are far.
    Relay,
}

/// Every way.
pub(crate) const WAYS: [Way; 4] = [Way::Local, Way::Push, Way::Pull, Way::Relay];

/// A directory of its own, a tag for its processes, and a server once somebody asks for it.
pub(crate) struct Scene {
    // Dropped first: its processes must not write into the directory any more.
    sshd: OnceLock<Sshd>,
    options: SshdOptions,
    tag: String,
    scratch: Scratch,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with_sshd(SshdOptions::default())
    }

    /// A scene whose server, once it is started, has these options.
    pub(crate) fn with_sshd(options: SshdOptions) -> Self {
        let scratch = Scratch::new();
        let tag = scratch.path().display().to_string();
        std::fs::create_dir(scratch.join("home")).unwrap();
        Self { sshd: OnceLock::new(), options, tag, scratch }
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.scratch.join(name)
    }

    pub(crate) fn path(&self) -> &Path {
        self.scratch.path()
    }

    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// The home directory of everything that runs in this scene, except sessions on the server.
    pub(crate) fn home(&self) -> PathBuf {
        self.join("home")
    }

    /// An empty tree in the scene; the seed is the same in every run, so that failures repeat.
    pub(crate) fn tree(&self, name: &str) -> TestTree {
        TestTree::new(self.join(name), 1)
    }

    pub(crate) fn sshd(&self) -> &Sshd {
        self.sshd.get_or_init(|| Sshd::start(&self.tag, &self.options))
    }

    /// A path on the server.
    pub(crate) fn remote(&self, path: impl AsRef<OsStr>) -> OsString {
        joined(&[self.sshd().host().as_bytes(), b":", path.as_ref().as_bytes()])
    }

    /// A path on the server, as if that were another one.
    fn other(&self, path: &OsStr) -> OsString {
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        joined(&[user.trim_ascii(), b"@", self.remote(path).as_bytes()])
    }

    /// The program with its first word.
    pub(crate) fn haul(&self, word: &str) -> CommandRun {
        CommandRun::new(HAUL, &self.tag)
            .env("HOME", self.home())
            .env("XDG_RUNTIME_DIR", self.home())
            .env("XDG_STATE_HOME", self.home().join("state"))
            .arg(word)
    }

    /// The program as a user without rights. A copy of it is used, as the original may be out of the user's reach.
    pub(crate) fn as_nobody(&self) -> CommandRun {
        let program = self.join("haul");
        if !program.exists() {
            copy_haul(&program);
        }
        let run = CommandRun::new("setpriv", self.tag()).args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--",
        ]);
        run.arg(program).env("HOME", self.home())
    }

    /// The program in a mount namespace without `/proc`.
    pub(crate) fn without_proc(&self) -> CommandRun {
        let hide = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
        let words = ["--mount", "--propagation", "private", "sh", "-c", hide, HAUL];
        CommandRun::new("unshare", self.tag()).args(words).env("HOME", self.home())
    }

    /// The program with its first word and how to reach the server.
    pub(crate) fn haul_ssh(&self, word: &str) -> CommandRun {
        self.haul(word).args(["-e", &self.sshd().shell(), "--remote-haul", HAUL])
    }

    /// The program with its first word and the remote shell that damages its bytes. The host is [`REMOTE`].
    pub(crate) fn haul_fault(&self, word: &str, plan: &FaultPlan) -> CommandRun {
        self.haul(word).args(["-e", &fault_shell(plan), "--remote-haul", HAUL])
    }

    /// `WORD SOURCE DESTINATION` with the ends where `way` has them, and JSON for a summary.
    pub(crate) fn by(
        &self,
        way: Way,
        word: &str,
        from: impl AsRef<OsStr>,
        to: impl AsRef<OsStr>,
    ) -> CommandRun {
        let (from, to) = (from.as_ref(), to.as_ref());
        let run = if way == Way::Local { self.haul(word) } else { self.haul_ssh(word) };
        let source = if matches!(way, Way::Pull | Way::Relay) { self.remote(from) } else { from.to_owned() };
        let target = match way {
            Way::Push => self.remote(to),
            Way::Relay => self.other(to),
            Way::Pull | Way::Local => to.to_owned(),
        };
        run.arg("--json").arg(source).arg(target)
    }

    /// Copies the content of the directory `from` into the directory `to`.
    pub(crate) fn copy(&self, way: Way, from: &Path, to: &Path) -> CommandRun {
        self.by(way, "copy", slash(from), slash(to))
    }

    /// Copies the content of `from` into `to` through the faulty shell, which is the remote end of `way`.
    pub(crate) fn fault_copy(&self, way: Way, plan: &FaultPlan, from: &Path, to: &Path) -> CommandRun {
        let remote = |path: &Path| joined(&[REMOTE.as_bytes(), b":", slash(path).as_bytes()]);
        let source = if way == Way::Pull { remote(from) } else { slash(from) };
        let target = if way == Way::Push { remote(to) } else { slash(to) };
        self.haul_fault("copy", plan).arg("--json").arg(source).arg(target)
    }

    /// Fails if a process of this scene is still there some seconds from now.
    pub(crate) fn assert_all_gone(&self) {
        // The server itself does not carry the tag; its sessions do.
        assert_all_gone(&self.tag, Duration::from_secs(20));
    }
}

/// The words for `-e` that make this test program the remote shell.
pub(crate) fn fault_shell(plan: &FaultPlan) -> String {
    let this = std::env::current_exe().unwrap();
    format!("{} {FAULT_SHELL} {}", this.display(), plan.dir().display())
}

/// Makes a copy of the program under test that can be run at once, as `write_program` of the test kit does.
pub(crate) fn copy_haul(path: &Path) {
    let _ = tool(Command::new("install").args(["-m", "755", HAUL]).arg(path));
}

/// The path with a slash at its end.
pub(crate) fn slash(path: &Path) -> OsString {
    joined(&[path.as_os_str().as_bytes(), b"/"])
}

/// The output of `--json`, line by line.
pub(crate) fn events(run: &Finished) -> Vec<Value> {
    let parse =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in line {line:?} of {run}"));
    run.out().lines().map(parse).collect()
}

/// The summary that `--json` printed last.
#[track_caller]
pub(crate) fn summary(run: &Finished) -> RunCounts {
    let last = events(run).pop().unwrap_or_else(|| panic!("no line of JSON: {run}"));
    assert_eq!(last["type"], "summary", "{run}");
    RunCounts(last)
}

/// The counts of a run.
#[derive(Debug)]
pub(crate) struct RunCounts(pub(crate) Value);

impl RunCounts {
    /// One of the totals, by its name.
    #[track_caller]
    pub(crate) fn of(&self, name: &str) -> u64 {
        let value = &self.0["totals"][name];
        value.as_u64().unwrap_or_else(|| panic!("{name} is {value} in {}", self.0))
    }

    /// Fails unless every entry that was found is in exactly one of the counts.
    #[track_caller]
    pub(crate) fn assert_accounted(&self) {
        let parts = ["copied", "made", "updated", "same", "left", "linked", "failed"];
        let sum: u64 = parts.iter().map(|name| self.of(name)).sum();
        assert_eq!(self.of("found"), sum, "{}", self.0);
    }
}
