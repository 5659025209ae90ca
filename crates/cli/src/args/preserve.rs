//! Options for metadata that is not taken over from the source, or changed.

use clap::{ArgAction, Args};
use haul_core::{IdRule, ModeChange};

use crate::values::{Chown, parse_chmod, parse_chown, parse_map};

/// The changes of one `--chmod`. A list that is one value needs a name of its own for clap.
type ModeChanges = Vec<ModeChange>;
/// The rules of `--usermap` or `--groupmap`.
type IdRules = Vec<IdRule>;

const HEADING: &str = "Metadata";

/// Options for metadata that is not taken over from the source, or changed.
#[derive(Clone, Debug, Args)]
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
    /// Do not set times, nor compare them in `verify`; the next copy copies all again, except with --size-only or -c
    ///
    /// haul still compares modification times to find the files that changed, as rsync does: a file that was copied
    /// without its time differs in the next run. haul then writes every file to a temporary file first, also on network
    /// file systems, because the time cannot mark a file as complete.
    #[arg(long, help_heading = HEADING)]
    pub(crate) no_times: bool,
    /// Do not compare or set the times of directories
    ///
    /// As with rsync -O: a directory gets the times of the last change that haul makes in it.
    #[arg(short = 'O', long, help_heading = HEADING)]
    pub(crate) omit_dir_times: bool,
    /// Do not compare or set the times of symbolic links
    #[arg(short = 'J', long, help_heading = HEADING)]
    pub(crate) omit_link_times: bool,
    /// Do not compare or set POSIX ACLs
    #[arg(long, help_heading = HEADING)]
    pub(crate) no_acls: bool,
    /// Do not compare or set extended attributes other than ACLs
    #[arg(long, help_heading = HEADING)]
    pub(crate) no_xattrs: bool,
    /// Change modes: octal or symbolic, with D for directories or F for files only (D755,F644 or Dg+s,go-w)
    ///
    /// As in rsync: a list of changes, separated by commas, applied to the modes of SRC in their order; several --chmod
    /// add up. `X` adds execute permission only to directories, and to files that have it for somebody. Symbols without
    /// u, g, o or a leave out the bits of the umask. With --no-perms only new entries are affected.
    #[arg(long, value_name = "CHANGES", value_parser = parse_chmod, action = ArgAction::Append,
          help_heading = HEADING)]
    pub(crate) chmod: Vec<ModeChanges>,
    /// Give everything to USER and GROUP at DST, names or numbers (USER, USER:GROUP or :GROUP)
    #[arg(long, value_name = "USER:GROUP", value_parser = parse_chown, help_heading = HEADING)]
    pub(crate) chown: Option<Chown>,
    /// Map owners of SRC to owners at DST (alice:bob,1000-1999:33,*:nobody); the first match counts
    ///
    /// FROM is a name at SRC, a pattern of names with `*`, `?` and `[`, a number, a range LOW-HIGH, or nothing, for
    /// numbers without a name. TO is a name at DST or a number. Owners without a match stay as they are. SFTP servers
    /// and object stores have no names: use numbers there.
    #[arg(long, value_name = "FROM:TO,...", value_parser = parse_map, help_heading = HEADING)]
    pub(crate) usermap: Option<IdRules>,
    /// Map groups of SRC to groups at DST, like --usermap
    #[arg(long, value_name = "FROM:TO,...", value_parser = parse_map, help_heading = HEADING)]
    pub(crate) groupmap: Option<IdRules>,
}
