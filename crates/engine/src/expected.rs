//! Computes the entries that a copy would create from those of the source: `verify` compares the destination with them.

use std::sync::Arc;

use haul_core::{Entry, MetaNote};

use crate::changes::{Changer, MetadataChanges};
use crate::meter::Meter;
use crate::trust::{Trust, TrustFilter};

/// Drops the entries and attributes that the source is not trusted with, and changes modes and owners.
pub(crate) struct ExpectedEntries {
    trust: TrustFilter,
    changer: Changer,
}

impl ExpectedEntries {
    pub(crate) fn new(trust: Trust, changes: &MetadataChanges) -> Self {
        Self { trust: TrustFilter::new(trust), changer: Changer::new(changes) }
    }

    /// The entries as a copy would create them. Rejected ones are counted.
    pub(crate) fn entries(&self, entries: Vec<Entry>, meter: &Meter<'_>) -> Vec<Arc<Entry>> {
        let mut expected = Vec::with_capacity(entries.len());
        for entry in entries {
            let Some(entry) = self.trust.admit(entry) else {
                meter.totals().left += 1;
                continue;
            };
            let path = entry.path.clone();
            match self.changer.change(entry) {
                Ok(entry) => expected.push(Arc::new(entry)),
                Err(error) => meter.fail(&path, error),
            }
        }
        expected
    }

    /// The dropped entries and attributes, one note for each kind.
    pub(crate) fn left_out(&self) -> Vec<MetaNote> {
        self.trust.rejected()
    }
}
