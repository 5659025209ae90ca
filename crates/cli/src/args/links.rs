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

/// Options for symbolic links of the destination.
#[derive(Clone, Debug, Args)]
pub(crate) struct DirLinksArgs {
    /// Where SRC has a directory, treat a symbolic link to a directory at DST as that directory
    ///
    /// As with rsync -K. Without it, haul replaces the link by a directory. With it, whoever can make links at DST chooses
    /// where haul writes; so a link counts only if it belongs to root, to the user of the run, or to the owner of the
    /// directory, and the entries below another link fail. haul sets the metadata of the directory, and keeps the link.
    /// `sync` deletes nothing behind such a link, unlike rsync. Only for a DST here or on a host with haul.
    #[arg(short = 'K', long, help_heading = "Filters")]
    pub(crate) keep_dirlinks: bool,
}

impl LinksArgs {
    /// Whether the source follows or keeps links.
    pub(crate) fn links(&self) -> Links {
        if self.copy_links { Links::Followed } else { Links::Kept }
    }
}
