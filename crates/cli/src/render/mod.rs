//! Everything that is printed: for people on standard error, for programs as JSON on standard output.
//!
//! Output errors do not end a run: if standard output is closed early, only the output is lost.

mod console;
mod cut;
mod differences;
mod estimates;
mod failure_group;
mod failure_lines;
mod failures;
mod gauge;
mod itemize;
mod jobs;
mod json;
mod lines;
mod listed;
mod log;
mod log_words;
mod metadata_difference;
mod objects;
mod people;
mod plain;
mod plan;
mod print;
mod probe;
mod refused;
mod requests;
mod stat;
mod summary;
mod tty;
mod view;
mod wording;

pub(crate) use console::{Console, OutputSettings, Showing};
pub(crate) use differences::{Difference, Differences};
pub(crate) use estimates::{estimate_json, estimate_line};
pub(crate) use itemize::Items;
pub(crate) use jobs::JobLines;
pub(crate) use json::Cpu;
pub(crate) use lines::OutputLines;
pub(crate) use listed::EntryRow;
pub(crate) use metadata_difference::metadata_difference;
pub(crate) use objects::{
    bucket_line, heading_json, heading_line, listed_bucket_json, listed_bucket_line, member_line,
    object_json, object_line, prefix_json, prefix_line, removed_line, total_json, total_line, upload_line,
};
pub(crate) use plan::{Estimated, Planned};
pub(crate) use print::{print_error, print_help, print_line};
pub(crate) use probe::{Diagnosis, Measurement, NamedLink};
pub(crate) use stat::EntryStat;
pub(crate) use summary::{StoredEncoding, Summary, SummaryCommand};
pub(crate) use view::Start;
