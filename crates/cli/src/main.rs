//! The `haul` program: words in, engine options out, what happens on the screen. It decides nothing about copying.

mod args;
mod commands;
mod ends;
mod exit_code;
mod jobs;
mod manifest;
mod open_files;
mod render;
mod settings;
mod signals;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    open_files::raise();
    match args::Cli::try_parse() {
        Ok(cli) => commands::run(cli.command).into(),
        Err(mut error) => {
            args::explain(&mut error);
            // Nobody is there to be told that help could not be printed.
            let _ = error.print();
            u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}
