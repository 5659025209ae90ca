//! Killed, stopped and signalled ends, and simultaneous runs.

use std::thread;
use std::time::Duration;

use haul_testkit::Running;
use haul_testkit::process::kill;
use rustix::process::Signal;

use crate::job::{CampaignJob, JobLimits};
use crate::round::Round;

/// Killed runs of a job before it may complete.
const TIMES: u64 = 12;

/// A random moment in a run. Most are early, since most runs are short.
fn moment(round: &mut Round) -> Duration {
    let longest = round.pick(&[30, 60, 120, 300]);
    Duration::from_micros(round.random.between(500, longest * 1000))
}

/// `kill -9` of the local end, of the remote ends, or of all.
pub(crate) fn killed(round: &mut Round) {
    let job = CampaignJob::new(round, &JobLimits { server: true, ..JobLimits::default() });
    for _ in 0..TIMES {
        let (moment, victim) = (moment(round), round.below(4));
        let mut run = job.run(round).start();
        thread::sleep(moment);
        if run.is_running() {
            let agents = if victim == 0 { Vec::new() } else { run.agents() };
            // Without a remote end, only the local end can be killed.
            if victim < 2 || agents.is_empty() {
                kill(run.pid());
            }
            agents.iter().skip(usize::from(victim == 3 && agents.len() > 1)).for_each(|pid| kill(*pid));
            round.fault(1);
        }
        let end = run.finish();
        round.expect_documented(&end, &[9]);
        round.all_gone();
        if !job.check_names(round, "after kill -9") {
            return;
        }
        job.check_success(round, &end);
        if end.code() == Some(0) {
            job.start_over();
        }
    }
    job.check_rerun(round);
}

/// Other signals.
pub(crate) fn signalled(round: &mut Round) {
    let job = CampaignJob::new(round, &JobLimits { server: true, ..JobLimits::default() });
    for _ in 0..4 {
        let moment = moment(round);
        let which =
            round.pick(&[Signal::HUP, Signal::TERM, Signal::INT, Signal::QUIT, Signal::PIPE, Signal::TSTP]);
        let mut run = job.run(round).start();
        thread::sleep(moment);
        if run.is_running() {
            signal(round, &run, which);
            round.fault(1);
        }
        let end = run.finish();
        // A second SIGINT, or the default action of a signal, ends the run by that signal.
        round.expect_documented(&end, &[which.as_raw()]);
        round.all_gone();
        if !job.check_names(round, "after a signal") {
            return;
        }
        job.check_success(round, &end);
    }
    job.check_rerun(round);
}

fn signal(round: &mut Round, run: &Running, which: Signal) {
    // A terminal signals its whole process group; `kill` signals one process.
    let agents = if round.one_in(2) { run.agents() } else { Vec::new() };
    let send = |which: Signal| {
        run.signal(which);
        agents.iter().for_each(|pid| haul_testkit::process::signal(*pid, which));
    };
    send(which);
    if which == Signal::TSTP {
        thread::sleep(Duration::from_millis(round.random.between(1, 300)));
        send(Signal::CONT);
    } else if round.one_in(4) {
        send(which);
    }
}

/// Two or three simultaneous runs of the same command.
pub(crate) fn two_at_once(round: &mut Round) {
    let job = CampaignJob::new(round, &JobLimits { inplace: false, server: true, ..JobLimits::default() });
    let count = round.random.between(2, 4);
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(job.run(round).start());
        thread::sleep(Duration::from_millis(round.random.between(0, 60)));
    }
    round.fault(count - 1);
    job.check_names(round, "with two runs at once");
    let ends: Vec<_> = runs.into_iter().map(Running::finish).collect();
    for end in &ends {
        round.expect_documented(end, &[]);
    }
    round.all_gone();
    job.check_names(round, "after two runs at once");
    if ends.iter().all(|end| end.code() == Some(0)) {
        job.check_success(round, &ends[0]);
    }
    job.check_rerun(round);
}
