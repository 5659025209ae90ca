//! What a source is trusted with.

use clap::Args;

/// What is taken over from the source besides plain files, folders and links.
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
    /// Default: haul keeps them, and creates devices, only if SRC is on this machine, or on a host that is reached
    /// without a user name or with your own. From an object store, or from `user@host` with another user name, haul
    /// leaves them out and says so in the summary: whoever can write there could otherwise get rights on this machine.
    #[arg(long, overrides_with = "no_suid", help_heading = "Safety")]
    pub(crate) suid: bool,
    /// Do not keep set-ID bits, file capabilities and trusted.* attributes
    #[arg(long, help_heading = "Safety")]
    pub(crate) no_suid: bool,
    /// Leave out symbolic links that are absolute or point outside of the copied tree
    #[arg(long, help_heading = "Safety")]
    pub(crate) safe_links: bool,
}
