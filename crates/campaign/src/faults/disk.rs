//! Disks that lose power or fail.

use std::time::Duration;

use haul_testkit::{CrashDisk, DiskFault, DiskOp, FileSystem, Keep, Trigger};

use crate::job::{CampaignJob, JobLimits, JobPlaces};
use crate::round::Round;

const BYTES: u64 = 192 << 20;

fn wanted() -> JobLimits {
    // A remote end would outlive the power cut.
    JobLimits { ways: &[JobPlaces::Local], inplace: false, ..JobLimits::default() }
}

/// Power is lost at a random write or flush. The round checks the names on the disk; the same command completes it.
pub(crate) fn power(round: &mut Round) {
    let mut disk = CrashDisk::new(FileSystem::Ext4, BYTES);
    let job = CampaignJob::into(round, &wanted(), disk.join("dst"));
    // Makes the old content durable.
    disk.remount();
    for _ in 0..2 {
        let keep = Keep::any(round.random.next_u64());
        let at = round.random.between(1, 60);
        let trigger = match round.below(3) {
            0 => Trigger::Flush(at % 10 + 1),
            1 => Trigger::Content(at * 40),
            _ => Trigger::Write(at * 40),
        };
        disk.cut_at(trigger, keep);
        let mut run = job.run(round).start();
        while run.is_running() && !disk.is_cut() {
            std::thread::sleep(Duration::from_millis(2));
        }
        // Nothing runs without power.
        haul_testkit::process::kill(run.pid());
        let end = run.finish();
        round.expect_documented(&end, &[9]);
        if !disk.is_cut() {
            disk.cut_now(keep);
        }
        round.fault(1);
        round.all_gone();
        disk.remount();
        disk.heal();
        if job.to.is_dir() && !job.check_names(round, "after a power cut") {
            return;
        }
        job.check_success(round, &end);
    }
    job.check_rerun(round);
}

/// Some writes of content fail; the same command follows on the same mount.
pub(crate) fn write_errors(round: &mut Round) {
    let mut disk = CrashDisk::new(FileSystem::Ext4, BYTES);
    let job = CampaignJob::into(round, &wanted(), disk.join("dst"));
    disk.remount();
    let times = round.pick(&[1, 3, 20]);
    disk.fail(DiskFault::of(DiskOp::Write).content_only().times(times));
    let end = job.run(round).finish();
    round.expect_documented(&end, &[]);
    round.all_gone();
    disk.heal();
    round.fault(1);
    if end.code() != Some(0) {
        round.note("runs that reported an error", 1);
    }
    let again = job.run(round).finish();
    round.expect_documented(&again, &[]);
    round.all_gone();
    // Drops the page cache: only content on the disk counts.
    disk.remount();
    job.check_names(round, "after disk errors");
    job.check_success(round, &again);
    job.check_rerun(round);
}
