//! Being nice to what else this machine does: the lowest priority for this process, and what the kernel tells of
//! others that have to wait (PSI, see `Documentation/accounting/psi.rst` and `admin-guide/cgroup-v2.rst` of Linux).

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_core::pressure::Pressure;
use rustix::process::{Pid, getpriority_process, setpriority_process};

/// The lowest priority. As long as nobody sets another class, the kernel takes the I/O priority from it: best-effort,
/// level 7, the lowest (ioprio_set(2)).
const NICE: i32 = 19;
/// The least time that is measured.
const LEAST: Duration = Duration::from_millis(200);
/// Control groups that are looked at, at most.
const MAX_GROUPS: usize = 64;
/// Where control groups of version 2 are mounted, alone or beside version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// A process that is nice, and looks how others fare.
pub struct Nice {
    /// What was read last of each file: microseconds of waiting since the boot.
    before: HashMap<PathBuf, u64>,
    at: Instant,
    last: Option<Pressure>,
}

impl Nice {
    /// Gives all threads of this process, and those that they will start, the lowest priority.
    #[must_use]
    pub fn begin() -> Self {
        lower();
        let mut nice = Self { before: HashMap::new(), at: Instant::now(), last: None };
        // Nothing was read before, so this says nothing but whether the kernel tells.
        nice.last = nice.look();
        nice
    }

    /// What others waited since this was asked last; `None` if the kernel does not tell.
    pub fn pressure(&mut self) -> Option<Pressure> {
        // In less time there is nothing to measure.
        if self.at.elapsed() >= LEAST {
            self.last = self.look();
        }
        self.last
    }

    fn look(&mut self) -> Option<Pressure> {
        let elapsed = self.at.elapsed().as_micros();
        self.at = Instant::now();
        let own = own_group();
        let groups = own.as_ref().map(|(mount, path)| others(mount, path)).unwrap_or_default();
        let mut pressure = Pressure { io: 0, cpu: 0, own: groups.is_empty() };
        let files: Vec<[PathBuf; 2]> = if groups.is_empty() {
            vec![["/proc/pressure/io".into(), "/proc/pressure/cpu".into()]]
        } else {
            groups.iter().map(|group| [group.join("io.pressure"), group.join("cpu.pressure")]).collect()
        };
        let mut now = HashMap::new();
        for [io, cpu] in files {
            for (file, worst) in [(io, &mut pressure.io), (cpu, &mut pressure.cpu)] {
                let Some(total) = fs::read_to_string(&file).ok().as_deref().and_then(some_total) else {
                    continue;
                };
                let waited = self.before.get(&file).map_or(0, |before| total.saturating_sub(*before));
                let share = u128::from(waited) * 1000 / elapsed.max(1);
                *worst = (*worst).max(u16::try_from(share).unwrap_or(1000).min(1000));
                now.insert(file, total);
            }
        }
        self.before = now;
        (!self.before.is_empty()).then_some(pressure)
    }
}

/// Every thread has a priority of its own; a new one takes that of the thread that starts it.
fn lower() {
    for _ in 0..3 {
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let pids = tasks.filter_map(|task| Pid::from_raw(task.file_name().to_str()?.parse().ok()?));
        let higher: Vec<Pid> =
            pids.filter(|pid| getpriority_process(Some(*pid)).is_ok_and(|nice| nice < NICE)).collect();
        if higher.is_empty() {
            return;
        }
        for pid in higher {
            // Only to raise it would take a privilege; a thread that has ended needs none.
            let _ = setpriority_process(Some(pid), NICE);
        }
    }
}

/// The control group of this process: where its tree is mounted, and its path in it.
fn own_group() -> Option<(PathBuf, PathBuf)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mount = MOUNTS.iter().map(Path::new).find(|mount| mount.join("cgroup.controllers").exists())?;
    // In a namespace of its own a group does not see those beside it.
    (!path.is_empty()).then(|| (mount.to_owned(), PathBuf::from(path)))
}

/// The groups beside the own one and beside each group that holds it: together all that is not ours.
fn others(mount: &Path, own: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut at = mount.to_owned();
    for name in own.components() {
        let names = fs::read_dir(&at).into_iter().flatten().flatten();
        let beside = names.filter(|entry| {
            entry.file_name() != name.as_os_str() && entry.file_type().is_ok_and(|kind| kind.is_dir())
        });
        found.extend(beside.map(|entry| entry.path()).filter(|path| path.join("io.pressure").exists()));
        at.push(name);
    }
    found.truncate(MAX_GROUPS);
    found
}

/// The microseconds of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn some_total(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let text = "some avg10=0.46 avg60=1.97 avg300=8.03 total=618843811\n\
                    full avg10=0.24 avg60=1.14 avg300=3.51 total=218430939\n";
        assert_eq!(some_total(text), Some(618_843_811));
        assert_eq!(some_total("full avg10=0.24 total=1\n"), None);
        assert_eq!(some_total("some total=x\n"), None);
    }

    #[test]
    fn others_are_the_groups_beside_the_own_one_at_each_level() {
        let scratch = tempfile::tempdir().unwrap();
        let group = |path: &str| {
            fs::create_dir_all(scratch.path().join(path)).unwrap();
            fs::write(scratch.path().join(path).join("io.pressure"), "").unwrap();
        };
        for path in [
            "system.slice",
            "system.slice/db",
            "user.slice",
            "user.slice/u1",
            "user.slice/u1/s1",
            "user.slice/u1/s2",
        ] {
            group(path);
        }
        fs::create_dir(scratch.path().join("threaded")).unwrap();
        let mut found = others(scratch.path(), Path::new("user.slice/u1/s1"));
        found.sort();
        assert_eq!(found, ["system.slice", "user.slice/u1/s2"].map(|path| scratch.path().join(path)));
    }
}
