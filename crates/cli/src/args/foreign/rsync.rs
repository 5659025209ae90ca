//! Words of rsync for what haul does too.

use super::word::Tool::{Aws, Mc, Rclone, Rsync, S5cmd, Scp};
use super::word::Verdict::{Default, Means, Same, Undoes};
use super::word::{COMPARES, TREES, Word, word};

/// rsync has only a short name for `--devices --specials`.
pub(super) const WORDS: &[Word] = &[
    word(&["--recursive", "-r"], &[Rsync, Scp, Aws, Mc], COMPARES, Default),
    word(&["--links", "-l"], &[Rsync, Rclone], COMPARES, Default),
    word(&["--perms", "-p"], &[Rsync, Scp], COMPARES, Default),
    word(&["--times", "-t"], &[Rsync], COMPARES, Default),
    word(&["--atimes", "-U"], &[Rsync], COMPARES, Default),
    word(&["--group", "-g"], &[Rsync], COMPARES, Default),
    word(&["--owner", "-o"], &[Rsync], COMPARES, Default),
    word(&["-D"], &[Rsync], COMPARES, Default),
    word(&["--specials"], &[Rsync], COMPARES, Default),
    word(&["--hard-links", "-H"], &[Rsync], COMPARES, Default),
    word(&["--acls", "-A"], &[Rsync], COMPARES, Default),
    word(&["--xattrs", "-X"], &[Rsync], COMPARES, Default),
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
    word(&["--numeric-ids"], &[Rsync], TREES, Undoes("--owner-by-name")),
    word(&["--numeric-ids"], &[Rsync], &["verify"], Default),
    word(&["--archive", "-a"], &[Rsync], &["verify"], Default),
    word(&["--checksum", "-c"], &[Rsync, Rclone], &["verify"], Default),
    word(&["--dry-run", "-n"], &[Rsync, Rclone], &["verify"], Default),
    word(&["--devices"], &[Rsync], &["verify"], Default),
    word(&["--ignore-non-existing"], &[Rsync], TREES, Same("--existing")),
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
