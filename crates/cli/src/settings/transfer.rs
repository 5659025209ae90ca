//! What is copied and how, from the words about it.

use haul_core::{Compare, Delta, Result, ScanOptions, SinkOptions};

use super::rules::read_rules;
use super::trust::TrustSettings;
use crate::args::{DeltaMode, FilterArgs, TransferArgs, VerifyMode};

/// How a tree is copied.
#[derive(Clone, Debug)]
pub(crate) struct TransferSettings {
    /// What is looked at. The rules bear no root name yet: see [`haul_core::filter::Rule::below`].
    pub(crate) scan: ScanOptions,
    /// What the destination does with it.
    pub(crate) sink: SinkOptions,
    /// What the source is trusted with.
    pub(crate) trust: TrustSettings,
}

impl TransferSettings {
    /// Resolves the words.
    ///
    /// # Errors
    /// If rules cannot be read.
    pub(crate) fn resolve(args: &TransferArgs) -> Result<Self> {
        let compare = match (args.checksum, args.size_only) {
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
        };
        Ok(Self { scan, sink, trust: TrustSettings::resolve(&args.trust) })
    }
}

/// What is looked at.
///
/// # Errors
/// If rules cannot be read.
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
