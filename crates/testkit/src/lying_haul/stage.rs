//! Runs beside a liar, and the checks after each run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::judge::{believed, problems, withholds};
use super::lie::MessageLie;
use super::lies::{Lies, lies};
use super::plan::LiarPlan;
use crate::compare::fingerprint;
use crate::measured::{measured, peak};
use crate::needs::tool;
use crate::process::{Finished, comes_true, descendants, joined, signal};
use crate::{Care, TestTree, duplicate, tree_differences};

/// Memory for content that each run is given.
const MAX_MEMORY: u64 = 32 << 20;
/// After this long a run that still waits is interrupted, as a person would do. Then it has to end.
const TIMEOUT: Duration = Duration::from_secs(90);
/// The same where an answer is withheld.
const SHORT_TIMEOUT: Duration = Duration::from_secs(4);

/// Runs at once.
const AT_ONCE: usize = 4;

/// A command that talks to a remote haul.
#[derive(Clone, Copy, Debug)]
pub struct LyingScene {
    /// Its name.
    pub name: &'static str,
    /// The words, with `SRC` and `DST` for the trees, and `FAR:` or `OTHER:` before a remote one.
    words: &'static str,
    /// Whether exit 0 says that the two trees are equal.
    proves: bool,
}

const fn command(name: &'static str, words: &'static str, proves: bool) -> LyingScene {
    LyingScene { name, words, proves }
}

/// All commands; together they have every kind of message.
pub const SCENES: &[LyingScene] = &[
    command("pull", "sync FAR:SRC/ DST/", true),
    command("pull-c", "sync -c --nice --max-delete 5 FAR:SRC/ DST/", true),
    command("push", "sync SRC/ FAR:DST/", true),
    command("push-c", "sync -c --delta on --groupmap 4000000000:root SRC/ FAR:DST/", true),
    command("verify", "verify -F FAR:SRC/ DST/", true),
    command("verify-far", "verify SRC/ FAR:DST/", true),
    command("hash", "hash --format sha256 --pages auto FAR:SRC/", false),
    command("within", "sync FAR:SRC/ FAR:DST/", true),
    command("between", "sync FAR:SRC/ OTHER:DST/", true),
    command("probe", "probe FAR:SRC/ DST/", false),
    command("pipe", "pipe FAR: --into wc -- tar c SRC/", false),
    command("pipe-from", "pipe --from FAR: --into wc -- tar c SRC/", false),
];

/// The command with this name.
#[must_use]
pub fn scene(name: &str) -> &'static LyingScene {
    SCENES.iter().find(|scene| scene.name == name).unwrap_or_else(|| panic!("no command is called {name}"))
}

/// Trees that all runs use, and how to run.
pub struct LyingStage {
    root: PathBuf,
    tag: String,
    haul: PathBuf,
    this: PathBuf,
    before: BTreeMap<PathBuf, [i64; 5]>,
}

/// How a run ended.
#[derive(Debug)]
pub struct EndedRun {
    /// The process with its status and output.
    pub run: Finished,
    /// Its peak memory in bytes.
    pub peak: u64,
    /// Whether the lie was told.
    pub told: bool,
    /// Whether it had to be interrupted.
    pub interrupted: bool,
    /// Whether the copy differs from the source although the run says that it does not.
    pub fooled: bool,
    /// The problems that the checks found.
    pub problems: Vec<String>,
}

impl LyingStage {
    /// Makes the trees in the directory `root`. `this` is a program that calls [`super::relay`] and
    /// [`crate::measured::measure`].
    #[must_use]
    pub fn new(root: &Path, tag: &str, haul: &Path, this: &Path) -> Self {
        let source = TestTree::new(root.join("src"), 1);
        for name in ["same", "other", "missing", "dir/sub/file", "suid", "attributes"] {
            source.file(name, 1000);
            source.time(name, 1_600_000_000, 5);
        }
        source.file("huge", (4 << 20) + 100_000);
        source.sparse("sparse", 300_000, &[0..5000, 200_000..210_000]);
        fs::hard_link(source.join("attributes"), source.join("dir/attributes-too")).unwrap();
        source.link("link", "dir/sub");
        source.dir("empty");
        fs::set_permissions(source.join("suid"), fs::Permissions::from_mode(0o4755)).unwrap();
        tool(Command::new("mkfifo").arg(source.join("pipe")));
        tool(Command::new("setfattr").args(["-n", "user.a", "-v", "b"]).arg(source.join("attributes")));
        if rustix::process::geteuid().is_root() {
            tool(Command::new("mknod").arg(source.join("null")).args(["c", "1", "3"]));
        }
        let old = root.join("old");
        duplicate(source.path(), &old);
        fs::write(old.join("other"), "what was before").unwrap();
        fs::write(old.join("extra"), "to be removed").unwrap();
        for name in ["missing", "dir/attributes-too", "link"] {
            fs::remove_file(old.join(name)).unwrap();
        }
        // There under each name, whichever of them comes first, so that claims can be believed.
        fs::write(old.join("dir/attributes-too"), "a file of its own").unwrap();
        fs::set_permissions(old.join("dir"), fs::Permissions::from_mode(0o700)).unwrap();
        let large = fs::OpenOptions::new().write(true).open(old.join("huge")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&large, b"changed", 1_000_000).unwrap();
        let before = fingerprint(source.path());
        let (tag, haul, this) = (tag.to_owned(), haul.to_owned(), this.to_owned());
        Self { root: root.to_owned(), tag, haul, this, before }
    }

    /// Runs the command in a new directory `name`; without a lie its messages are recorded.
    #[must_use]
    pub fn run(&self, scene: &LyingScene, lie: Option<&MessageLie>, name: &str) -> (LiarPlan, EndedRun) {
        let here = self.root.join(name);
        let (copy, canary, home) = (here.join("dst"), here.join("canary"), here.join("home"));
        for dir in [&here, &home] {
            fs::create_dir(dir).unwrap();
        }
        TestTree::new(&canary, 2).text("precious", "untouched");
        // For `verify` only one file differs.
        let old =
            if scene.words.starts_with("verify") { self.root.join("src") } else { self.root.join("old") };
        duplicate(&old, &copy);
        if scene.words.starts_with("verify") {
            fs::write(copy.join("other"), "x".repeat(1000)).unwrap();
        }
        let (kept, names) = (fingerprint(&canary), names(&here));
        let plan = match lie {
            Some(lie) => LiarPlan::telling(here.join("plan"), lie),
            None => LiarPlan::recording(here.join("plan")),
        };
        let timeout = if lie.is_some_and(withholds) { SHORT_TIMEOUT } else { TIMEOUT };
        let (run, interrupted) = self.execute(scene, &plan, &copy, timeout);
        let peak = peak(&here.join("peak"));
        let mut found = problems(&run, peak, MAX_MEMORY);
        if interrupted && lie.is_some_and(withholds) {
            found.retain(|problem| run.code() != Some(130) || !problem.starts_with("it ended with"));
        } else if interrupted {
            found.push("it did not end by itself".to_owned());
        }
        if fingerprint(&canary) != kept || self.names_differ(&here, &names) {
            found.push("something outside of the destination was touched".to_owned());
        }
        if fingerprint(&self.root.join("src")) != self.before {
            found.push("the source was touched".to_owned());
        }
        let fooled = scene.proves
            && run.code() == Some(0)
            && !tree_differences(&self.root.join("src"), &copy, &Care::default()).is_empty();
        if fooled && !lie.is_some_and(|lie| believed(&lie.key, &lie.change)) {
            let differ = tree_differences(&self.root.join("src"), &copy, &Care::default());
            found.push(format!("exit 0, and {differ:?}"));
        }
        (plan.clone(), EndedRun { run, peak, told: plan.was_told(), interrupted, fooled, problems: found })
    }

    /// Runs each of these commands without a lie. Returns the possible lies of each.
    #[must_use]
    pub fn record(
        &self,
        scenes: &[&'static LyingScene],
    ) -> Vec<(&'static LyingScene, BTreeMap<String, Lies>)> {
        let told = Mutex::new(Vec::new());
        in_parallel(scenes.len(), |at| {
            let name = format!("recording-{}", scenes[at].name);
            let (plan, ended) = self.run(scenes[at], None, &name);
            assert!(ended.problems.is_empty(), "{}: {:?}: {}", scenes[at].name, ended.problems, ended.run);
            told.lock().unwrap().push((at, scenes[at], lies(&plan.messages())));
            self.forget(&name);
        });
        let mut told = told.into_inner().unwrap();
        told.sort_by_key(|(at, _, _)| *at);
        told.into_iter().map(|(_, scene, lies)| (scene, lies)).collect()
    }

    /// Tells each of these lies, several at a time, and gives how each run ended.
    #[must_use]
    pub fn tell(&self, all: &[(&'static LyingScene, MessageLie)]) -> Vec<EndedRun> {
        let told = Mutex::new(BTreeMap::new());
        in_parallel(all.len(), |at| {
            let (scene, lie) = &all[at];
            let name = format!("{}-{at}-{}", scene.name, TOLD.fetch_add(1, Ordering::Relaxed));
            let ended = self.run(scene, Some(lie), &name).1;
            self.forget(&name);
            told.lock().unwrap().insert(at, ended);
        });
        told.into_inner().unwrap().into_values().collect()
    }

    /// Removes the directory of a run.
    pub fn forget(&self, name: &str) {
        let _ = fs::remove_dir_all(self.root.join(name));
    }

    /// Runs it beside `copy`. Whether it had to be interrupted.
    fn execute(
        &self,
        scene: &LyingScene,
        plan: &LiarPlan,
        copy: &Path,
        timeout: Duration,
    ) -> (Finished, bool) {
        let here = copy.parent().unwrap();
        let home = here.join("home");
        let (src, dst) = (self.root.join("src"), copy.to_owned());
        let mut words: Vec<OsString> = Vec::new();
        for word in scene.words.split(' ') {
            let (host, rest) = match word.split_once(':') {
                Some(("FAR", rest)) => ("127.0.0.1:", rest),
                Some((_, rest)) => ("localhost:", rest),
                None => ("", word),
            };
            words.push(match rest.trim_end_matches('/') {
                "SRC" => joined(&[host.as_bytes(), src.as_os_str().as_bytes(), b"/"]),
                "DST" => joined(&[host.as_bytes(), dst.as_os_str().as_bytes(), b"/"]),
                _ => word.into(),
            });
        }
        let transport = if scene.name == "between" { "auto" } else { "ssh" };
        let memory = MAX_MEMORY.to_string();
        let mut run = measured(&self.this, &here.join("peak"), &self.haul, &self.tag)
            .args(&words[..1])
            .args(["-e", &plan.shell(&self.this), "--transport", transport, "--timeout", "2"])
            .arg("--remote-haul")
            .arg(&self.haul)
            .args(["--max-memory", &memory])
            .args(&words[1..])
            .in_dir(here)
            .limit(timeout + TIMEOUT);
        for name in ["HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME", "TMPDIR"] {
            run = run.env(name, &home);
        }
        let mut running = run.start();
        let ended = comes_true(timeout, || !running.is_running());
        if !ended {
            // haul is the child of the process that measures it.
            if let Some(pid) = descendants(running.pid()).first() {
                signal(*pid, Signal::INT);
            }
        }
        (running.finish(), !ended)
    }

    fn names_differ(&self, here: &Path, before: &[PathBuf]) -> bool {
        let after = names(here);
        let ours = |name: &PathBuf| name.ends_with("peak") || name.ends_with("plan");
        after.iter().filter(|name| !ours(name)).ne(before.iter())
            || Path::new("/canary-of-haul").exists()
            || names(&self.root).iter().any(|name| name.ends_with("canary"))
    }
}

/// Numbers the directories of runs.
static TOLD: AtomicUsize = AtomicUsize::new(0);

/// Does this for 0 to `count`, a few at a time: most of a run is waiting.
fn in_parallel(count: usize, each: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    each(at);
                }
            });
        }
    });
}

/// The paths of the entries in a directory, sorted.
fn names(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}
