//! Standard input can be read once.

use std::ffi::OsStr;

use haul_core::Result;

use super::errors::usage;
use crate::args::{FilterArgs, FilterWord};

/// Refuses to read more than one list from standard input.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if there are two.
pub(crate) fn one_stdin(filter: &FilterArgs, list: Option<&OsStr>) -> Result<()> {
    let files = filter.words.iter().filter_map(|word| match word {
        FilterWord::ExcludeFrom(file) | FilterWord::IncludeFrom(file) => Some(file.as_os_str()),
        FilterWord::Exclude(_) | FilterWord::Include(_) => None,
    });
    if files.chain(list).filter(|file| *file == "-").count() > 1 {
        return Err(usage("read lists", "only one list can be `-` (standard input)"));
    }
    Ok(())
}
