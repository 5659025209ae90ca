//! `haul verify`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{
    AcceptedArgs, DirLinksArgs, FilterArgs, GivenArgs, LinkArgs, LinksArgs, ListArgs, OutputArgs, PagesArgs,
    PreserveArgs, StoreEndArgs, TrustArgs,
};
use crate::values::{ManifestFormat, parse_window};

const USAGE: &str = "haul verify [OPTIONS] SRC DST\n       haul verify [OPTIONS] --manifest FILE DST";

const EXAMPLES: &str = "\
Examples:
  haul verify db1:/var/lib/mysql/ /var/lib/mysql/
  haul hash /data/ > data.b3 && haul verify --manifest data.b3 nas:/data/
  haul copy --manifest data.b3 --sign ~/.ssh/id_ed25519 /data/ nas:/data/
  haul verify --manifest data.b3 --allowed-signers signers nas:/data/

Exit code 3: DST lacks files or has different content. Exit code 1: modes,
owners, times, hard links, ACLs or attributes differ, or something could not be
compared and is named (DST is not there, a file cannot be read); all other
content is equal. Give the options that change metadata (--no-owner, --chmod
...) as for the copy.
Files that only DST has are reported, but are no error.";

/// Compare content by digest, and metadata; report each difference
#[derive(Debug, Args)]
#[command(args_override_self = true, override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// Source and destination, as for `haul copy`; with --manifest only the destination
    #[arg(value_name = "LOCATION", required = true, num_args = 1..)]
    pub(crate) ends: Vec<OsString>,
    /// Compare DST with the digests in FILE, the output of `haul hash` or b3sum; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["exclude", "include", "exclude-from", "include-from",
          "files_from", "from0", "min_size", "max_size", "one_file_system", "copy_links", "modify_window", "owner_by_name",
          "no_owner", "no_group", "no_perms", "no_times", "omit_dir_times", "omit_link_times", "no_acls", "no_xattrs", "chmod", "chown", "usermap",
          "groupmap", "devices", "no_devices", "suid", "no_suid", "safe_links"])]
    pub(crate) manifest: Option<OsString>,
    /// The digests in the manifest: those of b3sum or of sha256sum
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, requires = "manifest")]
    pub(crate) manifest_format: ManifestFormat,
    /// Require a signature of the manifest (its name with .sig) by a key in FILE, as `--sign` writes it
    ///
    /// FILE is a list of allowed signers as in ssh-keygen(1): in each line a name, such as an e-mail address, and a
    /// public key. haul runs ssh-keygen, and compares nothing if the signature is missing or not valid (exit code 3).
    #[arg(long, value_name = "FILE", requires = "manifest")]
    pub(crate) allowed_signers: Option<PathBuf>,
    /// Compare kinds, links and content only, not modes, owners, times, hard links, ACLs and attributes
    #[arg(long, conflicts_with_all = ["modify_window", "owner_by_name", "no_owner", "no_group", "no_perms", "no_times",
          "no_acls", "no_xattrs", "chmod", "chown", "usermap", "groupmap"], help_heading = "Comparison")]
    pub(crate) content_only: bool,
    /// Treat modification times that differ by at most N seconds as equal; -1 compares nanoseconds
    ///
    /// By default haul compares times with the precision that DST stores. N is a whole number, with or without a unit
    /// (2, 2s).
    #[arg(long, value_name = "N", value_parser = parse_window, help_heading = "Comparison")]
    pub(crate) modify_window: Option<i64>,
    /// Compare owners and groups by name instead of by numeric ID
    #[arg(long, help_heading = "Metadata")]
    pub(crate) owner_by_name: bool,
    #[command(flatten)]
    pub(crate) preserve: PreserveArgs,
    #[command(flatten)]
    pub(crate) pages: PagesArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    #[command(flatten)]
    pub(crate) accepted: AcceptedArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    #[command(flatten)]
    pub(crate) links: LinksArgs,
    #[command(flatten)]
    pub(crate) dirlinks: DirLinksArgs,
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    #[command(flatten)]
    pub(crate) store: StoreEndArgs,
    /// List each entry that is equal, too
    #[arg(short = 'v', long, overrides_with = "quiet", help_heading = "Output")]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
