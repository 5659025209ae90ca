//! Opens sources and sinks on the share.

use std::sync::Arc;

use haul_core::{Links, Place, Result, Side, Sink, SinkOptions, Source};

use super::session::Smb;
use super::source::SmbSource;
use super::state::SmbSink;
use super::tree::Tree;

impl Smb {
    /// Opens a source on the share. Links are errors, whatever `links` says: a Samba server follows its own itself, and
    /// shows none.
    ///
    /// # Errors
    /// If the path cannot be resolved.
    pub fn open_source(self: &Arc<Self>, place: &Place, links: Links) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(SmbSource::new(Tree::open(self, place, Side::Source)?, links)))
    }

    /// Opens a sink on the share. Missing directories above the root are created with the first entry.
    ///
    /// # Errors
    /// If the path cannot be resolved.
    pub fn open_sink(self: &Arc<Self>, place: &Place, options: &SinkOptions) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(SmbSink::new(Tree::open(self, place, Side::Destination)?, options.clone())))
    }
}
