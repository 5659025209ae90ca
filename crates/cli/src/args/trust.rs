//! What a source is trusted with.

use clap::Args;

/// What is taken over from the source besides plain files, folders and links.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Make character and block devices, also from a source that is not yours (a store, another user's account)
    #[arg(long, overrides_with = "no_devices", help_heading = "Safety")]
    pub(crate) devices: bool,
    /// Make no character and block devices
    #[arg(long, help_heading = "Safety")]
    pub(crate) no_devices: bool,
    /// Keep set-ID bits, file capabilities and trusted.* attributes, also from a source that is not yours
    ///
    /// Where the source is an object store, or is reached as `user@host` with another user's name than yours, whoever may
    /// write there could give himself rights here. So devices and set-ID bits are left out by default; the summary says so.
    #[arg(long, overrides_with = "no_suid", help_heading = "Safety")]
    pub(crate) suid: bool,
    /// Keep no set-ID bits, file capabilities and trusted.* attributes
    #[arg(long, help_heading = "Safety")]
    pub(crate) no_suid: bool,
    /// Leave out symbolic links that point outside of the tree that is copied
    #[arg(long, help_heading = "Safety")]
    pub(crate) safe_links: bool,
}
