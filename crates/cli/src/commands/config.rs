//! `haul config`.

use haul_core::path::printable;
use haul_core::{Error, ErrorKind, Result, Side};

use super::print::print;
use crate::args::{ConfigAction, ConfigArgs};
use crate::config::{Settings, Sources, show, show_aliases, show_command};
use crate::exit_code::Exit;

/// Prints the settings or the paths of their files.
///
/// # Errors
/// [`ErrorKind::Usage`] if the settings are invalid.
pub(super) fn run(args: &ConfigArgs) -> Result<Exit> {
    let sources = Sources::of_process();
    let refused = |line: String| Error::new(ErrorKind::Usage, Side::Local, "read the settings", &line);
    let printed: Vec<String> = match &args.action {
        ConfigAction::Path => sources
            .files
            .iter()
            .map(|file| {
                let missing = if file.exists() { "" } else { " (missing)" };
                format!("{}{missing}\n", printable(file.path.as_os_str().as_encoded_bytes()))
            })
            .collect(),
        ConfigAction::Show { command } => match (Settings::load(&sources).map_err(refused)?, command) {
            (None, Some(_)) => Vec::new(),
            (Some(settings), Some(command)) => show_command(&settings, command).map_err(refused)?,
            (settings, None) => {
                let own = settings.as_ref().map(show).unwrap_or_default();
                [own, show_aliases(&sources)].concat()
            }
        },
    };
    Ok(print(printed.concat().as_bytes()))
}
