//! Options for older versions at DST: backups of replaced and deleted entries, and links to earlier copies.

use std::ffi::OsString;

use clap::{ArgAction, Args};

/// Options for older versions at DST.
#[derive(Clone, Debug, Args)]
pub(crate) struct OlderArgs {
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
    /// Instead of copying a file, link it to DIR's file of the same path if that has the same metadata
    ///
    /// DIR is the copy of an earlier run on the destination host, relative to DST unless it is absolute. haul compares
    /// size, times, mode, owner and attributes, as they are preserved, and makes a hard link if all are equal. So each
    /// of many copies looks complete, and an unchanged file takes space once. Give it up to 20 times; the first DIR
    /// that has the file counts.
    #[arg(long, value_name = "DIR", action = ArgAction::Append, conflicts_with_all = ["inplace", "checksum", "manifest",
          "ignore_times"], help_heading = "Transfer")]
    pub(crate) link_dest: Vec<OsString>,
    /// Do not make an entry that DST lacks and DIR has with the same metadata: DST gets only the changes since
    ///
    /// DIR and the comparison are those of --link-dest. Directories are made in any case. An entry that DST has is
    /// updated as always. A file with several names (hard links) at SRC is made too.
    #[arg(long, value_name = "DIR", action = ArgAction::Append, conflicts_with_all = ["inplace", "checksum", "manifest",
          "ignore_times", "link_dest"], help_heading = "Transfer")]
    pub(crate) compare_dest: Vec<OsString>,
}
