//! A random command and its trees.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_testkit::process::joined;
use haul_testkit::{Care, CommandRun, FaultPlan, Finished, TreeShape, content, duplicate};

use crate::judge::{AllowedContent, equal};
use crate::round::Round;

/// The places of source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobPlaces {
    Local,
    Push,
    Pull,
}

/// The first argument that makes this program the remote shell of a [`FaultPlan`].
pub(crate) const FAULT_SHELL: &str = "--fault-shell";

/// The host name for the remote shell of a plan.
const REMOTE: &str = "127.0.0.1";

/// Limits for a random job.
#[derive(Clone, Debug)]
pub(crate) struct JobLimits {
    pub(crate) shape: TreeShape,
    pub(crate) ways: &'static [JobPlaces],
    /// Maximum length of one further file that is sent slice by slice; 0 for none.
    pub(crate) large: u64,
    /// The destination may exist before the run.
    pub(crate) old: bool,
    pub(crate) inplace: bool,
    /// Some jobs use a real sshd, with direct TLS connections; the others use the remote shell of the plan.
    pub(crate) server: bool,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self {
            shape: TreeShape { entries: 30, big: 0, ..TreeShape::default() },
            ways: &[JobPlaces::Local, JobPlaces::Push, JobPlaces::Pull],
            large: 13 << 20,
            old: true,
            inplace: true,
            server: false,
        }
    }
}

/// A command and its trees.
pub(crate) struct CampaignJob {
    pub(crate) way: JobPlaces,
    word: &'static str,
    options: Vec<String>,
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    /// A copy of the destination before the run.
    old: PathBuf,
    plan: FaultPlan,
    inplace: bool,
    /// Uses a real sshd, through the command `ssh`.
    server: bool,
    ssh: String,
}

impl CampaignJob {
    /// A random job with the destination `dst` in the directory of the round.
    pub(crate) fn new(round: &mut Round, wanted: &JobLimits) -> Self {
        let to = round.join("dst");
        Self::into(round, wanted, to)
    }

    /// A random job with the destination `to`.
    pub(crate) fn into(round: &mut Round, wanted: &JobLimits, to: PathBuf) -> Self {
        let from = round.tree("src", wanted.shape);
        let key = round.random.next_u64();
        if wanted.large > 0 {
            let len = round.random.between((4 << 20) + 1, wanted.large);
            content::write_file(&from.join("large"), key, len);
        }
        let old = round.join("old");
        let has_old = wanted.old && round.one_in(2);
        if has_old {
            let count = round.random.between(1, 8);
            round.changed(&from, "old", wanted.shape, count);
            if wanted.large > 0 && old.join("large").is_file() {
                change_some(round, &old.join("large"));
            }
            duplicate(&old, &to);
        } else {
            fs::create_dir(&old).unwrap();
        }
        let way = round.pick(wanted.ways);
        let mut options: Vec<String> = vec!["--json".to_owned()];
        let inplace = wanted.inplace && has_old && round.one_in(4);
        if inplace {
            options.push("--inplace".to_owned());
        }
        let further: &[&[&str]] = &[
            &[],
            &[],
            &["--verify", "disk"],
            &["--max-memory", "32M"],
            &["--delta", "on"],
            &["--delta", "off"],
            &["-c"],
            &["--atomic"],
        ];
        options.extend(round.pick(further).iter().map(|word| (*word).to_owned()));
        if way != JobPlaces::Local {
            let streams = round.pick(&["1", "2", "4"]);
            let compress = round.pick(&["none", "lz4", "zstd", "auto"]);
            options.extend(["--streams", streams, "--compress", compress].map(str::to_owned));
        }
        let server = way != JobPlaces::Local && wanted.server && round.one_in(3);
        let ssh = if server { round.world.ssh() } else { String::new() };
        if way != JobPlaces::Local && !server {
            // The remote shell of a plan has no address for direct connections.
            options.extend(["--transport", "ssh"].map(str::to_owned));
        }
        let word = if has_old || round.one_in(2) { "sync" } else { "copy" };
        let plan = FaultPlan::new(round.join("plan"));
        let mut job = Self { way, word, options, from, to, old, plan: plan.clone(), inplace, server, ssh };
        job.set_plan(plan);
        job
    }

    /// Adds options.
    pub(crate) fn with(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|word| (*word).to_owned()));
        self
    }

    /// Sets the faults of its connections.
    pub(crate) fn set_plan(&mut self, plan: FaultPlan) {
        self.plan = if self.server { plan.through(self.ssh.clone()) } else { plan };
    }

    /// Restores the destination to its state before the run.
    pub(crate) fn start_over(&self) {
        if self.to.exists() {
            fs::remove_dir_all(&self.to).unwrap();
        }
        if fs::read_dir(&self.old).unwrap().next().is_some() {
            duplicate(&self.old, &self.to);
        }
    }

    /// Approximate bytes of content for each connection.
    pub(crate) fn each_connection(&self) -> u64 {
        let at = self.options.iter().position(|word| word == "--streams");
        let streams = at.and_then(|at| self.options.get(at + 1)?.parse().ok()).unwrap_or(1);
        haul_testkit::tree::content_len(&self.from) / streams
    }

    /// The arguments of haul, with the faults of `plan`.
    pub(crate) fn words(&self, round: &Round, plan: &FaultPlan) -> Vec<OsString> {
        plan.restart();
        let mut words: Vec<OsString> = vec![self.word.into()];
        words.extend(self.options.iter().map(OsString::from));
        if self.way != JobPlaces::Local {
            let this = std::env::current_exe().unwrap();
            let shell = format!("{} {FAULT_SHELL} {}", this.display(), plan.dir().display());
            words.extend([
                "-e".into(),
                shell.into(),
                "--remote-haul".into(),
                round.world.haul.clone().into(),
            ]);
        }
        let remote = |path: &Path| joined(&[REMOTE.as_bytes(), b":", slash(path).as_bytes()]);
        words.push(if self.way == JobPlaces::Pull { remote(&self.from) } else { slash(&self.from) });
        words.push(if self.way == JobPlaces::Push { remote(&self.to) } else { slash(&self.to) });
        words
    }

    /// The command with its faults.
    pub(crate) fn run(&self, round: &Round) -> CommandRun {
        round.program(&round.world.haul).args(self.words(round, &self.plan))
    }

    /// The command, started by another program with these arguments.
    pub(crate) fn run_by(&self, round: &Round, program: &str, words: &[&str]) -> CommandRun {
        let run = round.program(Path::new(program)).args(words).arg(&round.world.haul);
        run.args(self.words(round, &self.plan))
    }

    /// The number of bytes that the plan has flipped.
    pub(crate) fn flipped(&self) -> u64 {
        self.plan.flipped()
    }

    /// Checks the content under every final name, during or after a fault. Returns whether all are correct.
    pub(crate) fn check_names(&self, round: &mut Round, when: &str) -> bool {
        let names = AllowedContent { from: &self.from, old: &self.old, to: &self.to, inplace: self.inplace };
        let found = names.wrong();
        for name in &found {
            round.wrong(format!("{when}, {name} [{}]", self.line()));
        }
        found.is_empty()
    }

    /// After exit code 0 the trees must be equal.
    pub(crate) fn check_success(&self, round: &mut Round, run: &Finished) {
        if run.code() == Some(0) {
            let differ = equal(&self.from, &self.to, &Care::default());
            if let Some(differ) = differ {
                round.wrong(format!("exit code 0, but {differ} [{}]", self.line()));
            }
        }
    }

    /// The same command without faults must end with exit code 0, equal trees and no staging files.
    pub(crate) fn check_rerun(&self, round: &mut Round) {
        if round.has_failed() {
            return;
        }
        let mut plan = FaultPlan::new(round.join("no-faults"));
        if self.server {
            plan = plan.through(self.ssh.clone());
        }
        let run = round.program(&round.world.haul).args(self.words(round, &plan)).finish();
        round.ran();
        if run.code() == Some(0) {
            self.check_success(round, &run);
        } else {
            round.lost(format!("the same command without faults did not end with exit code 0: {run}"));
        }
        if let Some(left) = staging_name(&self.to) {
            round.lost(format!("staging file {left:?} exists after exit code 0 [{}]", self.line()));
        }
    }

    /// The command in short, for messages.
    pub(crate) fn line(&self) -> String {
        format!("{:?} {} {}", self.way, self.word, self.options.join(" "))
    }
}

/// Overwrites some bytes of a file and changes its times.
fn change_some(round: &mut Round, path: &Path) {
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    let len = file.metadata().unwrap().len();
    for _ in 0..round.random.between(1, 20) {
        let at = round.random.between(0, len);
        file.write_all_at(&round.random.next_u64().to_le_bytes(), at).unwrap();
    }
    file.set_len(len.max(1) - round.random.between(0, len.min(2))).unwrap();
    drop(file);
    haul_testkit::tree::set_time(path, 1_500_000_000, 0);
}

/// A staging name of haul in the tree.
fn staging_name(root: &Path) -> Option<PathBuf> {
    let staged = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".haul"));
    haul_testkit::tree::list(root).into_iter().find(staged)
}

/// The path with a trailing slash.
pub(crate) fn slash(path: &Path) -> OsString {
    joined(&[path.as_os_str().as_bytes(), b"/"])
}
