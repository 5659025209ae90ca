//! Runs haul with random faults over random trees, and judges each result without haul.
//!
//! Every round follows from its seed: which tree, which command, which fault. What the seed does not decide is the
//! moment at which a signal arrives, as that depends on the speed of the machine. `--seed N --only KIND --rounds 1`
//! repeats a round. `scripts/campaign` builds and runs this program in namespaces of its own, so that whatever it starts
//! or mounts ends with it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a test: it fails by panicking, and prints what it found"
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
use kinds::{KINDS, Kind};
use round::{Round, World};
use table::Table;

/// The first argument that makes this program the remote shell of a [`haul_testkit::FaultPlan`].
const FAULT_SHELL: &str = "--fault-shell";

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
    let mut table = Table::default();
    let kinds = chosen(&args, &mut table);
    if kinds.is_empty() {
        eprintln!("haul-campaign: there is nothing to run");
        return ExitCode::from(2);
    }
    run(&args, &kinds, &mut table);
    print!("\n{table}");
    ExitCode::from(u8::from(table.failed()))
}

/// The kinds that were asked for and that this machine has what they need for. A kind that is left out is named.
fn chosen(args: &Args, table: &mut Table) -> Vec<&'static Kind> {
    let asked = KINDS.iter().filter(|kind| args.wants(kind.name));
    let able = |kind: &&'static Kind| {
        let missing = kind.needs.iter().find_map(|need| need.missing());
        if let Some(why) = missing {
            table.leave_out(kind.name, why);
            return false;
        }
        true
    };
    asked.filter(able).collect()
}

fn run(args: &Args, kinds: &[&'static Kind], table: &mut Table) {
    let world = World::new(&args.haul);
    let order = kinds::order(kinds);
    let begun = Instant::now();
    let mut said = Instant::now();
    // Failures of rounds are told in the table; the text of a panic is kept for it.
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
            round.lost(text.unwrap_or_else(|| "a check failed without a word".to_owned()));
        }
        let result = round.end();
        for problem in &result.problems {
            let text: String = problem.to_string().chars().take(3000).collect();
            eprintln!("{}: seed {seed}: {text}", kind.name);
        }
        table.add(kind, seed, result);
        if said.elapsed() > Duration::from_secs(60) {
            said = Instant::now();
            println!("\nafter {} s and {} rounds\n{table}", begun.elapsed().as_secs(), number + 1);
        }
    }
    let _ = std::panic::take_hook();
    table.took(begun.elapsed());
}
