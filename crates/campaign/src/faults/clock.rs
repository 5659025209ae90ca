//! Clocks that jump, and times in the past or the future.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use haul_testkit::tree::{list, set_time};

use crate::job::{CampaignJob, JobLimits};
use crate::round::Round;

/// The library in Debian.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

const DAY: i64 = 86_400;

/// The clock of haul's processes jumps back and forth by days or decades; source files have times in 1970, in the future,
/// or just now. The monotonic clock does not jump, since no administrator can set it.
pub(crate) fn jumps(round: &mut Round) {
    let job = CampaignJob::new(round, &JobLimits::default());
    old_and_new(round, &job.from);
    let file = round.join("time");
    let set = |days: i64| fs::write(&file, format!("{days:+}d")).unwrap();
    set(0);
    let mut run = job.run(round);
    if Path::new(LIBRARY).exists() {
        run = run
            .env("LD_PRELOAD", LIBRARY)
            .env("FAKETIME_TIMESTAMP_FILE", &file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    } else {
        round.note("rounds without libfaketime: only unusual times of source files", 1);
    }
    let mut run = run.start();
    while run.is_running() {
        thread::sleep(Duration::from_millis(round.random.between(5, 60)));
        set(round.pick(&[-2, -1, 0, 1, 2, -9000, 9000]));
        round.fault(1);
    }
    let end = run.finish();
    round.expect_documented(&end, &[]);
    round.all_gone();
    job.check_names(round, "with a jumping clock");
    job.check_success(round, &end);
    job.check_rerun(round);
}

fn old_and_new(round: &mut Round, root: &Path) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
        as i64;
    for path in list(root) {
        if round.one_in(3) {
            let seconds = round.pick(&[0, 1, now, now - DAY, now + DAY, now + 40 * 365 * DAY, 1 << 31, -1]);
            set_time(&root.join(path), seconds, round.random.between(0, 1_000_000_000) as u32);
        }
    }
}
