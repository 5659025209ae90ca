//! Standard input can be read once.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_core::Result;
use haul_core::filter::parse::{Parsed, parse_rule};
use haul_core::filter::{Prefixes, RuleFormat};

use super::errors::usage;
use crate::args::{FilterArgs, FilterWord};

/// The file that a rule merges.
fn merged(rule: &[u8]) -> Option<&OsStr> {
    let parsed = parse_rule(rule, &RuleFormat::new(Prefixes::Rules)).ok()?;
    let is_stdin = |parsed: &Parsed| matches!(parsed, Parsed::Merge(merge) if merge.file == b"-");
    parsed.iter().any(is_stdin).then_some(OsStr::new("-"))
}

/// Refuses to read more than one list from standard input.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if there are two.
pub(crate) fn one_stdin(filter: &FilterArgs, list: Option<&OsStr>) -> Result<()> {
    let files = filter.rules.0.iter().filter_map(|word| match word {
        FilterWord::ExcludeFrom(file) | FilterWord::IncludeFrom(file) => Some(file.as_os_str()),
        FilterWord::Filter(rule) => merged(rule.as_bytes()),
        FilterWord::Exclude(_) | FilterWord::Include(_) | FilterWord::RsyncFilter => None,
    });
    if files.chain(list).filter(|file| *file == "-").count() > 1 {
        return Err(usage("read lists", "only one list can be `-` (standard input)"));
    }
    Ok(())
}
