//! The differences that a comparison finds.

/// A difference between source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Difference {
    /// The destination lacks the entry.
    Missing,
    /// The content differs.
    Differs,
    /// Only the metadata differs.
    Metadata,
    /// Only the destination has the entry.
    Extra,
}

/// How many differences of each kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Differences {
    /// Entries that the destination lacks.
    pub(crate) missing: u64,
    /// Entries whose content differs.
    pub(crate) differs: u64,
    /// Entries of which only the metadata differs.
    pub(crate) metadata: u64,
    /// Entries that only the destination has.
    pub(crate) extra: u64,
}

impl Differences {
    /// Counts one.
    pub(crate) fn count(&mut self, difference: Difference) {
        *match difference {
            Difference::Missing => &mut self.missing,
            Difference::Differs => &mut self.differs,
            Difference::Metadata => &mut self.metadata,
            Difference::Extra => &mut self.extra,
        } += 1;
    }
}
