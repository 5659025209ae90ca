//! Settings of the user and of the machine: files and `HAUL_*` variables that add options to a command line. A job and a
//! remote end never read them.

mod check;
mod choose;
mod document;
mod entry;
mod hosts;
mod mc_hosts;
mod origin;
mod places;
mod quote;
mod settings;
mod settle;
mod show;
mod sources;
mod trusted_file;

#[cfg(test)]
mod tests;

pub(crate) use settings::Settings;
pub(crate) use settle::settle;
pub(crate) use show::{show, show_aliases, show_command};
pub(crate) use sources::Sources;
