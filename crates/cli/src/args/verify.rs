//! `haul verify`.

use std::ffi::OsString;

use clap::Args;

use super::{AcceptedByVerify, FilterArgs, LinkArgs, OutputArgs, StoreEndArgs};

const USAGE: &str = "haul verify [OPTIONS] SRC DST\n       haul verify [OPTIONS] --manifest FILE DST";

const EXAMPLES: &str = "\
Examples:
  haul verify db1:/var/lib/mysql/ /var/lib/mysql/
  haul hash /data/ > data.b3 && haul verify --manifest data.b3 nas:/data/

Exit code 3: something is missing at DST, or differs. What only DST has is told and does no harm.";

/// Compare content by digest and report each difference
#[derive(Debug, Args)]
#[command(args_override_self = true, override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// The two ends; the same as they were given to copy. With --manifest only DST
    #[arg(value_name = "END", required = true, num_args = 1..)]
    pub(crate) ends: Vec<OsString>,
    /// Compare DST with the digests that FILE lists, as `haul hash` or b3sum wrote them; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["exclude", "include", "exclude-from", "include-from",
          "from0", "min-size", "max-size", "one-file-system"])]
    pub(crate) manifest: Option<OsString>,
    /// Words of rsync for what is done anyway.
    #[command(flatten)]
    pub(crate) accepted: AcceptedByVerify,
    /// What is looked at.
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// The remote end.
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    /// The object store.
    #[command(flatten)]
    pub(crate) store: StoreEndArgs,
    /// What is shown.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
