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

use args::Refused;

fn main() -> ExitCode {
    open_files::raise();
    match args::parse(std::env::args_os()) {
        Ok(cli) => commands::run(cli.command).into(),
        Err(refused) => {
            match &refused {
                Refused::Line(line) => render::print_line(line),
                // Nobody is there to be told that help could not be printed.
                Refused::Parser(error) => drop(error.print()),
            }
            ExitCode::from(refused.exit_code())
        }
    }
}
