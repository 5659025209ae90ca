//! `haul config`.

use haul_core::path::printable;
use haul_core::{Error, ErrorKind, Result, Side};

use super::print::print;
use crate::args::{ConfigAction, ConfigArgs};
use crate::config::{Settings, Sources, show, show_aliases, show_command};
use crate::exit_code::Exit;
use crate::render::print_line;

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
    if let ConfigAction::Show { command } = &args.action
        && printed.is_empty()
    {
        print_line(&nothing_set(&sources, command.as_deref()));
    }
    print(printed.concat().as_bytes())
}

/// The line about settings that are not there, with the places where haul has looked.
fn nothing_set(sources: &Sources, command: Option<&str>) -> String {
    let what = command.map(|command| format!(" for `haul {command}`")).unwrap_or_default();
    let files: Vec<_> = sources.files.iter().map(|file| file.path.display().to_string()).collect();
    let files = match files[..] {
        [] => "by a file: HAUL_CONFIG is empty".to_owned(),
        _ => format!("in {}", files.join(" or ")),
    };
    format!("nothing is set{what}: neither by a variable HAUL_* nor {files}")
}
