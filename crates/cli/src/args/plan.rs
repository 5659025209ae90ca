//! `haul plan`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use haul_plan::Target;

use super::{FilterArgs, LinkArgs, OutputArgs};
use crate::settings::{MOST_ENTRIES, number, parse_part};

const EXAMPLES: &str = "\
Examples:
  haul plan nas:/srv/share/
  haul plan --target-kind smb --unfit rename.txt /srv/share/
  haul plan --parts 8 --lists part -0 /data/
  haul copy -0 --files-from part.0001 /data/ host1:/data/    … or any tool that takes lists
  haul probe --json /data/ nas:/data/ > figures; haul plan --probe figures /data/

Lists name every file, link and special file once, and folders in which nothing was found; paths are below
SRC.

Exit codes: 0 all of it was looked at, and all names fit; 1 some entries could not be looked at, or names do
not fit the target, or cannot be listed; 4 SRC could not be reached.";

/// The words of `--target-kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetKind {
    /// File systems of Unix: 255 bytes in a name
    Posix,
    /// eCryptfs, as encrypted shares of some NAS: 143 bytes
    Ecryptfs,
    /// NTFS, and SMB shares
    #[value(alias = "smb")]
    Ntfs,
    /// exFAT
    Exfat,
    /// FAT32
    Fat32,
    /// APFS of macOS, which does not tell upper from lower case
    Apfs,
    /// S3 and what speaks it
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

/// Say what is in a tree: counts, sizes, the largest, names that do not fit; cut it into balanced parts
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    /// What to look at
    #[arg(value_name = "SRC")]
    pub(crate) source: OsString,
    /// How many of the largest, widest and deepest are named
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = |text: &str| number::<u32>(text, "names", 0, 10_000))]
    pub(crate) top: u32,
    /// Find names that a target of this kind could not hold
    #[arg(long, value_name = "KIND", value_enum)]
    pub(crate) target_kind: Option<TargetKind>,
    /// Write all such names to FILE, as --files-from takes them (with -0 if names hold newlines)
    #[arg(long, value_name = "FILE", requires = "target_kind")]
    pub(crate) unfit: Option<PathBuf>,
    /// Estimate the time of a copy by the figures in FILE, which `haul probe --json` printed; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) probe: Option<OsString>,
    /// Cut it into N parts of about the same bytes and the same number of entries
    #[arg(long, value_name = "N", value_parser = |text: &str| number::<u32>(text, "parts", 1, 1000),
          conflicts_with_all = ["part_size", "part_files"], help_heading = "Parts")]
    pub(crate) parts: Option<u32>,
    /// Cut it into parts of at most SIZE bytes; a larger file is a part of its own
    #[arg(long, value_name = "SIZE", value_parser = parse_part, help_heading = "Parts")]
    pub(crate) part_size: Option<u64>,
    /// Cut it into parts of at most N entries
    #[arg(long, value_name = "N", value_parser = |text: &str| number::<u64>(text, "entries", 1, MOST_ENTRIES),
          help_heading = "Parts")]
    pub(crate) part_files: Option<u64>,
    /// Write the paths of each part to PREFIX.0001, PREFIX.0002 and so on, as --files-from takes them (-0 if names
    /// hold newlines)
    #[arg(long, value_name = "PREFIX", help_heading = "Parts")]
    pub(crate) lists: Option<PathBuf>,
    /// What is looked at.
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// The remote end.
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    /// What is shown.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
