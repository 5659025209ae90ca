//! `haul plan`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use haul_plan::Target;

use super::{FilterArgs, GivenArgs, LinkArgs, LinksArgs, OutputArgs};
use crate::values::{MOST_ENTRIES, number, parse_part};

const EXAMPLES: &str = "\
Examples:
  haul plan nas:/srv/share/
  haul plan --target-kind smb --unfit rename.txt /srv/share/
  haul plan --parts 8 --lists part -0 /data/
  haul copy -0 --files-from part.0001 /data/ host1:/data/
  haul probe --json /data/ nas:/data/ > figures
  haul plan --probe figures /data/

Lists name every file, link and special file once, and empty directories.
Paths are relative to SRC.

Exit codes:
  0  the whole tree was read and all names are valid
  1  some entries could not be read, are invalid on the target or cannot be
     listed
  4  connection or login failed";

/// The values of `--target-kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetKind {
    /// Unix file systems: names of up to 255 bytes
    Posix,
    /// eCryptfs, used for encrypted shares of some NAS: names of up to 143 bytes
    Ecryptfs,
    /// NTFS and SMB shares
    #[value(alias = "smb")]
    Ntfs,
    /// exFAT
    Exfat,
    /// FAT32
    Fat32,
    /// APFS of macOS, case-insensitive
    Apfs,
    /// S3 and compatible stores
    S3,
    /// Google Cloud Storage
    Gs,
    /// Azure Blob Storage
    Az,
}

impl From<TargetKind> for Target {
    fn from(word: TargetKind) -> Self {
        match word {
            TargetKind::Posix => Self::Posix,
            TargetKind::Ecryptfs => Self::Ecryptfs,
            TargetKind::Ntfs => Self::Ntfs,
            TargetKind::Exfat => Self::Exfat,
            TargetKind::Fat32 => Self::Fat32,
            TargetKind::Apfs => Self::Apfs,
            TargetKind::S3 => Self::S3,
            TargetKind::Gs => Self::Gs,
            TargetKind::Az => Self::Az,
        }
    }
}

/// Analyse a tree and split it into balanced file lists
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    /// The tree to analyse
    #[arg(value_name = "SRC")]
    pub(crate) source: OsString,
    /// Length of the lists of largest, widest and deepest entries
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = |text: &str| number::<u32>(text, "names", 0, 10_000))]
    pub(crate) top: u32,
    /// Report names that are invalid on this kind of target
    #[arg(long, value_name = "KIND", value_enum)]
    pub(crate) target_kind: Option<TargetKind>,
    /// Write all invalid names to FILE, in the format of --files-from (use -0 if names contain newlines)
    #[arg(long, value_name = "FILE", requires = "target_kind")]
    pub(crate) unfit: Option<PathBuf>,
    /// Predict the time of a copy from FILE, the output of `haul probe --json`; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) probe: Option<OsString>,
    /// Split into N parts with about the same number of bytes and entries
    #[arg(long, value_name = "N", value_parser = |text: &str| number::<u32>(text, "parts", 1, 1000),
          conflicts_with_all = ["part_size", "part_files"], help_heading = "Parts")]
    pub(crate) parts: Option<u32>,
    /// Split into parts of at most SIZE bytes; a larger file is a part of its own
    #[arg(long, value_name = "SIZE", value_parser = parse_part, help_heading = "Parts")]
    pub(crate) part_size: Option<u64>,
    /// Split into parts of at most N entries
    #[arg(long, value_name = "N", value_parser = |text: &str| number::<u64>(text, "entries", 1, MOST_ENTRIES),
          help_heading = "Parts")]
    pub(crate) part_files: Option<u64>,
    /// Write the paths of each part to PREFIX.0001, PREFIX.0002 and so on, in the format of --files-from (use -0 if
    /// names contain newlines)
    #[arg(long, value_name = "PREFIX", help_heading = "Parts")]
    pub(crate) lists: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) links: LinksArgs,
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
