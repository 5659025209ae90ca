//! Words of rsync that haul refuses, with what to do instead.

use super::word::Tool::{Aws, Mc, Rclone, Rsync, S5cmd};
use super::word::Verdict::Hint;
use super::word::{COMPARES, HOSTS, READS, REPORTS, TREES, Word, word};

const NO_DELETE: &str = "`haul copy` never deletes; `haul sync` does";
const KEPT: &str = "haul always keeps links, hard links and holes; it reports what it cannot set, and fails only with --strict";
const FOUND: &str =
    "haul adapts compression itself: omit it (--compress takes auto, none, lz4, zstd and zstd:LEVEL)";
const NO_SETTING: &str = "haul has no such setting, because it does not use rsync's protocol: omit it";
const JSON: &str = "use --json for machine-readable output";
const LINKS: &str =
    "haul copies symbolic links as links, or with -L as what they point to; it has nothing in between";
const SAME: &str = "haul skips files of the same size and time; -c compares their content";
const TEMPORARY: &str =
    "haul writes a temporary file in the same directory and renames each file when it is complete: omit it";
const EARLIER: &str = "use --link-dest, which links to the unchanged files of an earlier copy, or --compare-dest, which leaves them out";
const FILTERS: &str =
    "use --exclude, --include, --filter and the options for files of rules; the first matching rule wins";
const END_TIME: &str = "use --max-duration TIME, as in --max-duration 30m, or --stop-at TIME";
const DIGEST: &str = "haul always verifies every file with BLAKE3: omit it";

pub(super) const WORDS: &[Word] = &[
    word(
        &["--delete-after", "--delete-before", "--delete-during", "--delete-delay", "--del"],
        &[Rsync, Rclone],
        &["copy"],
        Hint(NO_DELETE),
    ),
    word(&["--delete"], &[Rsync, Aws, S5cmd], &["copy"], Hint(NO_DELETE)),
    word(&["--remove"], &[Mc], &["copy"], Hint(NO_DELETE)),
    word(&["--max-delete", "--ignore-errors"], &[Rsync, Rclone], &["copy"], Hint(NO_DELETE)),
    word(&["--delete-excluded"], &[Rsync, Rclone], &["copy"], Hint(NO_DELETE)),
    word(
        &["--delete-missing-args", "--ignore-missing-args"],
        &[Rsync],
        TREES,
        Hint("haul reports a missing source as a failure and copies the others"),
    ),
    word(
        &["--force"],
        &[Rsync],
        &["copy"],
        Hint(
            "haul replaces an empty directory with a file, never a directory with entries; `haul sync` does",
        ),
    ),
    word(
        &["--force"],
        &[Rsync],
        &["sync"],
        Hint("haul always replaces a directory of DST with a file of the same name: omit it"),
    ),
    word(&["--compress-level", "--zl"], &[Rsync], TREES, Hint("use --compress zstd:LEVEL")),
    word(
        &["--compress-threads", "--skip-compress", "--old-compress", "--new-compress", "--zz", "--zt"],
        &[Rsync],
        TREES,
        Hint(FOUND),
    ),
    word(
        &["--no-implied-dirs"],
        &[Rsync],
        TREES,
        Hint(
            "haul always copies the directories above with their metadata: write `/./` in the path to leave some out",
        ),
    ),
    word(
        &["--append", "--append-verify"],
        &[Rsync],
        TREES,
        Hint("haul sends only the new end of a file that grew (see --delta): omit it"),
    ),
    word(
        &["-B", "--block-size", "--checksum-seed", "-y", "--fuzzy"],
        &[Rsync],
        TREES,
        Hint("--delta compares 16 KiB blocks with the file of the same name"),
    ),
    word(
        &["-v", "--verbose"],
        &[Rsync, Rclone, Mc],
        &["verify"],
        Hint("`haul verify` names every difference: omit it"),
    ),
    word(
        &["-v", "--verbose"],
        &[Rsync, Rclone, Mc],
        &["hash", "put", "get", "ls", "rm", "plan", "probe"],
        Hint("haul lists each entry only in `haul copy` and `haul sync`: omit it"),
    ),
    word(
        &["-i"],
        &[Rsync],
        &["verify", "hash", "plan", "probe", "ls"],
        Hint("for a key of ssh, use -e 'ssh -i KEY'"),
    ),
    word(&["--out-format", "--log-format", "--log-file-format"], &[Rsync], REPORTS, Hint(JSON)),
    word(&["--debug"], &[Rsync, Aws, Mc], REPORTS, Hint(JSON)),
    word(&["--copy-unsafe-links", "-k", "--copy-dirlinks", "--munge-links"], &[Rsync], READS, Hint(LINKS)),
    word(
        &["--no-follow-symlinks"],
        &[Aws, S5cmd],
        READS,
        Hint("haul follows no symbolic links without -L; it copies them as links: omit it"),
    ),
    word(
        &["-K", "--keep-dirlinks"],
        &[Rsync],
        TREES,
        Hint(
            "haul never writes through a symbolic link below DST, because whoever can make one there would choose where: copy that directory by itself, to the one that the link points to",
        ),
    ),
    word(
        &["-d", "--dirs", "--old-dirs", "--no-recursive", "--no-r"],
        &[Rsync],
        COMPARES,
        Hint("haul always copies directories with their contents: use --exclude"),
    ),
    word(
        &["--no-inc-recursive", "--no-i-r"],
        &[Rsync],
        COMPARES,
        Hint("haul always copies while it scans: omit it"),
    ),
    word(
        &["--no-links", "--no-l", "--no-hard-links", "--no-H", "--no-sparse", "--no-S"],
        &[Rsync],
        TREES,
        Hint(KEPT),
    ),
    word(&["--no-D", "--no-specials", "--drop-D"], &[Rsync], TREES, Hint("use --no-devices, or --exclude")),
    word(
        &["-E", "--executability", "-N", "--crtimes", "--super", "--fake-super", "--copy-as"],
        &[Rsync],
        TREES,
        Hint(
            "haul copies modes and owners as they are, unless --chmod, --chown, --usermap or --no-perms says otherwise",
        ),
    ),
    word(
        &["--copy-devices", "--write-devices"],
        &[Rsync],
        TREES,
        Hint("haul copies device nodes, not the content of devices"),
    ),
    word(&["--ignore-size"], &[Rclone], TREES, Hint(SAME)),
    word(&["-T", "--temp-dir", "--partial-dir", "--delay-updates"], &[Rsync], TREES, Hint(TEMPORARY)),
    word(&["--partial-suffix"], &[Rclone], TREES, Hint(TEMPORARY)),
    word(&["--copy-dest"], &[Rsync, Rclone], TREES, Hint(EARLIER)),
    word(
        &["--remove-source-files", "--remove-sent-files"],
        &[Rsync],
        &["sync"],
        Hint(
            "`haul sync` deletes at DST what SRC lacks, so the next run would delete what this one moved: use `haul mv SRC DST`",
        ),
    ),
    word(&["--prune-empty-dirs"], &[Rsync], TREES, Hint("haul copies empty directories too; use --exclude")),
    word(&["--files-from-raw"], &[Rclone], HOSTS, Hint(FILTERS)),
    word(&["--filter-from"], &[Rclone], HOSTS, Hint("use --filter 'merge FILE'")),
    word(
        &["--files-from"],
        &[Rsync, Rclone],
        &["hash", "plan", "probe"],
        Hint("only `haul copy`, `haul sync` and `haul verify` take lists; use --exclude and --include"),
    ),
    word(&["--rsync-path"], &[Rsync], HOSTS, Hint("use --remote-haul PATH")),
    word(&["--address"], &[Rsync], HOSTS, Hint("use --bind ADDRESS")),
    word(
        &["--sockopts", "--blocking-io", "--outbuf", "-8", "--8-bit-output", "--stderr", "--remote-option"],
        &[Rsync],
        HOSTS,
        Hint(NO_SETTING),
    ),
    word(
        &["-M"],
        &[Rsync, Rclone],
        TREES,
        Hint("haul has no remote options, and always keeps metadata: omit it"),
    ),
    word(&["--protocol"], &[Rsync], HOSTS, Hint("haul on both hosts has the same version: omit it")),
    word(
        &["--password-file", "--early-input", "--daemon"],
        &[Rsync],
        HOSTS,
        Hint("haul does not speak the rsync protocol: use host:PATH, over ssh"),
    ),
    word(
        &["--trust-sender", "--old-args", "--insecure-links", "--confine-root"],
        &[Rsync],
        HOSTS,
        Hint("haul checks all that another host sends, and passes no path to a shell: omit it"),
    ),
    word(&["--max-alloc"], &[Rsync], HOSTS, Hint("use --max-memory SIZE")),
    word(
        &["--list-only"],
        &[Rsync],
        TREES,
        Hint("use `haul ls LOCATION`, or -n to see what would be copied"),
    ),
    word(
        &["--write-batch", "--only-write-batch", "--read-batch"],
        &[Rsync],
        TREES,
        Hint("haul has no batch files, because it compares with each DST: run it once per DST"),
    ),
    word(
        &["--iconv"],
        &[Rsync],
        TREES,
        Hint(
            "haul has no conversion of names, because it keeps every byte; `haul plan --target-kind KIND SRC` lists those that a target cannot hold",
        ),
    ),
    word(
        &["--preallocate", "--open-noatime", "--ignore-non-files"],
        &[Rsync],
        TREES,
        Hint("haul has no such setting: it chooses itself how it reads and writes files"),
    ),
    word(&["--stop-after", "--time-limit"], &[Rsync], TREES, Hint(END_TIME)),
    word(&["--checksum-choice", "--cc"], &[Rsync], COMPARES, Hint(DIGEST)),
    word(&["--hash"], &[Rclone], COMPARES, Hint(DIGEST)),
    word(
        &["--no-human-readable", "--no-h"],
        &[Rsync],
        REPORTS,
        Hint("haul always prints readable sizes; --json has bytes"),
    ),
    word(
        &["--size-only", "-u", "--update"],
        &[Rsync, Rclone, Aws],
        &["verify"],
        Hint("`haul verify` always compares content; `haul copy -n --size-only SRC DST` compares sizes"),
    ),
    word(
        &["-z", "--compress"],
        &[Rsync],
        &["verify", "hash", "plan", "probe"],
        Hint("it sends no content: omit it"),
    ),
    word(&["-0"], &[Rsync], &["get", "put", "ls", "rm"], Hint("it reads no list: omit it")),
    word(
        &["--bwlimit"],
        &[Rsync, Rclone],
        &["put", "get", "verify", "hash"],
        Hint("haul limits the bandwidth only of `haul copy` and `haul sync`"),
    ),
    word(
        &["--exclude", "--include"],
        &[Rclone, Aws, S5cmd],
        &["put", "get", "ls", "rm"],
        Hint("only commands for trees have filters, as in `haul copy --exclude PATTERN SRC DST`"),
    ),
    word(&["-e", "--rsh"], &[Rsync], &["rm"], Hint("it uses object stores, not ssh: omit it")),
    word(
        &["-a", "--archive"],
        &[Rsync, Mc],
        &["hash", "plan", "probe", "put", "get", "rm"],
        Hint("haul always does that in `haul copy`: omit it"),
    ),
    word(
        &["-r", "--recursive"],
        &[Rsync, Mc],
        &["hash", "plan", "probe", "put", "get"],
        Hint(
            "haul reads a directory with all its contents, and `haul put` and `haul get` one object: omit it",
        ),
    ),
    word(&["--progress"], &[Rsync, Rclone], &["ls", "rm"], Hint("it shows no progress: omit it")),
    word(&["-P"], &[Rsync, Rclone], &["put", "get", "hash", "plan", "probe"], Hint("use --progress")),
    word(&["-q", "--quiet"], &[Rsync, Rclone, Aws], &["ls"], Hint("it prints only the list: omit it")),
    word(
        &["-n", "--dry-run"],
        &[Rsync, Rclone, S5cmd],
        &["hash", "ls", "probe"],
        Hint("it changes nothing at SRC: omit it"),
    ),
    word(
        &["-n", "--dry-run"],
        &[Rsync, Rclone, S5cmd],
        &["get"],
        Hint("it has no dry run: `haul ls URL` lists the object"),
    ),
];
