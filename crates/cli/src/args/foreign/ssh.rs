//! Words of ssh, scp, mscp and fpsync.

use super::word::Tool::{Fpsync, Mc, Mscp, Rclone, Rsync, Scp};
use super::word::Verdict::Hint;
use super::word::{HOSTS, OBJECTS, STREAMS, TREES, Word, word};

const SSH: &str = "give options of ssh with -e, as in -e 'ssh -p 2222 -i KEY', or in ssh_config";
const HOSTS_AND_LS: &[&str] = &["copy", "sync", "verify", "hash", "plan", "probe", "ls"];
const NO_SSH: &str = "it uses object stores, not ssh: omit it";

pub(super) const WORDS: &[Word] = &[
    word(&["--port"], &[Rsync, Scp, Mscp], HOSTS_AND_LS, Hint(SSH)),
    word(
        &["--contimeout"],
        &[Rsync, Rclone],
        HOSTS,
        Hint("use --timeout SECONDS, and for the login -e 'ssh -o ConnectTimeout=SECONDS'"),
    ),
    word(&["--contimeout"], &[Rclone], OBJECTS, Hint("use --timeout SECONDS")),
    word(&["-F", "-J", "-i", "-Q", "--identity-file"], &[Scp, Mscp], STREAMS, Hint(NO_SSH)),
    word(&["-Q", "--identity-file"], &[Scp, Mscp], HOSTS_AND_LS, Hint(SSH)),
    word(&["-J"], &[Scp, Mscp], &["hash", "plan", "probe", "ls"], Hint(SSH)),
    word(&["-F"], &[Scp, Mscp], &["ls"], Hint(SSH)),
    // Short names that tools use for different things.
    word(
        &["-C"],
        &[Rsync, Scp],
        TREES,
        Hint(
            "to exclude what CVS ignores, use --cvs-exclude; for the compression of ssh, omit it, as haul compresses if that is faster",
        ),
    ),
    word(
        &["-m"],
        &[Rsync, Mscp],
        TREES,
        Hint("haul copies empty directories too: use --exclude (the CPUs of mscp: use `taskset`)"),
    ),
    word(
        &["-w"],
        &[Fpsync, Mc],
        TREES,
        Hint(
            "haul has no workers and no watching: run it on each host, with the lists of `haul plan --parts N --lists PREFIX SRC`, or repeat it with cron",
        ),
    ),
    word(&["-p", "-o"], &[Scp, Mscp], &["hash", "plan", "probe"], Hint(SSH)),
    word(
        &["-3"],
        &[Scp],
        TREES,
        Hint("haul copies between two hosts directly, or through this one: omit it"),
    ),
    word(&["--congestion-control"], &[Mscp], HOSTS, Hint("use --congestion NAME")),
    word(&["-g"], &[Mscp], &["hash", "plan", "probe"], Hint("use --congestion NAME")),
    word(
        &["-w"],
        &[Fpsync],
        &["verify"],
        Hint("haul runs between two ends: start one `haul verify` for each host"),
    ),
    word(
        &["-W"],
        &[Mscp, Fpsync],
        &["verify", "hash", "plan", "probe"],
        Hint("haul has no checkpoints and no hooks: the same command resumes"),
    ),
    word(&["-b"], &[Fpsync], &["plan"], Hint("use -x, which does not cross into other file systems")),
    word(&["-s"], &[Fpsync], &["plan"], Hint("use --part-size SIZE")),
    word(&["-n"], &[Fpsync], &["plan"], Hint("use --parts N")),
    word(&["-y"], &[Fpsync], &["plan"], Hint("use --include PATTERN and --exclude PATTERN")),
    word(
        &["-E", "-D", "-Z"],
        &[Fpsync],
        &["plan"],
        Hint("haul always lists empty directories and never splits by directory: omit it"),
    ),
    word(
        &["-d"],
        &[Fpsync],
        &["plan"],
        Hint("haul has no splitting by depth: --parts N balances bytes and entries"),
    ),
];
