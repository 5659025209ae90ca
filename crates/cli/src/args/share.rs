//! Options of SMB shares.

use std::path::PathBuf;

use clap::Args;

/// Options of SMB shares.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ShareArgs {
    /// File with user and password for smb://, as for mount.cifs
    ///
    /// It has the lines `username=USER`, `password=PASSWORD` and perhaps `domain=DOMAIN`. Nobody but its owner may be able
    /// to read it. A password is tried once, because servers lock accounts. The user `guest` needs no file. Without a
    /// password, haul uses the Kerberos ticket of the user (`kinit`), if there is one.
    #[arg(long, value_name = "FILE", help_heading = "SMB shares")]
    pub(crate) smb_credentials: Option<PathBuf>,
    /// Encrypt everything that goes to and from a share, or fail
    ///
    /// Without it, everything is signed, and encrypted if the server demands it.
    #[arg(long, help_heading = "SMB shares")]
    pub(crate) smb_encrypt: bool,
    /// Keep the security descriptors of shares: owner, group and permissions (DACL)
    ///
    /// From share to share they stay as they are. Elsewhere they become the extended attribute `user.smb.security`, from
    /// which a later copy to a share with this option sets them. A server that refuses to set another owner gets the rest.
    /// It costs a request for each entry.
    #[arg(long, help_heading = "SMB shares")]
    pub(crate) smb_acls: bool,
    /// Keep their lists of audited accesses (SACL), too
    ///
    /// It includes --smb-acls. The user needs the right to manage the audit log at both shares (SeSecurityPrivilege).
    #[arg(long, help_heading = "SMB shares")]
    pub(crate) smb_sacls: bool,
    /// Keep the alternate data streams of files and directories on shares
    ///
    /// From share to share they stay as they are. Elsewhere each becomes the extended attribute
    /// `user.smb.stream.NAME`, from which a later copy to a share with this option writes it. An entry with more than
    /// 64 KiB in its streams fails. It costs a request for each entry.
    #[arg(long, help_heading = "SMB shares")]
    pub(crate) smb_streams: bool,
    /// Keep the times of creation of files and directories on shares
    ///
    /// Elsewhere such a time becomes the extended attribute `user.smb.creation-time`, in units of 100 ns since 1601, from
    /// which a later copy to a share with this option sets it.
    #[arg(long, help_heading = "SMB shares")]
    pub(crate) smb_creation_times: bool,
    /// Open files on shares with the intent to back them up
    ///
    /// On a Windows server, a member of the group Backup Operators reads and writes files of others with it. Samba
    /// ignores it.
    #[arg(long, help_heading = "SMB shares")]
    pub(crate) smb_backup_intent: bool,
    /// Replace characters that SMB cannot have in names, as mount.cifs does
    ///
    /// Those are : * ? " < > | \, control characters, and a dot or a space at the end of a name. Each becomes a
    /// character of a private range, which Linux and macOS show as the original one and Windows as a box. So does the
    /// first character of a name that Windows reserves (CON, aux.c). Without it, entries with such names fail.
    #[arg(long, help_heading = "SMB shares")]
    pub(crate) smb_map_names: bool,
}
