//! `haul man`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_core::{Error, Result, Side};

use crate::args::command;
use crate::exit_code::Exit;

/// Writes a manual page for haul and one per command.
///
/// # Errors
/// If a page cannot be written.
pub(super) fn run(dir: &Path) -> Result<Exit> {
    clap_mangen::generate_to(command(), dir).map_err(|error| {
        Error::io(Side::Local, "write manual pages into", &error).on(dir.as_os_str().as_bytes())
    })?;
    Ok(Exit::Done)
}
