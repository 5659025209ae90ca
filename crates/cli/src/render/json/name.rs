//! Names in JSON.

use haul_core::path::printable;
use serde::Serialize;

/// A name: as text, and as bytes if it is not valid text.
#[derive(Serialize)]
pub(in crate::render) struct JsonName {
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<Vec<u8>>,
}

impl JsonName {
    pub(in crate::render) fn new(name: &[u8]) -> Self {
        let name = if name.is_empty() { b"." } else { name };
        match std::str::from_utf8(name) {
            Ok(text) => Self { path: text.to_owned(), path_bytes: None },
            Err(_) => Self { path: printable(name), path_bytes: Some(name.to_vec()) },
        }
    }
}
