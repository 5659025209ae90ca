//! Options for metadata that is not taken over from the source.

use clap::Args;

const HEADING: &str = "Metadata";

/// Options for metadata that is not taken over from the source.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PreserveArgs {
    /// Do not compare or set owners
    ///
    /// New and replaced files belong to the user who runs haul at DST. Files that would run with the rights of another
    /// owner or group than at SRC get no set-ID bits.
    #[arg(long, help_heading = HEADING)]
    pub(crate) no_owner: bool,
    /// Do not compare or set groups
    ///
    /// New and replaced files get the group that DST gives them: that of the user or, in a directory with the set-GID
    /// bit, that of the directory. Set-ID bits as for --no-owner.
    #[arg(long, help_heading = HEADING)]
    pub(crate) no_group: bool,
    /// Do not compare or set permissions and ACLs
    ///
    /// New entries get the permissions that they have at SRC, as far as the umask at DST (or the default ACL of the
    /// directory) allows, without set-ID and sticky bits. A replaced file keeps the permissions that it has at DST,
    /// without set-ID bits.
    #[arg(long, help_heading = HEADING)]
    pub(crate) no_perms: bool,
    /// Do not set times; the next run copies all files again, except with --size-only or -c
    ///
    /// haul still compares modification times to find the files that changed, as rsync does: a file that was copied
    /// without its time differs in the next run. haul then writes every file to a temporary file first, also on network
    /// file systems, because the time cannot mark a file as complete.
    #[arg(long, help_heading = HEADING)]
    pub(crate) no_times: bool,
    /// Do not compare or set POSIX ACLs
    #[arg(long, help_heading = HEADING)]
    pub(crate) no_acls: bool,
    /// Do not compare or set extended attributes other than ACLs
    #[arg(long, help_heading = HEADING)]
    pub(crate) no_xattrs: bool,
}
