//! Options for backups of what is replaced or deleted at DST.

use std::ffi::OsString;

use clap::Args;

/// Options for backups of what is replaced or deleted at DST.
#[derive(Clone, Debug, Args)]
pub(crate) struct BackupArgs {
    /// Keep the old version of each entry that is replaced or deleted, as NAME~
    ///
    /// haul makes the backup before it replaces or deletes the entry: files, links and special files, but not
    /// directories. It replaces an older backup of the same name. An entry of SRC cannot have the name of a backup, and
    /// `sync` deletes no backups.
    #[arg(short = 'b', long, conflicts_with = "inplace", help_heading = "Safety")]
    pub(crate) backup: bool,
    /// Keep old versions in DIR on the destination host, under their paths in DST; implies --backup
    ///
    /// DIR is relative to DST unless it is absolute, and on the same file system.
    #[arg(long, value_name = "DIR", conflicts_with = "inplace", help_heading = "Safety")]
    pub(crate) backup_dir: Option<OsString>,
    /// The end of the names of backups [default: ~; none with --backup-dir]
    #[arg(long, value_name = "SUFFIX", help_heading = "Safety")]
    pub(crate) suffix: Option<OsString>,
}
