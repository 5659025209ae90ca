//! Output settings, from the options.

use crate::args::{AcceptedArgs, ManifestArgs, OutputArgs, PreserveArgs, TransferArgs, VerifyArgs};
use crate::manifest::{ManifestNames, ManifestRequest};
use crate::render::{OutputSettings, Showing};
use crate::values::ManifestFormat;

/// When progress is shown.
pub(super) fn showing(progress: bool, no_progress: bool) -> Showing {
    match (progress, no_progress) {
        (true, _) => Showing::Always,
        (false, true) => Showing::Never,
        (false, false) => Showing::AsFits,
    }
}

/// The output settings of all commands.
pub(super) fn settings(args: &OutputArgs) -> OutputSettings {
    OutputSettings {
        quiet: args.quiet,
        json: args.json,
        log_file: args.log_file.clone(),
        progress: showing(args.progress, args.no_progress),
        ..OutputSettings::default()
    }
}

/// The output settings of `put` and `get`.
pub(super) fn stream_settings(
    args: &OutputArgs,
    manifest: &ManifestArgs,
    names: ManifestNames,
) -> OutputSettings {
    let sha256 = manifest.wants_sha256();
    let ManifestArgs { manifest, sign, .. } = manifest;
    OutputSettings {
        manifest: manifest.clone().map(|file| ManifestRequest { file, sha256, key: sign.clone(), names }),
        ..settings(args)
    }
}

/// The output settings of `copy` and `sync`.
pub(super) fn transfer_settings(args: &TransferArgs) -> OutputSettings {
    OutputSettings {
        manifest: args.manifest.clone().map(|file| ManifestRequest {
            file,
            sha256: args.manifest_format == ManifestFormat::Sha256,
            key: args.sign.clone(),
            names: ManifestNames::Path,
        }),
        failed: args.failed.clone().map(|path| (path, args.filter.from0)),
        verbose: args.verbose,
        itemize: args.itemize_changes,
        dry_run: args.dry_run,
        strict: args.strict,
        gives_owners: gives_owners(&args.preserve),
        ..asked_for_progress(settings(&args.output), &args.accepted)
    }
}

/// The output settings of `verify`.
pub(super) fn verify_settings(args: &VerifyArgs) -> OutputSettings {
    let settings =
        OutputSettings { verbose: args.verbose, lists_equal: args.verbose, ..settings(&args.output) };
    asked_for_progress(settings, &args.accepted)
}

/// Whether the user gives entries the owners that a warning about owners is for. It is the same for groups, so those
/// that are given count only if the owners are left out.
fn gives_owners(args: &PreserveArgs) -> bool {
    let chown = args.chown.as_ref();
    let user = args.usermap.is_some() || chown.is_some_and(|chown| chown.user.is_some());
    let group = args.groupmap.is_some() || chown.is_some_and(|chown| chown.group.is_some());
    user || group && args.no_owner
}

/// Applies rsync's options for progress. haul's own options take precedence.
pub(super) fn asked_for_progress(settings: OutputSettings, accepted: &AcceptedArgs) -> OutputSettings {
    if accepted.progress() && settings.progress == Showing::AsFits && !settings.quiet {
        return OutputSettings { progress: Showing::Always, ..settings };
    }
    settings
}
