//! Damaged, cut and stalled connections.

use haul_testkit::{ByteDirection, FaultPlan, LinkFault, Which};

use crate::job::{CampaignJob, JobLimits, JobPlaces};
use crate::round::Round;

const REMOTE: JobLimits = JobLimits {
    shape: haul_testkit::TreeShape {
        entries: 30,
        depth: 4,
        specials: true,
        attributes: true,
        hard_links: true,
        owners: true,
        big: 0,
        nanoseconds: true,
    },
    ways: &[JobPlaces::Push, JobPlaces::Pull],
    large: 13 << 20,
    old: true,
    inplace: true,
    server: false,
};

/// The direction of content.
fn content(way: JobPlaces) -> ByteDirection {
    if way == JobPlaces::Pull { ByteDirection::Down } else { ByteDirection::Up }
}

/// Offsets over several orders of magnitude, since all kinds of messages are sent at the start of a connection.
fn offset(round: &mut Round) -> u64 {
    let most = round.pick(&[300, 5_000, 100_000, 3_000_000, 15_000_000]);
    round.below(most)
}

fn any_direction(round: &mut Round, way: JobPlaces) -> ByteDirection {
    match round.below(4) {
        0 => ByteDirection::Up,
        1 => ByteDirection::Down,
        _ => content(way),
    }
}

fn any_connection(round: &mut Round) -> Which {
    match round.below(4) {
        0 => Which::All,
        1 => Which::From(2),
        number => Which::Only(number as u32 - 1),
    }
}

/// Runs the job with `faults` and judges the result. Returns whether the round continues.
fn disturbed(round: &mut Round, job: &mut CampaignJob, faults: &[(Which, ByteDirection, LinkFault)]) -> bool {
    let dir = round.join("plan");
    std::fs::remove_dir_all(&dir).unwrap();
    let plan =
        faults.iter().fold(FaultPlan::new(dir), |plan, (which, way, fault)| plan.with(*which, *way, *fault));
    job.set_plan(plan);
    let end = job.run(round).finish();
    round.expect_documented(&end, &[]);
    round.all_gone();
    job.check_names(round, "after a bad connection");
    job.check_success(round, &end);
    if end.code() == Some(0) {
        job.start_over();
    }
    !round.has_failed()
}

/// Flips bytes: many in content, some in frame headers, some at the start of a connection.
pub(crate) fn flipped(round: &mut Round) {
    let mut job = CampaignJob::new(round, &REMOTE).with(&["--timeout", "5"]);
    let (way, each) = (job.way, job.each_connection());
    for _ in 0..5 {
        let mut faults = Vec::new();
        // With few flips the run succeeds by retransmission; with many it cannot.
        let count = round.pick(&[1, 5, 25, 120]);
        let spread = round.one_in(2);
        for _ in 0..count {
            let at = if spread { round.below(each) } else { offset(round) };
            let direction = if spread { content(way) } else { any_direction(round, way) };
            faults.push((any_connection(round), direction, LinkFault::Flip(at)));
        }
        if round.one_in(3) {
            let frame = round.random.between(1, 40);
            faults.push((any_connection(round), any_direction(round, way), LinkFault::FlipHeader(frame)));
        }
        let goes_on = disturbed(round, &mut job, &faults);
        round.fault(job.flipped());
        if !goes_on {
            return;
        }
    }
    job.check_rerun(round);
}

/// Cuts connections at a random byte.
pub(crate) fn cut(round: &mut Round) {
    let mut job = CampaignJob::new(round, &REMOTE).with(&["--timeout", "5"]);
    let way = job.way;
    for _ in 0..3 {
        let faults: Vec<_> = (0..round.random.between(1, 4))
            .map(|_| (any_connection(round), any_direction(round, way), LinkFault::Cut(offset(round))))
            .collect();
        round.fault(faults.len() as u64);
        if !disturbed(round, &mut job, &faults) {
            return;
        }
    }
    job.check_rerun(round);
}

/// Stalls connections after a random byte.
pub(crate) fn stalled(round: &mut Round) {
    let mut job = CampaignJob::new(round, &REMOTE).with(&["--timeout", "1"]);
    let way = job.way;
    let stall = (any_connection(round), any_direction(round, way), LinkFault::Stall(offset(round)));
    // Otherwise each new connection would stall again.
    let refuse = (Which::From(6), ByteDirection::Up, LinkFault::Refuse);
    round.fault(1);
    if disturbed(round, &mut job, &[stall, refuse]) {
        job.check_rerun(round);
    }
}
