//! Runs the command that was given.

use super::{
    agent, bucket, completions, config, copy, fifo, get, hash, help, jobs, ls, man, members, pipe, plan,
    presign, probe, put, rm, stat, sync, unpack, verify,
};
use crate::args::Command;
use crate::exit_code::Exit;
use crate::render::print_error;

/// Runs a command. Prints an error that ends it before it has a summary.
pub(crate) fn run(command: Command) -> Exit {
    let ended = match command {
        Command::Copy(args) => copy::run(*args),
        Command::Sync(args) => sync::run(*args),
        Command::Verify(args) => verify::run(&args),
        Command::Hash(args) => hash::run(&args),
        Command::Put(args) => put::run(&args),
        Command::Get(args) => match &args.fifo_dir {
            Some(dir) => fifo::run(&args, dir),
            None if args.unpack.is_some() || !args.member.is_empty() => unpack::run(&args),
            None => get::run(&args),
        },
        Command::Pipe(args) => pipe::run(&args),
        Command::Index(args) => members::index(&args),
        Command::Ls(args) if args.members => members::list(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Rm(args) => rm::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Mb(args) => bucket::make(&args),
        Command::Rb(args) => bucket::remove(&args),
        Command::Presign(args) => presign::run(&args),
        Command::Jobs(args) => jobs::run(args),
        Command::Config(args) => config::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Help { word } => help::run(word.as_deref()),
        Command::Completions { shell } => completions::run(shell),
        Command::Man { dir } => man::run(&dir),
    };
    ended.unwrap_or_else(|error| {
        print_error(&error);
        Exit::of_error(&error)
    })
}
