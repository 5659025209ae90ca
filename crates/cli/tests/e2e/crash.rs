//! Shared parts of the tests on a failing disk: a source, an older version of it, a destination on the disk, and checks
//! by programs other than haul.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::tree::list;
use haul_testkit::{
    CommandRun, CrashDisk, FileSystem, Finished, Need, Random, SshdOptions, TestTree, differences,
};
use serde_json::Value;

use crate::scene::{HAUL, Scene, Way, slash};

/// The needs of a test on such a disk.
pub(crate) const NEEDS: &[Need] = &[
    Need::Root,
    Need::Fuse,
    Need::LoopMounts,
    Need::Program("mkfs.ext4"),
    Need::Program("mkfs.xfs"),
    Need::Program("mkfs.btrfs"),
];

/// XFS takes no less. Blocks that are not written cost nothing.
const BYTES: u64 = 320 << 20;

/// The file systems that are tried: all three, or those that `CRASH_FS` names.
pub(crate) fn file_systems() -> Vec<FileSystem> {
    let wanted = std::env::var("CRASH_FS").unwrap_or_default().to_lowercase();
    let mut all = vec![FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];
    all.retain(|kind| wanted.is_empty() || wanted.contains(&format!("{kind:?}").to_lowercase()));
    all
}

/// The seeds of the rounds: `CRASH_ROUNDS` of them, or so many without it, from `CRASH_SEED` on.
pub(crate) fn seeds(rounds: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let first = number("CRASH_SEED").unwrap_or_else(Random::any_seed);
    first..first + number("CRASH_ROUNDS").unwrap_or(rounds)
}

/// The failures in many rounds. Fails on drop if there were any.
pub(crate) struct RoundFailures {
    name: String,
    pub(crate) rounds: u64,
    pub(crate) notes: Vec<(String, u64)>,
    wrong: Vec<String>,
}

impl RoundFailures {
    pub(crate) fn new(name: String) -> Self {
        Self { name, rounds: 0, notes: Vec::new(), wrong: Vec::new() }
    }

    /// Counts something that is worth to be told.
    pub(crate) fn note(&mut self, what: &str) {
        match self.notes.iter_mut().find(|(name, _)| name == what) {
            Some((_, count)) => *count += 1,
            None => self.notes.push((what.to_owned(), 1)),
        }
    }

    /// Ends a round.
    pub(crate) fn round(&mut self, seed: u64, result: Result<(), String>) {
        self.rounds += 1;
        if let Err(why) = result {
            let wrong = format!("{} with CRASH_SEED={seed} CRASH_ROUNDS=1: {why}", self.name);
            eprintln!("WRONG: {wrong}");
            self.wrong.push(wrong);
        }
    }

    /// Tells how it went.
    pub(crate) fn end(self) {
        let notes: String = self.notes.iter().map(|(name, count)| format!(", {name}: {count}")).collect();
        eprintln!("{}: {} rounds, {} wrong{notes}", self.name, self.rounds, self.wrong.len());
        assert!(self.wrong.is_empty(), "{} of {} rounds: {:#?}", self.wrong.len(), self.rounds, self.wrong);
    }
}

/// A source here and a destination on a disk that can fail.
pub(crate) struct CrashScene {
    // Dropped first: its processes use the disk.
    pub(crate) scene: Scene,
    pub(crate) disk: CrashDisk,
    pub(crate) source: TestTree,
    /// An older state of the source.
    pub(crate) old: PathBuf,
}

impl CrashScene {
    pub(crate) fn new(kind: FileSystem) -> Self {
        let disk = CrashDisk::new(kind, BYTES);
        let command = format!("{} sh -c \"$SSH_ORIGINAL_COMMAND\"", disk.booted().display());
        let scene = Scene::with_sshd(SshdOptions { force_command: Some(command), ..SshdOptions::default() });
        let source = scene.tree("src");
        for (number, mib) in [8, 12, 9, 24].into_iter().enumerate() {
            source.file(format!("large/{number}"), (mib << 20) + 321 * number as u64);
        }
        source.many("small", 24, 0..5000);
        source.many("middle", 12, 20_000..300_000);
        source.link("small/link", "../large/0");
        fs::hard_link(source.join("small/0000/0000003.txt"), source.join("large/linked")).unwrap();
        let old = scene.join("old");
        age(source.path(), &old);
        Self { scene, disk, source, old }
    }

    /// The destination.
    pub(crate) fn target(&self) -> PathBuf {
        self.disk.join("dst")
    }

    /// Puts the older state at the destination, with files that the source no longer has, as the start of a round.
    pub(crate) fn begin_with_the_old(&mut self) {
        tool(Command::new("cp").arg("-a").arg(&self.old).arg(self.target()));
        for number in 0..12 {
            fs::create_dir_all(self.target().join("gone")).unwrap();
            fs::write(self.target().join(format!("gone/{number}")), "gone").unwrap();
            fs::write(self.target().join(format!("small/gone-{number}")), "gone").unwrap();
        }
        self.disk.save();
    }

    /// `WORD --json -v OPTIONS SOURCE/ DESTINATION/`, as after the last boot.
    pub(crate) fn run(&self, way: Way, word: &str, options: &[&str]) -> CommandRun {
        self.run_from(self.source.path(), way, word, options)
    }

    pub(crate) fn run_from(&self, from: &Path, way: Way, word: &str, options: &[&str]) -> CommandRun {
        let home = self.scene.home();
        let mut run = CommandRun::new(self.disk.booted(), self.scene.tag())
            .env("HOME", &home)
            .env("XDG_RUNTIME_DIR", &home)
            .env("XDG_STATE_HOME", home.join("state"))
            .args([HAUL, word, "--json", "-v"]);
        let mut target = slash(&self.target());
        if way == Way::Push {
            run = run.args(["-e", &self.scene.sshd().shell(), "--remote-haul", HAUL]);
            target = self.scene.remote(&target);
        }
        run.args(options).arg(slash(from)).arg(target)
    }

    /// The differences between the source and the destination, by rsync.
    pub(crate) fn differs(&self) -> Result<(), String> {
        if !self.target().is_dir() {
            return Err("there is no destination".to_owned());
        }
        let found = differences(self.source.path(), &self.target());
        if found.is_empty() { Ok(()) } else { Err(format!("differs: {:?}", &found[..found.len().min(20)])) }
    }

    /// Fails if a file has its final name and neither the content of the source nor its earlier content. With
    /// `marked_last`, only files with the length and time of the source count: they must have its content.
    pub(crate) fn wrong_names(&self, had_old: bool, marked_last: bool) -> Result<(), String> {
        let target = self.target();
        let mut wrong = Vec::new();
        for path in list(&target) {
            let staged = path.components().any(|part| part.as_os_str().as_bytes().starts_with(b".haul"));
            let here = target.join(&path);
            let Ok(meta) = fs::symlink_metadata(&here) else { continue };
            if staged || !meta.is_file() || path.to_string_lossy().contains("gone") {
                continue;
            }
            let key = |meta: &fs::Metadata| (meta.len(), meta.mtime(), meta.mtime_nsec());
            let wanted = self.source.join(&path);
            let is_marked = fs::symlink_metadata(&wanted).is_ok_and(|wanted| key(&wanted) == key(&meta));
            let is_new = same_content(&here, &wanted);
            let is_old = had_old && same_content(&here, &self.old.join(&path));
            let right = if is_marked || !marked_last { is_new || (is_old && !is_marked) } else { true };
            if !right {
                wrong.push(format!("{path:?} (length {}, marked as complete: {is_marked})", meta.len()));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(format!("wrong content under a final name: {wrong:?}")) }
    }

    /// Fails if content that a run has told of as copied is neither under its final name nor staged.
    pub(crate) fn lost(&self, events: &[Value]) -> Result<(), String> {
        let target = self.target();
        let mut lost = Vec::new();
        for event in events {
            let copied = event["action"] == "copied" || event["action"] == "replaced";
            let Some(path) = event["path"].as_str().filter(|_| event["type"] == "entry" && copied) else {
                continue;
            };
            let wanted = self.source.join(path);
            let there = target.join(path);
            let directory = there.parent().unwrap_or(&target);
            let staged = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
            let mut staged = staged
                .filter(|path| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".haul")));
            if !same_content(&there, &wanted) && !staged.any(|staged| same_content(&staged, &wanted)) {
                lost.push(path);
            }
        }
        if lost.is_empty() { Ok(()) } else { Err(format!("told as copied, and lost: {lost:?}")) }
    }
}

/// Makes `old` an older state of `new`: other pages of large files, another content and time of some small ones, and
/// some that are not there yet.
fn age(new: &Path, old: &Path) {
    tool(Command::new("cp").arg("-a").arg(new).arg(old));
    let mut random = Random::new(9);
    for (number, path) in list(old).into_iter().enumerate() {
        let path = old.join(path);
        let meta = fs::symlink_metadata(&path).unwrap();
        if !meta.is_file() || number % 3 == 0 {
            continue;
        }
        if number % 5 == 0 && meta.nlink() == 1 {
            fs::remove_file(&path).unwrap();
            continue;
        }
        let file = File::options().write(true).open(&path).unwrap();
        for _ in 0..1 + meta.len() / (1 << 20) {
            let mut page = vec![0; 4096.min(usize::try_from(meta.len()).unwrap())];
            haul_testkit::content::fill(random.next_u64(), 0, &mut page);
            let at = random.between(0, meta.len() - page.len() as u64 + 1);
            file.write_all_at(&page, at / 4096 * 4096).unwrap();
        }
        haul_testkit::tree::set_time(&path, 1_600_000_000 + number as i64, 5);
    }
}

fn same_content(one: &Path, other: &Path) -> bool {
    let (Ok(mut one), Ok(mut other)) = (File::open(one), File::open(other)) else { return false };
    if one.metadata().unwrap().len() != other.metadata().unwrap().len() {
        return false;
    }
    let (mut left, mut right) = (vec![0; 1 << 18], vec![0; 1 << 18]);
    loop {
        // A file that cannot be read is not the same.
        let Ok(read) = one.read(&mut left) else { return false };
        if read == 0 {
            return true;
        }
        if other.read_exact(&mut right[..read]).is_err() || left[..read] != right[..read] {
            return false;
        }
    }
}

/// The lines of JSON that are complete.
pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// How a run ended, in short: its failures and its summary.
pub(crate) fn brief(run: &Finished) -> String {
    let events = lines(&run.out()).into_iter();
    let told =
        events.filter(|event| ["failed", "note", "summary"].iter().any(|kind| event["type"] == **kind));
    let told: Vec<String> = told.map(|event| event.to_string().chars().take(700).collect()).collect();
    let from = told.len().saturating_sub(6);
    format!("[{} after {:?}: {} {}]", run.status, run.took, told[from..].join("\n"), run.err())
}

/// The error unless the run exited with 0.
pub(crate) fn success(run: &Finished) -> Result<(), String> {
    if run.code() == Some(0) { Ok(()) } else { Err(format!("the next run: {}", brief(run))) }
}
