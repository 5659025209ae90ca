//! One file for each command: resolve the words, open the ends, call the engine, tell how it ended.

mod agent;
mod completions;
mod copy;
mod estimate;
mod fifo;
mod found;
mod get;
mod hash;
mod jobs;
mod ls;
mod man;
mod output;
mod plan;
mod probe;
mod put;
mod rm;
mod stream;
mod sync;
mod transfer;
mod verify;

use crate::args::Command;
use crate::exit_code::Exit;
use crate::render::print_error;

/// Runs a command. What ends it before it began is printed here.
pub(crate) fn run(command: Command) -> Exit {
    let ended = match command {
        Command::Copy(args) => copy::run(*args),
        Command::Sync(args) => sync::run(*args),
        Command::Verify(args) => verify::run(&args),
        Command::Hash(args) => hash::run(&args),
        Command::Put(args) => put::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Rm(args) => rm::run(&args),
        Command::Jobs(args) => jobs::run(args),
        Command::Plan(args) => plan::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Completions { shell } => completions::run(shell),
        Command::Man { dir } => man::run(&dir),
    };
    ended.unwrap_or_else(|error| {
        print_error(&error);
        Exit::of_error(&error)
    })
}
