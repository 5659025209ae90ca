//! Settings of `haul verify`, from the options.

use haul_core::{Compare, Result, ScanOptions, SinkOptions};
use haul_engine::MetadataChanges;
use haul_job::TrustRequest;

use super::transfer::{changes, preserve, scan_options, trust};
use crate::args::VerifyArgs;

/// The settings of `verify`: it compares DST with the result that a copy with the same options would have.
pub(crate) struct VerifySettings {
    /// Filters. The rules are relative to the transfer: see [`haul_core::filter::Rules::below`].
    pub(crate) scan: ScanOptions,
    /// How the destination compares metadata; `None`: it does not.
    pub(crate) sink: Option<SinkOptions>,
    /// Trust in the source.
    pub(crate) trust: TrustRequest,
    /// Changes of modes, owners and groups.
    pub(crate) changes: MetadataChanges,
}

impl VerifySettings {
    /// Converts the options.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if rules cannot be read or options contradict each other.
    pub(crate) fn resolve(args: &VerifyArgs) -> Result<Self> {
        let changes = changes(&args.preserve)?;
        let owner_names = args.owner_by_name || changes.owners.needs_names();
        let scan = ScanOptions { owner_names, ..scan_options(&args.filter)? };
        let sink = SinkOptions {
            compare: Compare::Metadata,
            dry_run: true,
            itemize: true,
            keep_dirlinks: args.dirlinks.keep_dirlinks,
            modify_window: args.modify_window,
            owner_by_name: args.owner_by_name,
            preserve: preserve(&args.preserve, args.owner_by_name)?,
            ..SinkOptions::default()
        };
        Ok(Self { scan, sink: (!args.content_only).then_some(sink), trust: trust(&args.trust), changes })
    }
}
