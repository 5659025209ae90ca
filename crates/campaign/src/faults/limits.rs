//! Low resource limits.

use std::fs;
use std::path::PathBuf;

use crate::job::{CampaignJob, JobLimits};
use crate::round::Round;

/// Runs a job under a limit, then without.
fn limited(round: &mut Round, program: &str, words: &[&str], signals: &[i32]) {
    let job = CampaignJob::new(round, &JobLimits::default());
    let end = job.run_by(round, program, words).finish();
    round.expect_documented(&end, signals);
    round.fault(1);
    if end.code() != Some(0) {
        round.note("runs that did not end with exit code 0", 1);
    }
    round.all_gone();
    job.check_names(round, "under a limit");
    job.check_success(round, &end);
    job.check_rerun(round);
}

/// Few file descriptors at both ends.
pub(crate) fn files(round: &mut Round) {
    let most = round.pick(&[40, 100, 256]);
    let number = round.random.between(24, most);
    limited(round, "prlimit", &[&format!("--nofile={number}:{number}"), "--"], &[]);
}

/// Little address space at both ends.
pub(crate) fn address_space(round: &mut Round) {
    let bytes = round.random.between(900, 2000) << 20;
    limited(round, "prlimit", &[&format!("--as={bytes}"), "--"], &[]);
}

/// A memory cgroup, whose limit includes the content of a tmpfs. The kernel kills processes that exceed it.
pub(crate) fn out_of_memory(round: &mut Round) {
    let Some(group) = Cgroup::new(round) else {
        round.note("rounds without a memory cgroup", 1);
        return;
    };
    let script = format!("echo $$ >'{}/cgroup.procs' && exec \"$@\"", group.0.display());
    limited(round, "sh", &["-c", &script, "sh"], &[9]);
}

/// A cgroup. Removed on drop, when its last process has ended.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(round: &mut Round) -> Option<Self> {
        let limit = (round.random.between(24, 96) << 20).to_string();
        let name = format!("haul-campaign-{}", std::process::id());
        let first = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes");
        for (root, file) in [first, ("/sys/fs/cgroup", "memory.max")] {
            let dir = PathBuf::from(root).join(&name);
            if fs::create_dir(&dir).is_err() {
                continue;
            }
            let group = Self(dir);
            if fs::write(group.0.join(file), &limit).is_ok() {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The kernel needs a moment after the last process has ended.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eprintln!("cannot remove {:?}", self.0);
    }
}
