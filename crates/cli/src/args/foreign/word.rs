//! A word of another tool, and what haul does with it.

use Tool::{Aws, Fpsync, Mc, Mscp, Rclone, Robocopy, Rsync, S5cmd, Scp, Xbcloud};

/// A tool that people come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Rsync,
    Rclone,
    Scp,
    Mscp,
    Fpsync,
    Xbcloud,
    Aws,
    S5cmd,
    Mc,
    Robocopy,
}

impl Tool {
    /// All tools, in the order of the documentation.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 10] = [Rsync, Rclone, Scp, Mscp, Fpsync, Xbcloud, Aws, S5cmd, Mc, Robocopy];

    /// The name of the program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Rsync => "rsync",
            Rclone => "rclone",
            Scp => "scp",
            Mscp => "mscp",
            Fpsync => "fpsync",
            Xbcloud => "xbcloud",
            Aws => "aws s3",
            S5cmd => "s5cmd",
            Mc => "mc",
            Robocopy => "robocopy",
        }
    }
}

/// What haul does with a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    /// haul always does this: accepted, without effect.
    Default,
    /// Accepted with these values, which mean what haul always does.
    DefaultValue(&'static [&'static str]),
    /// haul does this by default: accepted, and undoes the given option of haul if it comes later.
    Undoes(&'static str),
    /// The same as an option of haul, with its values.
    Same(&'static str),
    /// The same as an option of haul with one value.
    Means(&'static str, &'static str),
    /// Refused with this advice.
    Hint(&'static str),
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    /// Long names with `--`, short ones with `-`, those of robocopy with `/`.
    pub(crate) names: &'static [&'static str],
    /// The tools that have the word.
    pub(crate) tools: &'static [Tool],
    /// The commands of haul that the row is for.
    pub(crate) at: &'static [&'static str],
    /// What haul does with it.
    pub(crate) verdict: Verdict,
}

/// A row.
pub(super) const fn word(
    names: &'static [&'static str],
    tools: &'static [Tool],
    at: &'static [&'static str],
    verdict: Verdict,
) -> Word {
    Word { names, tools, at, verdict }
}

/// Commands that write trees.
pub(super) const TREES: &[&str] = &["copy", "sync"];
/// Commands with the options of `copy` that compare.
pub(super) const COMPARES: &[&str] = &["copy", "sync", "verify"];
/// Commands that read trees, also from hosts and stores.
pub(super) const READS: &[&str] = &["copy", "sync", "verify", "hash"];
/// Commands that take hosts.
pub(super) const HOSTS: &[&str] = &["copy", "sync", "verify", "hash", "plan", "probe"];
/// Commands that select by size and age.
pub(super) const SELECTS: &[&str] = &["copy", "sync", "verify", "hash", "plan", "probe", "ls", "rm"];
/// Commands for streams.
pub(super) const STREAMS: &[&str] = &["put", "get"];
/// Commands for objects.
pub(super) const OBJECTS: &[&str] = &["put", "get", "ls", "rm"];
/// Commands that use object stores.
pub(super) const STORES: &[&str] =
    &["copy", "sync", "verify", "hash", "put", "get", "ls", "rm", "stat", "mb", "rb", "presign"];
/// Commands with `--json`.
pub(super) const REPORTS: &[&str] = &["copy", "sync", "verify", "plan", "probe", "put", "get", "ls"];
/// Commands with `--log-file`.
pub(super) const LOGGED: &[&str] = &["copy", "sync", "verify", "plan", "probe", "put", "get"];
/// All commands that take locations.
pub(super) const ALL: &[&str] = &[
    "copy", "sync", "verify", "hash", "put", "get", "ls", "rm", "stat", "mb", "rb", "presign", "plan",
    "probe",
];
