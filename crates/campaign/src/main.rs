//! Runs haul with random faults over random trees, and judges each result without haul.
//!
//! The seed of a round decides its tree, its command and its fault. It does not decide the exact moment at which a signal
//! arrives, which depends on the speed of the machine. `--seed N --only KIND --rounds 1` repeats a round.
//! `scripts/campaign` builds this program and runs it in namespaces of its own, so that its processes and mounts end with
//! it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests fail by panicking and print their results"
)]

mod args;
mod faults;
mod job;
mod judge;
mod kinds;
mod round;
mod sync;
mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use args::Args;
use job::FAULT_SHELL;
use kinds::{KINDS, RoundKind};
use round::{CampaignState, Round};
use table::ResultTable;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    if words.next_if(|word| word == FAULT_SHELL).is_some() {
        return haul_testkit::fault::relay(words);
    }
    if words.next_if(|word| word == haul_testkit::lying_haul::LIAR_SHELL).is_some() {
        return haul_testkit::lying_haul::relay(words);
    }
    if words.next_if(|word| word == haul_testkit::measured::MEASURE).is_some() {
        return haul_testkit::measured::measure(words);
    }
    let args = match Args::parse(words) {
        Ok(args) => args,
        Err(why) => {
            eprintln!("haul-campaign: {why}");
            return ExitCode::from(2);
        }
    };
    let mut table = ResultTable::default();
    let kinds = chosen(&args, &mut table);
    if kinds.is_empty() {
        eprintln!("haul-campaign: no kind can run on this machine");
        return ExitCode::from(2);
    }
    run(&args, &kinds, &mut table);
    print!("\n{table}");
    ExitCode::from(u8::from(table.failed()))
}

/// The requested kinds whose requirements this machine meets. The table lists the others as skipped.
fn chosen(args: &Args, table: &mut ResultTable) -> Vec<&'static RoundKind> {
    let requested = KINDS.iter().filter(|kind| args.wants(kind.name));
    let able = |kind: &&'static RoundKind| {
        let missing = kind.needs.iter().find_map(|need| need.missing());
        if let Some(why) = missing {
            table.skip(kind.name, why);
            return false;
        }
        true
    };
    requested.filter(able).collect()
}

fn run(args: &Args, kinds: &[&'static RoundKind], table: &mut ResultTable) {
    let world = CampaignState::new(&args.haul);
    let order = kinds::order(kinds);
    let begun = Instant::now();
    let mut printed = Instant::now();
    // The table reports failed rounds, with the text of their panics.
    std::panic::set_hook(Box::new(|_| {}));
    for number in 0..args.rounds {
        if begun.elapsed() >= args.time {
            break;
        }
        let kind = order[usize::try_from(number).unwrap_or(0) % order.len()];
        let seed = args.seed.wrapping_add(number);
        let mut round = Round::new(&world, seed, args.keep);
        let ended = catch_unwind(AssertUnwindSafe(|| (kind.round)(&mut round)));
        if let Err(panic) = ended {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            round.lost(text.unwrap_or_else(|| "a check failed without a message".to_owned()));
        }
        let result = round.end();
        for problem in &result.problems {
            let text: String = problem.to_string().chars().take(3000).collect();
            eprintln!("{}: seed {seed}: {text}", kind.name);
        }
        table.add(kind, seed, result);
        if printed.elapsed() > Duration::from_secs(60) {
            printed = Instant::now();
            println!("\nafter {} s and {} rounds\n{table}", begun.elapsed().as_secs(), number + 1);
        }
    }
    let _ = std::panic::take_hook();
    table.took(begun.elapsed());
}
