//! Opens sources and sinks on the share.

use std::sync::Arc;

use haul_core::{Error, ErrorKind, Links, Place, Result, Side, Sink, SinkOptions, Source};

use super::session::Smb;
use super::source::SmbSource;
use super::state::SmbSink;
use super::tree::Tree;

impl Smb {
    /// Opens a source on the share.
    ///
    /// # Errors
    /// `Usage` if links are to be followed; if the path cannot be resolved.
    pub fn open_source(self: &Arc<Self>, place: &Place, links: Links) -> Result<Arc<dyn Source>> {
        if links.are_followed() {
            let cause =
                "haul copies no links from a share: those of a Samba server, the server follows itself";
            let error = Error::new(ErrorKind::Usage, Side::Source, "use --copy-links", cause);
            return Err(error.with_hint("omit the option"));
        }
        Ok(Arc::new(SmbSource::new(Tree::open(self, place, Side::Source)?)))
    }

    /// Opens a sink on the share. Missing directories above the root are created with the first entry.
    ///
    /// # Errors
    /// If the path cannot be resolved.
    pub fn open_sink(self: &Arc<Self>, place: &Place, options: &SinkOptions) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(SmbSink::new(Tree::open(self, place, Side::Destination)?, options.clone())))
    }
}
