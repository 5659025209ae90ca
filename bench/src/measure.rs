//! CPU time of the processes of one host, and peak memory of the largest.
//!
//! With cgroup v2 the CPU time is that of the cgroup and includes every process. Without, it is the sum of the last
//! samples of each process in `/proc`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde::Serialize;

use crate::kill::kill;
use crate::leftovers::{CGROUP_PREFIX, sweep_cgroups};

/// One of so many samples includes the processes of ssh: there may be many of them, and each read of `/proc` takes CPU
/// time from the measured programs.
const SSH_EVERY: u32 = 10;

/// A cgroup with one child per side. Removed on drop.
pub(crate) struct Cgroups {
    top: PathBuf,
}

impl Cgroups {
    /// Creates the cgroups if cgroup v2 is mounted.
    pub(crate) fn new() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let mount = mounts
            .lines()
            .find_map(|line| {
                let mut fields = line.split(' ').skip(1);
                let path = fields.next()?;
                (fields.next()? == "cgroup2").then(|| PathBuf::from(path))
            })
            .context("cgroup v2 is not mounted")?;
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let name = format!("{CGROUP_PREFIX}{}", std::process::id());
        // In the current cgroup, or at the top if it cannot have children.
        let places = [mount.join(own), mount.clone()];
        let mut problem = None;
        for place in places {
            sweep_cgroups(&place);
            let this = Self { top: place.join(&name) };
            match this.make() {
                Ok(()) => return Ok(this),
                Err(error) => problem = Some(error),
            }
        }
        Err(problem.map_or_else(|| anyhow::anyhow!("no place for a cgroup"), anyhow::Error::from))
    }

    fn make(&self) -> std::io::Result<()> {
        fs::create_dir(&self.top)?;
        for side in ["near", "far"] {
            fs::create_dir(self.top.join(side))?;
            fs::metadata(self.top.join(side).join("cpu.stat"))?;
        }
        Ok(())
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for path in [self.top.join("near"), self.top.join("far"), self.top.clone()] {
            // The last process may take a moment to end.
            for _ in 0..50 {
                if fs::remove_dir(&path).is_ok() || !path.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// All processes of one host. Killed on drop.
pub(crate) struct HostProcesses {
    cgroup: Option<PathBuf>,
    roots: RefCell<Vec<u32>>,
}

impl HostProcesses {
    /// The side with this name, measured by its cgroup if there is one.
    pub(crate) fn new(cgroups: Option<&Cgroups>, name: &str) -> Self {
        Self { cgroup: cgroups.map(|groups| groups.top.join(name)), roots: RefCell::default() }
    }

    /// The file that moves a process to the cgroup.
    pub(crate) fn entrance(&self) -> Option<std::io::Result<File>> {
        let group = self.cgroup.as_ref()?;
        Some(OpenOptions::new().write(true).open(group.join("cgroup.procs")))
    }

    /// Adds a process whose descendants belong to this side.
    pub(crate) fn add_root(&self, pid: u32) {
        self.roots.borrow_mut().push(pid);
    }

    /// The running processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match &self.cgroup {
            Some(group) => {
                let list = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
                list.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid != 0).collect()
            }
            None => descendants(&self.roots.borrow()),
        }
    }

    /// Waits until only `except` is left. Returns `false` on timeout.
    pub(crate) fn wait_quiet(&self, except: Option<u32>, limit: Duration) -> bool {
        let start = Instant::now();
        loop {
            if self.pids().into_iter().all(|pid| Some(pid) == except) {
                return true;
            }
            if start.elapsed() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills all processes but `except`.
    pub(crate) fn kill_all(&self, except: Option<u32>) {
        for _ in 0..100 {
            let pids: Vec<u32> = self.pids().into_iter().filter(|pid| Some(*pid) != except).collect();
            if pids.is_empty() {
                break;
            }
            for pid in pids {
                kill(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.roots.borrow_mut().retain(|pid| Some(*pid) == except);
    }

    /// User and system seconds of all processes so far.
    fn cpu(&self) -> Option<(f64, f64)> {
        let text = fs::read_to_string(self.cgroup.as_ref()?.join("cpu.stat")).ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse::<f64>().ok()
        };
        Some((field("user_usec ")? / 1e6, field("system_usec ")? / 1e6))
    }
}

impl Drop for HostProcesses {
    fn drop(&mut self) {
        self.kill_all(None);
    }
}

/// Resources that one side used in one run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Usage {
    /// CPU seconds in user mode, of all processes.
    pub(crate) user_seconds: f64,
    /// CPU seconds in the kernel, of all processes.
    pub(crate) system_seconds: f64,
    /// Out of both, those of ssh or sshd; sampled, so a little less than true.
    pub(crate) ssh_seconds: f64,
    /// Peak memory of the largest process of the tool, in bytes.
    pub(crate) tool_rss: u64,
    /// Peak memory of the largest ssh or sshd, in bytes.
    pub(crate) ssh_rss: u64,
    /// The most processes at one time, those of ssh included.
    pub(crate) processes: usize,
}

impl Usage {
    /// All CPU seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

/// Samples the processes of a side during a run.
pub(crate) struct ProcessWatch<'a> {
    side: &'a HostProcesses,
    cpu: Option<(f64, f64)>,
    seen: HashMap<u32, SeenProcess>,
    usage: Usage,
    samples: u32,
}

#[derive(Default)]
struct SeenProcess {
    ssh: bool,
    /// Seconds in user and kernel mode before the run.
    before: (f64, f64),
    now: (f64, f64),
}

impl<'a> ProcessWatch<'a> {
    /// Starts with a run. Earlier usage of running processes does not count.
    pub(crate) fn start(side: &'a HostProcesses) -> Self {
        let old = side.pids().into_iter().map(|pid| {
            let times = cpu_of(pid).unwrap_or_default();
            (pid, SeenProcess { ssh: true, before: times, now: times })
        });
        Self { side, cpu: side.cpu(), seen: old.collect(), usage: Usage::default(), samples: 0 }
    }

    /// Takes one sample.
    pub(crate) fn sample(&mut self) {
        let all = self.cpu.is_none() || self.samples.is_multiple_of(SSH_EVERY);
        self.samples += 1;
        let pids = self.side.pids();
        self.usage.processes = self.usage.processes.max(pids.len());
        for pid in pids {
            let seen = self.seen.entry(pid).or_default();
            if seen.ssh && !all {
                continue;
            }
            let Some((name, peak)) = memory_of(pid) else {
                continue;
            };
            seen.ssh = name.starts_with("ssh");
            match name.as_str() {
                // Shells, and the process before exec.
                "haul-bench" | "bash" | "sh" | "dash" => {}
                _ if seen.ssh => self.usage.ssh_rss = self.usage.ssh_rss.max(peak),
                _ => self.usage.tool_rss = self.usage.tool_rss.max(peak),
            }
            if (seen.ssh || self.cpu.is_none())
                && let Some(times) = cpu_of(pid)
            {
                seen.now = times;
            }
        }
    }

    /// The resources used since the start.
    pub(crate) fn finish(mut self) -> Usage {
        let since = |seen: &SeenProcess| (seen.now.0 - seen.before.0, seen.now.1 - seen.before.1);
        let ssh = self.seen.values().filter(|seen| seen.ssh).map(since);
        self.usage.ssh_seconds = ssh.fold(0.0, |sum, (user, system)| sum + user + system);
        let (user, system) = match (self.cpu, self.side.cpu()) {
            (Some(before), Some(now)) => (now.0 - before.0, now.1 - before.1),
            _ => self.seen.values().map(since).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1)),
        };
        self.usage.user_seconds = user;
        self.usage.system_seconds = system;
        self.usage
    }
}

/// Name and peak memory of a process.
fn memory_of(pid: u32) -> Option<(String, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let peak = field("VmHWM:")?.trim_end_matches("kB").trim().parse::<u64>().ok()?;
    Some((field("Name:")?.to_owned(), peak * 1024))
}

/// The fields of `/proc/PID/stat` from the third on.
fn stat_fields(pid: u32) -> Option<Vec<u64>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in parentheses, which may contain anything.
    let (_, fields) = text.rsplit_once(") ")?;
    Some(fields.split(' ').map(|field| field.trim().parse().unwrap_or(0)).collect())
}

/// Seconds in user and kernel mode.
fn cpu_of(pid: u32) -> Option<(f64, f64)> {
    let fields = stat_fields(pid)?;
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    Some((*fields.get(11)? as f64 / ticks, *fields.get(12)? as f64 / ticks))
}

fn descendants(roots: &[u32]) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir(Path::new("/proc")).into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(parent) = stat_fields(pid).and_then(|fields| fields.get(1).copied()) {
            children.entry(parent as u32).or_default().push(pid);
        }
    }
    let mut found: Vec<u32> =
        roots.iter().copied().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).collect();
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let more = children.remove(pid).unwrap_or_default();
        found.extend(more.into_iter().filter(|pid| !roots.contains(pid)));
        next += 1;
    }
    found
}
