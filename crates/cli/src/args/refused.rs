//! rsync's options that hands type and haul does not have: what to do instead.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// Options of rsync, and what they come to here.
const TABLE: &[(&[&str], &str)] = &[
    (&["-r", "--recursive"], "folders are always copied with all that is in them: leave it out"),
    (
        &[
            "-t",
            "-p",
            "-o",
            "-g",
            "-l",
            "-D",
            "-A",
            "-X",
            "-H",
            "-S",
            "--times",
            "--perms",
            "--owner",
            "--group",
            "--links",
            "--acls",
            "--xattrs",
            "--hard-links",
            "--sparse",
            "--devices",
            "--specials",
        ],
        "times, modes, owners, links, ACLs, attributes and holes are always kept: leave it out",
    ),
    (
        &["-P", "--partial"],
        "progress is shown and an interrupted run goes on when it is run again: leave it out",
    ),
    (
        &["--compress-choice", "--zc", "--compress-level", "--zl"],
        "--compress takes auto, none, lz4, zstd and zstd:LEVEL",
    ),
    (
        &["--delete", "--delete-after", "--delete-before", "--delete-during", "--del"],
        "`haul copy` never deletes; `haul sync` does",
    ),
    (
        &["-R", "--relative"],
        "paths of --files-from keep their place; otherwise use SRC/ and the DST you mean",
    ),
    (
        &["--append", "--append-verify"],
        "of a file that grew, its new end is sent anyway (see --delta): leave it out",
    ),
    (&["-W", "--whole-file"], "use --delta off"),
    (&["--no-whole-file", "--no-W"], "use --delta on"),
    (&["-i", "--itemize-changes"], "use -v, or -n to see what would be done"),
];

/// Puts into `error` what to do instead of the option that it complains of, if haul knows it.
pub(crate) fn explain(error: &mut clap::Error) {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return };
    let name = argument.split(['=', ' ']).next().unwrap_or_default();
    if let Some((_, advice)) = TABLE.iter().find(|(names, _)| names.contains(&name)) {
        let advice = ContextValue::StyledStrs(vec![StyledStr::from(*advice)]);
        error.insert(ContextKind::Suggested, advice);
    }
}
