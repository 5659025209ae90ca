//! Reads the values of single options.

mod age;
mod chmod;
mod compress;
mod deadline;
mod full;
mod link;
mod manifest_format;
mod number;
mod pair;
mod rate;
mod size;
mod time;
mod timetable;
mod written_file;

pub(crate) use age::parse_age;
pub(crate) use chmod::{Chown, parse_chmod, parse_chown, parse_map};
pub(crate) use compress::{LEVEL, parse_compress};
pub(crate) use deadline::parse_stop_at;
pub(crate) use full::parse_on_full;
pub(crate) use link::{parse_address, parse_memory, parse_ports};
pub(crate) use manifest_format::ManifestFormat;
pub(crate) use number::{MOST_ENTRIES, number, parse_job};
pub(crate) use pair::parse_pair;
pub(crate) use size::{parse_part, parse_size};
pub(crate) use time::{parse_expiry, parse_time, parse_timeout, parse_window};
pub(crate) use timetable::Timetable;
pub(crate) use written_file::written_file;
