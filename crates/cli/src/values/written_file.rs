//! The name of a file that haul writes.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

/// Reads the name of a file. `-` is refused: haul prints other things on standard output.
pub(crate) fn written_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| if path == Path::new("-") { Err(NO_FILE) } else { Ok(path) })
}

const NO_FILE: &str = "haul writes this to a file only (`./-` is a file named `-`)";
