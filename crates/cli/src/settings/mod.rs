//! Converts options of the command line to the types of the engine, and checks them.

mod encode;
mod errors;
mod files_from;
mod link;
mod object;
mod pipe;
mod records;
mod rules;
mod selection;
mod stdin;
mod stream;
mod transfer;
mod verify;
mod words;

pub(crate) use encode::{encode, identities};
pub(crate) use errors::{of_option, usage};
pub(crate) use files_from::{listed, read_paths};
pub(crate) use link::LinkSettings;
pub(crate) use object::{
    check_endpoint, check_object, content_memory, parse_object, parse_place, put_options, store_settings,
    store_settings_of,
};
pub(crate) use pipe::programs;
pub(crate) use records::{ListRecords, Separator, open_list};
pub(crate) use selection::ObjectSelection;
pub(crate) use stdin::one_stdin;
pub(crate) use stream::{check_get, check_put};
pub(crate) use transfer::{TransferSettings, scan_options};
pub(crate) use verify::VerifySettings;
