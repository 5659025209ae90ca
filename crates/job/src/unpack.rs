//! Copies the members of a stream into a directory of this machine.

use std::sync::Arc;
use std::time::Duration;

use haul_core::{Location, Pace, Preserve, Report, Result, Sink, SinkOptions, Source, Totals};
use haul_engine::{Cancel, CopyOptions, EndPair};

use super::ends::Ends;
use super::observer::Observer;
use super::part::PartReporter;
use super::place::dir_place;

/// The metadata of members that have none but the time of their stream.
const TIMES: Preserve = Preserve { times: true, ..Preserve::NOTHING };

/// The directory `at`, for the members of a stream. `has_metadata`: they have modes, owners and times.
///
/// # Errors
/// Those of opening it.
pub fn directory_sink(ends: &mut Ends, at: &Location, has_metadata: bool) -> Result<Arc<dyn Sink>> {
    let preserve = if has_metadata { Preserve::default() } else { TIMES };
    let options = SinkOptions { preserve, atomic: true, ..SinkOptions::default() };
    ends.sink(at, &dir_place(at), &options)
}

/// Copies the members of a stream into the directory `at`. `has_metadata`: they have modes, owners and times. The source
/// keeps the limits `pace`.
///
/// # Errors
/// Those of opening the directory. All later errors are in the report.
pub fn unpack(
    ends: &mut Ends,
    source: Arc<dyn Source>,
    at: &Location,
    (has_metadata, pace): (bool, &Pace),
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Report> {
    let sink = directory_sink(ends, at, has_metadata)?;
    let reporter = PartReporter {
        observer,
        root_name: &[],
        source: None,
        destination: Some(at),
        before: Totals::default(),
        last: true,
        listed: false,
        bill: None,
    };
    let timeout = Duration::from_secs(30);
    let options = CopyOptions { is_only: true, timeout, pace: pace.clone(), ..CopyOptions::default() };
    let parts = [EndPair { source, sink, preview: None, view: None, other_sources: Vec::new() }];
    Ok(haul_engine::copy(&parts, options, &reporter, cancel))
}
