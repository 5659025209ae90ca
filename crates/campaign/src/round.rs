//! One round: its directory, its random numbers and its result.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_testkit::process::assert_all_gone;
use haul_testkit::{
    CommandRun, Finished, Random, RandomTrees, Scratch, Sshd, SshdOptions, TreeShape, duplicate,
};

/// State that all rounds share.
pub(crate) struct CampaignState {
    // Dropped before `scratch`, since its processes write there.
    sshd: OnceCell<Sshd>,
    pub(crate) haul: PathBuf,
    pub(crate) tag: String,
    scratch: Scratch,
}

impl CampaignState {
    pub(crate) fn new(haul: &Path) -> Self {
        let scratch = Scratch::new();
        Self {
            sshd: OnceCell::new(),
            haul: haul.to_owned(),
            tag: scratch.path().display().to_string(),
            scratch,
        }
    }

    /// The remote shell command for a real sshd on this machine.
    pub(crate) fn ssh(&self) -> String {
        self.sshd.get_or_init(|| Sshd::start(&self.tag, &SshdOptions::default())).shell()
    }
}

/// A problem that a round has found.
pub(crate) enum Problem {
    /// A final name with other content, or exit code 0 with different trees.
    Wrong(String),
    /// Any other broken promise.
    Lost(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(why) => write!(f, "wrong result: {why}"),
            Self::Lost(why) => write!(f, "lost promise: {why}"),
        }
    }
}

/// The result of a round.
#[derive(Default)]
pub(crate) struct RoundResult {
    pub(crate) faults: u64,
    pub(crate) runs: u64,
    pub(crate) problems: Vec<Problem>,
    pub(crate) notes: BTreeMap<&'static str, u64>,
}

/// A running round.
pub(crate) struct Round<'a> {
    pub(crate) world: &'a CampaignState,
    pub(crate) random: Random,
    scratch: Scratch,
    result: RoundResult,
    keep: bool,
}

/// A run that takes longer has hung.
const LIMIT: Duration = Duration::from_secs(90);

impl<'a> Round<'a> {
    pub(crate) fn new(world: &'a CampaignState, seed: u64, keep: bool) -> Self {
        let scratch = Scratch::inside(world.scratch.path());
        fs::create_dir(scratch.join("home")).unwrap();
        Self { world, random: Random::new(seed), scratch, result: RoundResult::default(), keep }
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    pub(crate) fn path(&self) -> &Path {
        self.scratch.path()
    }

    pub(crate) fn below(&mut self, high: u64) -> u64 {
        self.random.between(0, high)
    }

    pub(crate) fn one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }

    /// A random tree at `name`.
    pub(crate) fn tree(&mut self, name: &str, shape: TreeShape) -> PathBuf {
        let root = self.join(name);
        RandomTrees::new(self.random.next_u64(), shape).fill(&root);
        root
    }

    /// A copy of the tree `from` at `name`, with `count` random changes.
    pub(crate) fn changed(&mut self, from: &Path, name: &str, shape: TreeShape, count: u64) -> PathBuf {
        let root = self.join(name);
        duplicate(from, &root);
        RandomTrees::new(self.random.next_u64(), shape).mutate(&root, count);
        root
    }

    /// A run of haul with an empty environment.
    pub(crate) fn haul(&self, word: &str) -> CommandRun {
        self.program(&self.world.haul).arg(word)
    }

    /// A run of a program that runs haul, with an empty environment.
    pub(crate) fn program(&self, program: &Path) -> CommandRun {
        CommandRun::new(program, &self.world.tag)
            .env("HOME", self.join("home"))
            .env("XDG_RUNTIME_DIR", self.join("home"))
            .env("XDG_STATE_HOME", self.join("home"))
            .limit(LIMIT)
    }

    pub(crate) fn fault(&mut self, count: u64) {
        self.result.faults += count;
    }

    pub(crate) fn ran(&mut self) {
        self.result.runs += 1;
    }

    pub(crate) fn note(&mut self, what: &'static str, count: u64) {
        *self.result.notes.entry(what).or_default() += count;
    }

    pub(crate) fn wrong(&mut self, why: impl Into<String>) {
        self.result.problems.push(Problem::Wrong(why.into()));
    }

    pub(crate) fn lost(&mut self, why: impl Into<String>) {
        self.result.problems.push(Problem::Lost(why.into()));
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.result.problems.is_empty()
    }

    /// Checks that a disturbed run ended with a documented exit code, or by a signal that was sent.
    pub(crate) fn expect_documented(&mut self, run: &Finished, sent: &[i32]) {
        use std::os::unix::process::ExitStatusExt;
        self.ran();
        let documented = matches!(run.code(), Some(0 | 1 | 3 | 4 | 5 | 130));
        let by_signal = run.status.signal().is_some_and(|signal| sent.contains(&signal))
            || run.code().is_some_and(|code| sent.contains(&(code - 128)));
        if !documented && !by_signal {
            self.lost(format!("ended with an undocumented exit code or signal: {run}"));
        }
    }

    /// Waits until all processes of the round have ended.
    pub(crate) fn all_gone(&self) {
        assert_all_gone(&self.world.tag, Duration::from_secs(30));
    }

    /// The result. The directory of the round is removed, unless the round failed and `--keep` was given.
    pub(crate) fn end(self) -> RoundResult {
        if self.keep && self.has_failed() {
            // The directory of the campaign is removed as a whole.
            let path = self.scratch.path();
            let kept = std::env::temp_dir().join(path.file_name().unwrap_or_default());
            match fs::rename(path, &kept) {
                Ok(()) => eprintln!("kept: {}", kept.display()),
                Err(error) => eprintln!("cannot keep {}: {error}", path.display()),
            }
        }
        self.result
    }
}
