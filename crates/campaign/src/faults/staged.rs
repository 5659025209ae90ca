//! Staged files and journals that are damaged between two runs.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_testkit::TreeShape;
use haul_testkit::process::kill;
use haul_testkit::tree::list;

use crate::job::{CampaignJob, JobLimits};
use crate::round::Round;

/// The staged files in a tree, or their journals.
fn staged(root: &Path, journals: bool) -> Vec<PathBuf> {
    let ending: &[u8] = if journals { b".journal" } else { b".part" };
    let wanted = |path: &PathBuf| {
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        name.starts_with(b".haul-") && name.ends_with(ending)
    };
    list(root).into_iter().filter(wanted).map(|path| root.join(path)).collect()
}

/// Kills a run after the first records of its journal and flips bytes. The same command must detect them, unless it does
/// not use them.
pub(crate) fn flipped(round: &mut Round) {
    let wanted = JobLimits {
        shape: TreeShape { entries: 6, big: 0, ..TreeShape::default() },
        large: 30 << 20,
        old: false,
        ..JobLimits::default()
    };
    // Slow enough that the journal records slices before the end.
    let job = CampaignJob::new(round, &wanted).with(&["--bwlimit", "16M"]);
    let mut run = job.run(round).start();
    let begun = Instant::now();
    let recorded =
        || staged(&job.to, true).iter().any(|path| fs::metadata(path).is_ok_and(|meta| meta.len() > 0));
    while run.is_running() && !recorded() && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(3));
    }
    std::thread::sleep(Duration::from_millis(round.random.between(0, 500)));
    for pid in run.agents().into_iter().chain([run.pid()]) {
        kill(pid);
    }
    let end = run.finish();
    round.expect_documented(&end, &[9]);
    round.all_gone();
    if end.code() == Some(0) || staged(&job.to, true).is_empty() {
        round.note("rounds without staged files", 1);
    }
    let in_journal = round.one_in(4);
    let files = staged(&job.to, in_journal);
    if files.is_empty() {
        return job.check_rerun(round);
    }
    for _ in 0..round.pick(&[1, 2, 4, 16]) {
        let path = round.pick(&files);
        let flipped = flip(round, &path);
        round.fault(u64::from(flipped));
    }
    job.check_rerun(round);
}

/// Flips one byte of a file that is not empty, and keeps its times.
fn flip(round: &mut Round, path: &Path) -> bool {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let meta = file.metadata().unwrap();
    if meta.len() == 0 {
        return false;
    }
    let at = round.below(meta.len());
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    byte[0] ^= 1 << round.below(8);
    file.write_all_at(&byte, at).unwrap();
    file.set_modified(meta.modified().unwrap()).unwrap();
    true
}
