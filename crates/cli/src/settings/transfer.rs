//! Settings of a copy, from the options.

use std::os::unix::ffi::OsStrExt;

use haul_core::owner_map::OwnerTo;
use haul_core::{
    Backup, Compare, Delta, IdRule, MAX_REFERENCES, OwnerMap, Preserve, ReferencePurpose, References, Result,
    ScanOptions, SinkOptions,
};
use haul_engine::MetadataChanges;
use haul_job::TrustRequest;

use super::errors::usage;
use super::rules::read_rules;
use super::selection::check_ages;
use crate::args::{DeltaMode, FilterArgs, OlderArgs, PreserveArgs, TransferArgs, TrustArgs, VerifyMode};
use crate::values::Chown;

/// The settings of a copy.
#[derive(Clone, Debug)]
pub(crate) struct TransferSettings {
    /// Filters. The rules are relative to the transfer: see [`haul_core::filter::Rules::below`].
    pub(crate) scan: ScanOptions,
    /// The options of the destination.
    pub(crate) sink: SinkOptions,
    /// Trust in the source.
    pub(crate) trust: TrustRequest,
    /// Changes of modes, owners and groups.
    pub(crate) changes: MetadataChanges,
}

impl TransferSettings {
    /// Converts the options.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if rules cannot be read or options contradict each other.
    pub(crate) fn resolve(args: &TransferArgs) -> Result<Self> {
        let compare = match args {
            TransferArgs { checksum: true, .. } | TransferArgs { manifest: Some(_), .. } => Compare::Checksum,
            TransferArgs { size_only: true, .. } => Compare::SizeOnly,
            TransferArgs { ignore_times: true, .. } => Compare::Nothing,
            _ => Compare::SizeAndTime,
        };
        let changes = changes(&args.preserve)?;
        let owner_names = args.owner_by_name || changes.owners.needs_names();
        let scan = ScanOptions { owner_names, ..scan_options(&args.filter)? };
        let sink = SinkOptions {
            compare,
            ignore_existing: args.ignore_existing,
            existing: args.existing,
            update: args.update,
            modify_window: args.modify_window,
            // Known when the source is open.
            source_time_unit: 0,
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
            keep_dirlinks: args.dirlinks.keep_dirlinks,
            in_place: args.delta.inplace,
            preserve: preserve(&args.preserve, args.owner_by_name)?,
            references: references(&args.older)?,
            backup: backup(&args.older)?,
            // Only where it is printed: it may take further operations.
            itemize: args.itemize_changes
                || args.output.log_file.is_some()
                || args.output.json && (args.verbose || args.dry_run),
        };
        Ok(Self { scan, sink, trust: trust(&args.trust), changes })
    }
}

/// Which metadata is taken over.
pub(super) fn preserve(args: &PreserveArgs, owner_by_name: bool) -> Result<Preserve> {
    let PreserveArgs { no_owner, no_group, no_perms, no_times, no_acls, no_xattrs, .. } = *args;
    let PreserveArgs { omit_dir_times, omit_link_times, .. } = *args;
    if owner_by_name && no_owner && no_group {
        let why = "--no-owner and --no-group leave nothing to map";
        return Err(usage("use --owner-by-name", why).with_hint("omit it, or one of the two"));
    }
    Ok(Preserve {
        owner: !no_owner,
        group: !no_group,
        perms: !no_perms,
        times: !no_times,
        dir_times: !omit_dir_times,
        link_times: !omit_link_times,
        acls: !no_acls,
        xattrs: !no_xattrs,
    })
}

/// The earlier copies. Only one of the options is given.
fn references(args: &OlderArgs) -> Result<References> {
    let (option, dirs, purpose) = if args.compare_dest.is_empty() {
        ("--link-dest", &args.link_dest, ReferencePurpose::Link)
    } else {
        ("--compare-dest", &args.compare_dest, ReferencePurpose::Omit)
    };
    let refused = |why: &str| Err(usage(&format!("use {option}"), why));
    if dirs.len() > MAX_REFERENCES {
        return refused("it was given more than 20 times");
    }
    if dirs.iter().any(|dir| dir.is_empty()) {
        return refused("the name of the directory is empty");
    }
    Ok(References { dirs: dirs.iter().map(|dir| dir.as_bytes().to_vec()).collect(), purpose })
}

/// Where old versions go.
fn backup(args: &OlderArgs) -> Result<Option<Backup>> {
    let refused = |why: &str| Err(usage("use --suffix", why));
    let dir = args.backup_dir.as_ref().map(|dir| dir.as_bytes().to_vec());
    let suffix = args.suffix.as_ref().map(|suffix| suffix.as_bytes().to_vec());
    if !args.backup && dir.is_none() {
        return if suffix.is_some() { refused("--backup is missing") } else { Ok(None) };
    }
    if dir.as_ref().is_some_and(Vec::is_empty) {
        return Err(usage("use --backup-dir", "the name of the directory is empty"));
    }
    let suffix = suffix.unwrap_or_else(|| if dir.is_none() { b"~".to_vec() } else { Vec::new() });
    if suffix.contains(&b'/') {
        return refused("a name cannot contain a slash");
    }
    if suffix.is_empty() && dir.is_none() {
        return refused("without a suffix or --backup-dir, a backup has the name of the entry itself");
    }
    Ok(Some(Backup { dir, suffix }))
}

/// Changes of modes, owners and groups.
pub(super) fn changes(args: &PreserveArgs) -> Result<MetadataChanges> {
    let chown = args.chown.clone().unwrap_or(Chown { user: None, group: None });
    let rules = |all: Option<OwnerTo>, map: &Option<Vec<IdRule>>, names: [&str; 2], left_out: bool| {
        let [option, drop] = names;
        if all.is_some() && map.is_some() {
            return Err(usage(&format!("use {option}"), "--chown gives all entries one already"));
        }
        if left_out && (all.is_some() || map.is_some()) {
            let option = if all.is_some() { "--chown" } else { option };
            return Err(usage(&format!("use {option}"), format!("{drop} sets none")));
        }
        Ok(all.map(|to| vec![IdRule::for_all(to)]).or_else(|| map.clone()).unwrap_or_default())
    };
    let users = rules(chown.user, &args.usermap, ["--usermap", "--no-owner"], args.no_owner)?;
    let groups = rules(chown.group, &args.groupmap, ["--groupmap", "--no-group"], args.no_group)?;
    let modes = args.chmod.concat();
    Ok(MetadataChanges { modes, owners: OwnerMap { users, groups } })
}

/// The trust in the source. Of two contradicting options clap has already dropped the first one.
pub(super) fn trust(args: &TrustArgs) -> TrustRequest {
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
    check_ages(args.max_age, args.min_age)?;
    Ok(ScanOptions {
        rules: read_rules(args)?,
        min_size: args.min_size,
        max_size: args.max_size,
        modified_from: args.max_age,
        modified_until: args.min_age,
        one_file_system: args.one_file_system,
        ..ScanOptions::default()
    })
}
