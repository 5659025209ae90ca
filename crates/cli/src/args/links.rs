//! The treatment of symbolic links of the source.

use clap::Args;
use haul_core::Links;

/// Options for symbolic links of the source.
#[derive(Clone, Debug, Args)]
pub(crate) struct LinksArgs {
    /// Transform symbolic links at SRC into the files and directories that they point to
    ///
    /// As with rsync -L, at every depth, and also if a link leads out of SRC. A link that points to nothing fails, and so
    /// does one that leads back to a directory above it. Links at DST are never followed because of this option. A
    /// remote haul that is confined to a directory follows links only within it, and no absolute ones.
    #[arg(short = 'L', long, help_heading = "Filters")]
    pub(crate) copy_links: bool,
}

impl LinksArgs {
    /// Whether the source follows or keeps links.
    pub(crate) fn links(&self) -> Links {
        if self.copy_links { Links::Followed } else { Links::Kept }
    }
}
