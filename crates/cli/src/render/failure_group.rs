//! Entries that failed for the same reason, and the words for it.

use haul_core::{Error, ErrorKind};

/// Entries that failed for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailureGroup {
    /// The operation that failed, and the cause: `failed to read (source): Permission denied`. If a directory refuses
    /// its entries, the directory and the cause: `DIR (destination): Permission denied`.
    pub(crate) cause: String,
    /// The kind of the error.
    pub(crate) kind: ErrorKind,
    /// The hint, if there is one.
    pub(crate) hint: Option<String>,
    /// The number of entries.
    pub(crate) count: u64,
    /// The first names.
    pub(crate) names: Vec<Vec<u8>>,
    /// The line that says all of it, if a directory refuses these entries.
    pub(crate) line: Option<String>,
}

impl FailureGroup {
    /// Names kept per cause.
    pub(super) const NAMES: usize = 10;

    pub(super) fn new(cause: String, error: &Error, name: &[u8]) -> Self {
        let hint = error.hint().map(str::to_owned);
        Self { cause, kind: error.kind(), hint, count: 1, names: vec![name.to_vec()], line: None }
    }

    /// Adds an entry. Returns the size of the group.
    pub(super) fn add(&mut self, name: &[u8]) -> u64 {
        self.count += 1;
        if self.names.len() < Self::NAMES {
            self.names.push(name.to_vec());
        }
        self.count
    }
}

/// The error without its subject.
pub(super) fn cause_of(error: &Error) -> String {
    format!("failed to {}{}: {}", error.operation(), side_of(error), error.cause())
}

/// The side of an error, in its text.
pub(super) fn side_of(error: &Error) -> &'static str {
    match error.side() {
        haul_core::Side::Source => " (source)",
        haul_core::Side::Destination => " (destination)",
        haul_core::Side::Wire | haul_core::Side::Local => "",
    }
}
