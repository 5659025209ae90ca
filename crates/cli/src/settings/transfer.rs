//! Settings of a copy, from the options.

use haul_core::{Compare, Delta, Preserve, Result, ScanOptions, SinkOptions};
use haul_job::TrustRequest;

use super::errors::usage;
use super::rules::read_rules;
use crate::args::{DeltaMode, FilterArgs, PreserveArgs, TransferArgs, TrustArgs, VerifyMode};

/// The settings of a copy.
#[derive(Clone, Debug)]
pub(crate) struct TransferSettings {
    /// Filters. The rules are relative to the transfer: see [`haul_core::filter::Rule::below`].
    pub(crate) scan: ScanOptions,
    /// What the destination does.
    pub(crate) sink: SinkOptions,
    /// Trust in the source.
    pub(crate) trust: TrustRequest,
}

impl TransferSettings {
    /// Converts the options.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if rules cannot be read or options contradict each other.
    pub(crate) fn resolve(args: &TransferArgs) -> Result<Self> {
        let compare = match (args.checksum || args.manifest.is_some(), args.size_only) {
            (true, _) => Compare::Checksum,
            (false, true) => Compare::SizeOnly,
            (false, false) => Compare::SizeAndTime,
        };
        let scan = ScanOptions { owner_names: args.owner_by_name, ..scan_options(&args.filter)? };
        let sink = SinkOptions {
            compare,
            ignore_existing: args.ignore_existing,
            existing: args.existing,
            update: args.update,
            modify_window: args.modify_window,
            dry_run: args.dry_run,
            durable: !args.no_fsync,
            recheck: !args.no_recheck,
            verify_disk: args.verify == VerifyMode::Disk,
            owner_by_name: args.owner_by_name,
            atomic: args.atomic,
            delta: match args.delta.delta {
                DeltaMode::Auto => Delta::Alike,
                DeltaMode::On => Delta::Always,
                DeltaMode::Off => Delta::Never,
            },
            in_place: args.delta.inplace,
            preserve: preserve(args)?,
        };
        Ok(Self { scan, sink, trust: trust(&args.trust) })
    }
}

/// Which metadata is taken over.
fn preserve(args: &TransferArgs) -> Result<Preserve> {
    let PreserveArgs { no_owner, no_group, no_perms, no_times, no_acls, no_xattrs } = args.preserve;
    if args.owner_by_name && no_owner && no_group {
        let why = "--no-owner and --no-group leave nothing to map";
        return Err(usage("use --owner-by-name", why).with_hint("omit it, or one of the two"));
    }
    Ok(Preserve {
        owner: !no_owner,
        group: !no_group,
        perms: !no_perms,
        times: !no_times,
        acls: !no_acls,
        xattrs: !no_xattrs,
    })
}

/// The trust in the source. Of two contradicting options clap has already dropped the first one.
fn trust(args: &TrustArgs) -> TrustRequest {
    let choice = |yes: bool, no: bool| (yes || no).then_some(yes);
    TrustRequest {
        devices: choice(args.devices, args.no_devices),
        set_ids: choice(args.suid, args.no_suid),
        safe_links: args.safe_links,
    }
}

/// The filters.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if rules cannot be read.
pub(crate) fn scan_options(args: &FilterArgs) -> Result<ScanOptions> {
    Ok(ScanOptions {
        starts: Vec::new(),
        rules: read_rules(&args.words, args.from0)?,
        min_size: args.min_size,
        max_size: args.max_size,
        one_file_system: args.one_file_system,
        owner_names: false,
        tells_left_out: false,
    })
}
