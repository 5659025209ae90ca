//! The `haul` program: converts the command line to requests for haul-job and others, and shows the results.

mod address_space;
mod args;
mod commands;
mod config;
mod exit_code;
mod jobs;
mod locations;
mod manifest;
mod open_files;
mod render;
mod settings;
mod signals;
mod standard_streams;
mod stop_time;
mod values;

use std::process::ExitCode;

use args::RefusedCommand;

fn main() -> ExitCode {
    address_space::prepare();
    open_files::raise();
    haul_threads::install_hook();
    match args::parse_with(std::env::args_os(), &|typed| {
        config::settle(typed, &config::Sources::of_process())
    }) {
        Ok(cli) => match haul_threads::caught(|| commands::run(cli.command)) {
            Ok(exit) => exit.into(),
            Err(error) => {
                render::print_error(&error);
                exit_code::Exit::of_error(&error).into()
            }
        },
        Err(refused) => {
            match &refused {
                RefusedCommand::Line(line) => render::print_line(line),
                RefusedCommand::Parser(error) => {
                    if let Err(error) = render::print_help(error) {
                        render::print_error(&error);
                        return exit_code::Exit::of_error(&error).into();
                    }
                }
            }
            ExitCode::from(refused.exit_code())
        }
    }
}
