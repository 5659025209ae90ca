//! The small files that a crash may have damaged after a run with `--no-fsync`.
//!
//! Such a run leaves a record in the user's state directory before it renames the first small file into place: the boot
//! of this machine, and when the run began and ended. A later run that finds a record of another boot does not trust
//! small files that were last changed in that time. It copies them again, which gives them a later change time. A later
//! run of the same boot that syncs the file system removes the record.
//!
//! Large files and files with holes are synced before they are renamed into place, with `--no-fsync` too.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, Statx};

use crate::path::stat::Device;
use crate::stage::mark;

/// The directory of the records, in haul's state directory.
const DIRECTORY: &str = "unsynced";
/// The most records of ended runs that are kept; more are joined into one.
const MAX_RECORDS: usize = 64;
/// The end of a run that is running, or was killed.
const OPEN_END: i64 = i64::MAX;
/// How far the clock of a file system may be behind this machine, in nanoseconds: some keep whole seconds.
const SLACK: i64 = 2_000_000_000;

/// One run without syncs on one file system. The file name holds all of it; times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnsyncedRun {
    boot: u128,
    since: i64,
    until: i64,
    device: Device,
}

impl UnsyncedRun {
    fn name(&self) -> String {
        let (major, minor) = self.device;
        format!("{:032x}-{}-{}-{major}-{minor}", self.boot, self.since, self.until)
    }

    fn parse(name: &str) -> Option<Self> {
        let mut words = name.split('-');
        let record = Self {
            boot: u128::from_str_radix(words.next()?, 16).ok()?,
            since: words.next()?.parse().ok()?,
            until: words.next()?.parse().ok()?,
            device: (words.next()?.parse().ok()?, words.next()?.parse().ok()?),
        };
        words.next().is_none().then_some(record)
    }
}

/// The records of a user on this machine, as one run finds them.
pub(crate) struct Unsynced {
    /// The directory of the records, or why there is none.
    directory: Result<PathBuf, String>,
    boot: u128,
    /// When this run began.
    began: i64,
    /// The records of earlier runs.
    found: Vec<UnsyncedRun>,
    /// The records of those runs of this boot that were over when this run began.
    over: Vec<UnsyncedRun>,
    /// The records of this run, locked; `None` if one could not be left.
    own: Mutex<HashMap<Device, Option<(UnsyncedRun, File)>>>,
}

impl Unsynced {
    /// The records of the user that this process runs as.
    pub(crate) fn of_this_user() -> Self {
        let directory = haul_state::directory(DIRECTORY).map_err(|error| error.to_string());
        Self::new(directory, u128::from_be_bytes(mark::boot()), boot_time())
    }

    /// No records.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Self {
        Self::new(Err("there is no directory".to_owned()), 1, now())
    }

    /// For a boot with the given identifier and time.
    fn new(directory: Result<PathBuf, String>, boot: u128, booted: i64) -> Self {
        let mut found = directory.as_deref().map(records).unwrap_or_default();
        let is_over = |record: &&UnsyncedRun| {
            let is_ended =
                || record.until != OPEN_END || directory.as_deref().is_ok_and(|at| is_dead(at, record));
            !is_of_another(boot, record) && is_ended()
        };
        let over = found.iter().filter(is_over).copied().collect();
        for record in &mut found {
            // A run that a crash ended was over before this boot.
            if is_of_another(boot, record) && record.until == OPEN_END {
                record.until = booted.saturating_add(SLACK);
            }
        }
        Self { directory, boot, began: now().saturating_sub(SLACK), found, over, own: Mutex::default() }
    }

    /// Whether a small file of the right size and time may lack content.
    pub(crate) fn is_suspect(&self, file: &Statx) -> bool {
        let seconds = file.stx_ctime.tv_sec.saturating_mul(1_000_000_000);
        let changed = seconds.saturating_add(i64::from(file.stx_ctime.tv_nsec));
        let covers = |record: &UnsyncedRun| (record.since..=record.until).contains(&changed);
        self.found.iter().any(|record| is_of_another(self.boot, record) && covers(record))
    }

    /// Leaves a durable record, before a small file on `device` is renamed into place without a sync.
    ///
    /// # Errors
    /// The cause if the record cannot be left, once for each file system.
    pub(crate) fn begin(&self, device: Device) -> Result<(), String> {
        let mut own = self.own.lock();
        if own.contains_key(&device) {
            return Ok(());
        }
        own.insert(device, None);
        let directory = self.directory.as_deref().map_err(Clone::clone)?;
        let record = UnsyncedRun { boot: self.boot, since: self.began, until: OPEN_END, device };
        let left = haul_state::make(directory).and_then(|()| leave(directory, &record));
        let file = left.map_err(|error| format!("{}: {error}", directory.display()))?;
        own.insert(device, Some((record, file)));
        Ok(())
    }

    /// Records the end of this run, and of runs that a crash ended. Removes the records of ended runs of this boot
    /// whose file system is synced by now.
    pub(crate) fn finish(&self, is_synced: impl Fn(Device) -> bool) {
        let Ok(directory) = &self.directory else { return };
        // If a record cannot be renamed, some files are copied again without need.
        for (record, _locked) in self.own.lock().drain().filter_map(|(_, record)| record) {
            let ended = UnsyncedRun { until: now().saturating_add(SLACK), ..record };
            let _ = fs::rename(directory.join(record.name()), directory.join(ended.name()));
        }
        for record in self.found.iter().filter(|record| is_of_another(self.boot, record)) {
            let open = UnsyncedRun { until: OPEN_END, ..*record };
            let _ = fs::rename(directory.join(open.name()), directory.join(record.name()));
        }
        for record in self.over.iter().filter(|record| is_synced(record.device)) {
            let _ = fs::remove_file(directory.join(record.name()));
        }
        // The end of a run that is running, or was killed in this boot, is not known yet.
        let mut left = records(directory);
        left.retain(|record| record.until != OPEN_END);
        if left.len() > MAX_RECORDS {
            let _ = join(directory, &left);
        }
    }
}

/// Zeros mean several boots, or an unknown one.
fn is_of_another(boot: u128, record: &UnsyncedRun) -> bool {
    record.boot != boot || boot == 0
}

fn records(directory: &Path) -> Vec<UnsyncedRun> {
    let Ok(names) = fs::read_dir(directory) else { return Vec::new() };
    names.filter_map(|name| UnsyncedRun::parse(name.ok()?.file_name().to_str()?)).collect()
}

/// Whether the run of a record has ended without a word: a running one holds the lock of its record.
fn is_dead(directory: &Path, record: &UnsyncedRun) -> bool {
    let locks = |file: File| rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
    File::open(directory.join(record.name())).is_ok_and(locks)
}

/// Makes a durable record. Its run holds it locked as long as it runs.
fn leave(directory: &Path, record: &UnsyncedRun) -> io::Result<File> {
    // Under another name until it is locked: without the lock its run would count as dead.
    let unlocked = directory.join(format!(".{}", record.name()));
    let file = File::create(&unlocked)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    fs::rename(&unlocked, directory.join(record.name()))?;
    File::open(directory)?.sync_all()?;
    Ok(file)
}

/// Replaces records of runs that have ended by one, which counts in each boot.
fn join(directory: &Path, records: &[UnsyncedRun]) -> io::Result<()> {
    let since = records.iter().map(|record| record.since).min().unwrap_or_default();
    let until = records.iter().map(|record| record.until).max().unwrap_or_default();
    let joined = UnsyncedRun { boot: 0, since, until, device: (0, 0) };
    leave(directory, &joined)?;
    for record in records.iter().filter(|record| **record != joined) {
        fs::remove_file(directory.join(record.name()))?;
    }
    Ok(())
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// When this machine was booted (`proc_stat(5)`); now if that is unknown.
fn boot_time() -> i64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let seconds = text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<i64>().ok());
    seconds.map_or_else(now, |seconds| seconds.saturating_mul(1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::stat;

    const HOUR: i64 = 3_600_000_000_000;
    const HERE: Device = (8, 1);

    struct UnsyncedScene {
        scratch: tempfile::TempDir,
        file: PathBuf,
    }

    impl UnsyncedScene {
        /// A file written by a run of boot 1.
        fn new() -> (Self, Unsynced) {
            let scratch = tempfile::tempdir().unwrap();
            let scene = Self { file: scratch.path().join("file"), scratch };
            let run = scene.run(1, -HOUR);
            run.begin(HERE).unwrap();
            fs::write(&scene.file, "content").unwrap();
            (scene, run)
        }

        /// A run in a boot that began `from_now`.
        fn run(&self, boot: u128, from_now: i64) -> Unsynced {
            Unsynced::new(Ok(self.directory()), boot, now() + from_now)
        }

        fn directory(&self) -> PathBuf {
            self.scratch.path().join("state/haul/unsynced")
        }

        fn suspects(&self, run: &Unsynced) -> bool {
            run.is_suspect(&stat::statx_file(File::open(&self.file).unwrap()).unwrap())
        }
    }

    #[test]
    fn a_file_is_suspect_in_another_boot_only() {
        let (scene, run) = UnsyncedScene::new();
        assert!(!scene.suspects(&scene.run(1, -HOUR)), "the same boot");
        assert!(scene.suspects(&scene.run(2, HOUR)), "killed by the crash");
        assert!(scene.suspects(&scene.run(0, HOUR)), "in a boot without a number");
        run.finish(|_| false);
        assert!(!scene.suspects(&scene.run(1, -HOUR)));
        assert!(scene.suspects(&scene.run(2, HOUR)), "at its end before the crash");
    }

    #[test]
    fn a_file_written_after_the_crash_is_not_suspect() {
        let (scene, _killed) = UnsyncedScene::new();
        let next = scene.run(2, -HOUR);
        assert!(!scene.suspects(&next), "the boot began before the file was written");
        // It records the end of the killed run: a third boot does not suspect the file.
        next.finish(|_| true);
        assert!(!scene.suspects(&scene.run(3, HOUR)));
    }

    #[test]
    fn a_run_that_syncs_removes_the_record() {
        let (scene, run) = UnsyncedScene::new();
        let count = || records(&scene.directory()).len();
        scene.run(1, -HOUR).finish(|_| true);
        assert_eq!(count(), 1, "the run without syncs goes on");
        run.finish(|_| false);
        scene.run(1, -HOUR).finish(|device| device != HERE);
        assert_eq!(count(), 1, "another file system was synced");
        scene.run(2, HOUR).finish(|_| true);
        assert_eq!(count(), 1, "a crash came before the sync");
        scene.run(1, -HOUR).finish(|_| true);
        assert_eq!(count(), 0);
        assert!(!scene.suspects(&scene.run(2, HOUR)));
    }

    #[test]
    fn a_killed_run_is_over_when_a_later_run_begins_and_not_before() {
        let (scene, run) = UnsyncedScene::new();
        let count = || records(&scene.directory()).len();
        let beside = scene.run(1, -HOUR);
        drop(run);
        beside.finish(|_| true);
        assert_eq!(count(), 1, "it may have written after the sync");
        assert!(scene.suspects(&scene.run(2, HOUR)));
        scene.run(1, -HOUR).finish(|_| false);
        assert_eq!(count(), 1, "nothing was synced");
        scene.run(1, -HOUR).finish(|_| true);
        assert_eq!(count(), 0);
    }

    #[test]
    fn many_records_are_joined() {
        let (scene, first) = UnsyncedScene::new();
        first.finish(|_| false);
        for boot in 2..100 {
            let run = scene.run(boot, -HOUR);
            run.begin(HERE).unwrap();
            run.finish(|_| false);
            assert!(records(&scene.directory()).len() <= MAX_RECORDS);
        }
        assert!(scene.suspects(&scene.run(1, -HOUR)), "joined records count in each boot");
    }

    #[test]
    fn the_record_of_a_running_run_is_not_joined() {
        let (scene, _running) = UnsyncedScene::new();
        for _ in 0..=MAX_RECORDS {
            let run = scene.run(1, -HOUR);
            run.begin(HERE).unwrap();
            run.finish(|_| false);
        }
        let (open, joined): (Vec<_>, Vec<_>) =
            records(&scene.directory()).into_iter().partition(|record| record.until == OPEN_END);
        assert_eq!((open.len(), joined.len()), (1, 1));
        assert_eq!((open[0].boot, joined[0].boot), (1, 0));
    }

    #[test]
    fn a_record_that_cannot_be_left_is_reported_once() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        fs::write(&file, "").unwrap();
        for directory in [Err("HOME is not set".to_owned()), Ok(file)] {
            let run = Unsynced::new(directory, 1, now());
            assert!(run.begin(HERE).is_err());
            assert_eq!(run.begin(HERE), Ok(()));
            run.finish(|_| true);
        }
    }

    #[test]
    fn a_file_name_holds_a_whole_record() {
        for record in [
            UnsyncedRun { boot: u128::MAX, since: 0, until: OPEN_END, device: (u32::MAX, 0) },
            UnsyncedRun { boot: 0, since: 1_700_000_000_000_000_000, until: 1, device: (8, 17) },
        ] {
            assert_eq!(UnsyncedRun::parse(&record.name()), Some(record));
        }
        for name in ["", "-", "1-2-3-4", "1-2-3-4-5-6", "x-2-3-4-5", "1--2-3-4-5"] {
            assert_eq!(UnsyncedRun::parse(name), None, "{name}");
        }
    }
}
