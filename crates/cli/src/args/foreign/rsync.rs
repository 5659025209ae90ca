//! Words of rsync for what haul does too.

use super::word::Tool::{Aws, Mc, Rclone, Rsync, S5cmd, Scp};
use super::word::Verdict::{Default, Means, Same, Undoes};
use super::word::{COMPARES, TREES, Word, word};

/// rsync has only a short name for `--devices --specials`.
pub(super) const WORDS: &[Word] = &[
    word(&["--recursive", "-r"], &[Rsync, Scp, Aws, Mc], COMPARES, Default),
    word(&["--links", "-l"], &[Rsync, Rclone], COMPARES, Default),
    word(&["--perms", "-p"], &[Rsync, Scp], COMPARES, Undoes("--no-perms")),
    word(&["--times", "-t"], &[Rsync], COMPARES, Undoes("--no-times")),
    word(&["--atimes", "-U"], &[Rsync], COMPARES, Default),
    word(&["--group", "-g"], &[Rsync], COMPARES, Undoes("--no-group")),
    word(&["--owner", "-o"], &[Rsync], COMPARES, Undoes("--no-owner")),
    word(&["-D"], &[Rsync], COMPARES, Default),
    word(&["--specials"], &[Rsync], COMPARES, Default),
    word(&["--hard-links", "-H"], &[Rsync], COMPARES, Default),
    word(&["--acls", "-A"], &[Rsync], COMPARES, Undoes("--no-acls")),
    word(&["--xattrs", "-X"], &[Rsync], COMPARES, Undoes("--no-xattrs")),
    word(&["--no-o"], &[Rsync], COMPARES, Same("--no-owner")),
    word(&["--no-g"], &[Rsync], COMPARES, Same("--no-group")),
    word(&["--no-p"], &[Rsync], COMPARES, Same("--no-perms")),
    word(&["--no-t"], &[Rsync], COMPARES, Same("--no-times")),
    word(&["--no-A"], &[Rsync], COMPARES, Same("--no-acls")),
    word(&["--no-X"], &[Rsync], COMPARES, Same("--no-xattrs")),
    word(&["--sparse", "-S"], &[Rsync], COMPARES, Default),
    word(&["--partial"], &[Rsync], COMPARES, Default),
    word(&["--mkpath"], &[Rsync], COMPARES, Default),
    word(&["--inc-recursive", "--i-r"], &[Rsync], COMPARES, Default),
    word(&["--secluded-args", "--protect-args", "-s"], &[Rsync], COMPARES, Default),
    word(&["--stats"], &[Rsync], COMPARES, Default),
    word(&["--stat"], &[S5cmd], COMPARES, Default),
    word(&["--no-motd"], &[Rsync], COMPARES, Default),
    word(&["--fsync"], &[Rsync], TREES, Undoes("--no-fsync")),
    word(&["--fsync"], &[Rsync], &["verify"], Default),
    word(&["--numeric-ids"], &[Rsync], COMPARES, Undoes("--owner-by-name")),
    word(&["--archive", "-a"], &[Rsync], &["verify"], Default),
    word(&["--checksum", "-c"], &[Rsync, Rclone], &["verify"], Default),
    word(&["--dry-run", "-n"], &[Rsync, Rclone], &["verify"], Default),
    word(&["--ignore-non-existing"], &[Rsync], TREES, Same("--existing")),
    word(&["--remove-sent-files"], &[Rsync], &["copy"], Same("--remove-source-files")),
    word(
        &["--del", "--delete-before", "--delete-during", "--delete-delay", "--delete-after"],
        &[Rsync, Rclone],
        &["sync"],
        Same("--delete"),
    ),
    word(&["--remove"], &[Mc], &["sync"], Same("--delete")),
    word(&["--compress-choice", "--zc"], &[Rsync], TREES, Same("--compress")),
    word(&["--no-compress", "--no-z"], &[Rsync], TREES, Means("--compress", "none")),
    word(&["--whole-file", "-W"], &[Rsync], TREES, Means("--delta", "off")),
    word(&["--no-whole-file", "--no-W"], &[Rsync], TREES, Means("--delta", "on")),
];
