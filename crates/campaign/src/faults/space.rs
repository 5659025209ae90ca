//! Full destinations, and file systems that return errors.

use std::fs;
use std::process::Command;
use std::time::Duration;

use haul_slowfs::{FaultEffect, FsFault, MountOptions};
use haul_testkit::TestMount;
use haul_testkit::needs::tool;
use rustix::io::Errno;

use crate::job::{CampaignJob, JobLimits, JobPlaces};
use crate::round::Round;

/// Enough space for everything that a round writes.
const ENOUGH: u64 = 96 << 20;

/// A tmpfs with too few bytes or inodes, which is enlarged later.
pub(crate) fn full(round: &mut Round) {
    let at = round.join("disk");
    fs::create_dir(&at).unwrap();
    let mount = TestMount::tmpfs_at(&at, ENOUGH);
    let job = CampaignJob::into(round, &JobLimits::default(), at.join("dst")).with(&["--on-full", "fail"]);
    let remount = |options: &str| {
        tool(Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&at));
    };
    for _ in 0..3 {
        if round.one_in(3) {
            let stat = rustix::fs::statvfs(&at).unwrap();
            let inodes = stat.f_files - stat.f_ffree + round.random.between(2, 30);
            remount(&format!("size={ENOUGH},nr_inodes={inodes}"));
        } else {
            let more = round.random.between(64 << 10, 20 << 20);
            remount(&format!("size={},nr_inodes=100000", mount.used() + more));
        }
        let end = job.run(round).finish();
        round.expect_documented(&end, &[]);
        round.all_gone();
        round.fault(u64::from(end.code() != Some(0)));
        if !job.check_names(round, "on a full disk") {
            return;
        }
        job.check_success(round, &end);
    }
    remount(&format!("size={ENOUGH},nr_inodes=100000"));
    job.check_rerun(round);
}

/// A file system on which all requests fail from some moment on, or one request does. haul takes FUSE for a network file
/// system.
pub(crate) fn errors(round: &mut Round) {
    let (behind, at) = (round.join("behind"), round.join("disk"));
    for dir in [&behind, &at] {
        fs::create_dir(dir).unwrap();
    }
    let options = MountOptions {
        meta: Duration::ZERO,
        data: Duration::ZERO,
        cache: Duration::ZERO,
        plus: true,
        xattrs: true,
        ..MountOptions::default()
    };
    let mount = haul_slowfs::SlowMount::new(&behind, &at, options)
        .unwrap_or_else(|error| panic!("cannot mount: {error}"));
    let wanted =
        JobLimits { ways: &[JobPlaces::Local, JobPlaces::Push], inplace: false, ..JobLimits::default() };
    // Only `--atomic` promises complete files under final names here.
    let job = CampaignJob::into(round, &wanted, at.join("dst")).with(&["--on-full", "fail", "--atomic"]);
    for _ in 0..2 {
        let errno = round.pick(&[Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::ROFS]);
        let skip = round.pick(&[20, 200, 1500]);
        let fault = FsFault {
            op: None,
            path: String::new(),
            skip: round.below(skip),
            times: round.pick(&[1, 1, 5, u64::MAX]),
            action: FaultEffect::Fail(errno),
        };
        mount.faults().add(fault);
        let end = job.run(round).finish();
        round.expect_documented(&end, &[]);
        let hits = mount.faults().clear();
        round.fault(hits.min(1));
        round.note("requests that failed", hits);
        round.all_gone();
        if !job.check_names(round, "after file system errors") {
            return;
        }
        job.check_success(round, &end);
    }
    job.check_rerun(round);
}
