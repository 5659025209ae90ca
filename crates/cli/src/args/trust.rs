//! Options for metadata that gives rights on the destination.

use clap::Args;

/// Options for metadata that gives rights on the destination.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Create character and block devices even if SRC is an object store or another user's account (see --suid)
    #[arg(long, overrides_with = "no_devices", help_heading = "Safety")]
    pub(crate) devices: bool,
    /// Do not create character and block devices
    #[arg(long, help_heading = "Safety")]
    pub(crate) no_devices: bool,
    /// Keep set-ID bits, file capabilities and trusted.* attributes even if SRC is an object store or another user's
    /// account
    ///
    /// By default haul keeps them, and creates devices, only if SRC is local, or on a host that is reached without a
    /// user name or with your own. From an object store, or from `user@host` with another user name, haul skips them
    /// and reports it in the summary: whoever can write there could otherwise gain rights on this host.
    #[arg(long, overrides_with = "no_suid", help_heading = "Safety")]
    pub(crate) suid: bool,
    /// Do not keep set-ID bits, file capabilities and trusted.* attributes
    #[arg(long, help_heading = "Safety")]
    pub(crate) no_suid: bool,
    /// Skip symbolic links that are absolute or point outside of the copied tree
    #[arg(long, help_heading = "Safety")]
    pub(crate) safe_links: bool,
}
