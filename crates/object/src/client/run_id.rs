//! The id of a run, which each object carries as metadata.

/// The metadata key of the id. It identifies an object of this run when the answer to its creation was lost.
pub const RUN: &str = "haul-run";

/// A fresh id as metadata.
#[must_use]
pub fn run_metadata() -> (String, String) {
    (RUN.to_owned(), run_name())
}

/// A unique id.
#[must_use]
pub fn run_name() -> String {
    haul_core::digest::hex(&haul_core::random::number().to_le_bytes())
}
