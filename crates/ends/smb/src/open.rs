//! Opens sources and sinks on the share.

use std::sync::Arc;

use haul_core::{Links, Place, Result, Side, Sink, SinkOptions, Source};

use super::session::Smb;
use super::source::SmbSource;
use super::state::SmbSink;
use super::tree::Tree;

impl Smb {
    /// Opens a source on the share. Links that are to be followed are errors: a Samba server follows those of its disk
    /// itself, and shows none. With `keeps_reparse_points`, the sink is a share too: the source has entries that nothing
    /// else can hold.
    ///
    /// # Errors
    /// If the path cannot be resolved.
    pub fn open_source(
        self: &Arc<Self>,
        place: &Place,
        links: Links,
        keeps_reparse_points: bool,
    ) -> Result<Arc<dyn Source>> {
        let mut tree = Tree::open(self, place, Side::Source)?;
        (tree.links, tree.keeps_reparse_points) = (links, keeps_reparse_points);
        Ok(Arc::new(SmbSource::new(tree)))
    }

    /// Opens a sink on the share. Missing directories above the root are created with the first entry. With
    /// `keeps_reparse_points`, the source is a share too: the sink makes the entries that nothing else can hold. Any other
    /// source may make up such entries, and the sink ignores the attributes that tell of them.
    ///
    /// # Errors
    /// If the path cannot be resolved.
    pub fn open_sink(
        self: &Arc<Self>,
        place: &Place,
        options: &SinkOptions,
        keeps_reparse_points: bool,
    ) -> Result<Arc<dyn Sink>> {
        let mut tree = Tree::open(self, place, Side::Destination)?;
        tree.keeps_reparse_points = keeps_reparse_points;
        Ok(Arc::new(SmbSink::new(tree, options.clone())))
    }
}
