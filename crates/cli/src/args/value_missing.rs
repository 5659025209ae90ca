//! The error of an option at the end of the command line without its value.

use std::ffi::OsString;

use clap::Command;
use clap::error::ErrorKind;

use super::check_value::check_value;
use super::foreign;
use super::refused::{about, flag_of_rsync, given};

/// The error, in one line with values that are valid; `None` if the error is another one, or any text is valid.
pub(super) fn value_missing(error: &clap::Error, words: &[OsString], all: &Command) -> Option<String> {
    let option = about(error);
    let is_last = words.last()?.to_str() == Some(&option);
    if error.kind() != ErrorKind::InvalidValue || !is_last || !given(error).is_empty() {
        return None;
    }
    let own = all.find_subcommand(foreign::canonical(words.get(1)?.to_str()?))?;
    let long = option.strip_prefix("--")?;
    let arg = own.get_arguments().find(|arg| arg.get_long() == Some(long))?;
    // Each parser names valid values when it refuses one.
    let said = check_value(arg, &format!("{option}=?")).err()?;
    let (_, behind) = said.split_once(" is not ")?;
    let values = behind.split_once("; ").map_or(behind, |(_, values)| values);
    let hint = flag_of_rsync(&option);
    let values = values.strip_suffix(hint).unwrap_or(values);
    Some(format!("{option} needs a value: {values}{hint}"))
}
