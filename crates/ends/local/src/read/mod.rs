//! Reading content: whole files, slices, and only those pages that the destination lacks.

mod changed;
mod database;
pub(crate) mod digest;
pub(crate) mod file;
pub(crate) mod page_cache;
pub(crate) mod pages;
mod passing;
mod passing_choice;
mod prehash;
pub(crate) mod reader;
