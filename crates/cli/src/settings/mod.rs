//! Converts options of the command line to the types of the engine, and checks them.

mod compress;
mod encode;
mod errors;
mod files_from;
mod full;
mod link;
mod number;
mod object;
mod rate;
mod records;
mod rules;
mod size;
mod stdin;
mod timetable;
mod transfer;
mod words;

pub(crate) use compress::parse_compress;
pub(crate) use encode::{encode, identities, parse_frames};
pub(crate) use errors::{of_option, usage};
pub(crate) use files_from::{listed, read_paths};
pub(crate) use full::{parse_on_full, parse_time};
pub(crate) use link::{LinkSettings, parse_address, parse_memory, parse_ports};
pub(crate) use number::{DAY, MOST_ENTRIES, number, parse_job};
pub(crate) use object::{
    check_endpoint, content_memory, parse_object, parse_pair, parse_place, put_options, store_settings,
};
pub(crate) use records::{Records, Separator, open_list};
pub(crate) use size::{parse_part, parse_size};
pub(crate) use stdin::one_stdin;
pub(crate) use timetable::Timetable;
pub(crate) use transfer::{TransferSettings, scan_options};
