//! Options of rsync, scp, rclone, the AWS CLI, s5cmd, mscp, xbcloud and fpsync that haul does not have, and what to use
//! instead.

const FOUND: &str = "haul adapts this itself: omit it (--streams and --max-memory are the upper bounds)";
const RETRIES: &str =
    "haul retries until --timeout or --store-timeout seconds pass without progress: omit it";
const KEPT: &str = "haul always keeps modes, owners, times, links, ACLs and attributes; it reports what it cannot set, and fails only with --strict";
const SSH: &str = "give options of ssh with -e, as in -e 'ssh -p 2222 -i KEY', or in ssh_config";
const DIGEST: &str = "haul always verifies every file with BLAKE3: omit it";
const BACKUPS: &str = "haul keeps no backups of replaced or deleted files";
const FILTERS: &str =
    "use --exclude, --include, --exclude-from and --include-from; the first matching rule wins";
const LINKS: &str = "haul copies symbolic links as links; it cannot follow them";
const AGES: &str = "haul cannot select by age: use `find … -newer … -print0 | haul copy -0 --files-from -`";
const LOGS: &str = "haul writes no log file: redirect standard error, or use --json";
const SECRETS: &str = "haul reads credentials from the environment or the configuration files of the provider's tools, never from the command line";
const SNAPSHOTS: &str = "haul cannot hard-link to files of an earlier copy";
const NO_DELETE: &str = "`haul copy` never deletes; `haul sync` does";

/// Commands (all if empty), options, and what to do instead. The first row that fits counts.
pub(super) const OPTIONS: &[(&str, &[&str], &str)] = &[
    // rsync
    (
        "copy",
        &["--delete", "--del", "--delete-after", "--delete-before", "--delete-during", "--delete-delay"],
        NO_DELETE,
    ),
    ("copy", &["--max-delete", "--force-delete", "--ignore-errors"], NO_DELETE),
    (
        "",
        &["--delete-excluded"],
        "`haul sync` never deletes excluded files: delete them yourself, or drop the rule",
    ),
    (
        "",
        &["--delete-missing-args", "--ignore-missing-args"],
        "haul reports a missing source as a failure and copies the others",
    ),
    ("", &["--force"], "haul replaces an empty directory with a file, never a directory with entries"),
    (
        "copy sync",
        &["--compress-choice", "--zc", "--compress-level", "--zl"],
        "--compress takes auto, none, lz4, zstd and zstd:LEVEL",
    ),
    ("", &["--compress-threads", "--skip-compress", "--old-compress", "--new-compress", "--zz"], FOUND),
    (
        "",
        &["-R", "--relative", "--no-implied-dirs"],
        "haul keeps the paths of --files-from; otherwise give SRC/ and the full DST",
    ),
    (
        "",
        &["--append", "--append-verify"],
        "haul sends only the new end of a file that grew (see --delta): omit it",
    ),
    ("", &["-W", "--whole-file"], "use --delta off"),
    ("", &["--no-whole-file", "--no-W"], "use --delta on"),
    (
        "",
        &["-B", "--block-size", "--checksum-seed", "-y", "--fuzzy"],
        "--delta compares 16 KiB blocks with the file of the same name",
    ),
    ("verify", &["-v", "--verbose"], "`haul verify` names every difference: omit it"),
    (
        "",
        &["-i", "--itemize-changes"],
        "use -v, or -n to show what would be done (for ssh's -i, use -e 'ssh -i KEY')",
    ),
    ("", &["--out-format", "--log-file-format", "--debug"], "use --json for machine-readable output"),
    ("", &["--log-file", "--log-level", "--use-json-log", "--syslog", "--tee"], LOGS),
    ("", &["-b", "--backup", "--backup-dir", "--suffix"], BACKUPS),
    (
        "",
        &[
            "-L",
            "--copy-links",
            "--copy-unsafe-links",
            "-k",
            "--copy-dirlinks",
            "--follow-symlinks",
            "--munge-links",
        ],
        LINKS,
    ),
    (
        "",
        &["-K", "--keep-dirlinks"],
        "haul never writes through a symbolic link at DST: give the directory it points to as DST",
    ),
    (
        "",
        &["-d", "--dirs", "--old-dirs", "--no-recursive", "--no-r"],
        "haul always copies directories with their contents",
    ),
    ("", &["--no-inc-recursive", "--no-i-r"], "haul always copies while it scans: omit it"),
    (
        "",
        &[
            "--no-links",
            "--no-l",
            "--no-perms",
            "--no-p",
            "--no-times",
            "--no-t",
            "--no-group",
            "--no-g",
            "--no-owner",
            "--no-o",
            "--no-acls",
            "--no-A",
            "--no-xattrs",
            "--no-X",
            "--no-D",
            "-O",
            "--omit-dir-times",
            "--no-O",
            "-J",
            "--omit-link-times",
        ],
        KEPT,
    ),
    (
        "",
        &[
            "--chmod",
            "--chown",
            "--usermap",
            "--groupmap",
            "-E",
            "--executability",
            "-N",
            "--crtimes",
            "--super",
            "--fake-super",
            "--copy-as",
        ],
        "haul copies modes and owners as they are (--owner-by-name maps owners by name)",
    ),
    ("", &["--copy-devices", "--write-devices"], "haul copies device nodes, not the content of devices"),
    (
        "",
        &["-I", "--ignore-times", "--ignore-size"],
        "haul skips files of the same size and time; -c compares their content",
    ),
    (
        "",
        &["-T", "--temp-dir", "--partial-dir", "--delay-updates"],
        "haul writes a temporary file in the same directory and renames each file when it is complete: omit it",
    ),
    ("", &["--compare-dest", "--copy-dest", "--link-dest"], SNAPSHOTS),
    (
        "",
        &["--remove-source-files", "--remove-sent-files"],
        "haul never deletes at the source: run `haul verify SRC DST`, then delete it yourself",
    ),
    ("", &["-m", "--prune-empty-dirs"], "haul copies empty directories too; use --exclude"),
    ("", &["-f", "--filter", "-F", "-C", "--cvs-exclude", "--exclude-if-present", "--filter-from"], FILTERS),
    ("", &["--rsync-path"], "use --remote-haul PATH"),
    ("", &["--address"], "use --bind ADDRESS"),
    ("", &["--port", "--contimeout", "-4", "--ipv4", "-6", "--ipv6"], SSH),
    (
        "",
        &[
            "--sockopts",
            "--blocking-io",
            "--outbuf",
            "-8",
            "--8-bit-output",
            "--stderr",
            "-M",
            "--remote-option",
            "--protocol",
        ],
        "haul has no such setting: omit it",
    ),
    (
        "",
        &["--password-file", "--early-input", "--daemon", "--config"],
        "haul does not speak the rsync protocol: use host:PATH, over ssh",
    ),
    (
        "",
        &["--trust-sender", "--old-args", "--insecure-links", "--confine-root"],
        "haul trusts no other host with that: omit it",
    ),
    ("", &["--max-alloc"], "use --max-memory SIZE"),
    ("", &["--list-only"], "use -n"),
    (
        "",
        &[
            "--write-batch",
            "--only-write-batch",
            "--read-batch",
            "--iconv",
            "--preallocate",
            "--open-noatime",
            "--stop-after",
            "--stop-at",
            "--time-limit",
            "--drop-D",
            "--ignore-non-files",
        ],
        "haul has no equivalent",
    ),
    ("", &["--checksum-choice", "--cc", "--md5"], DIGEST),
    // rclone, s5cmd, fpsync
    (
        "",
        &[
            "--transfers",
            "--checkers",
            "--multi-thread-streams",
            "--multi-thread-cutoff",
            "--multi-thread-chunk-size",
            "--buffer-size",
            "--fast-list",
            "--s3-upload-concurrency",
            "--s3-chunk-size",
            "--s3-upload-cutoff",
            "--order-by",
            "--check-first",
            "--no-traverse",
            "--numworkers",
            "--concurrency",
            "--part-size",
            "--parallel",
            "--expected-size",
            "--max-concurrent-requests",
            "--multipart-chunksize",
        ],
        FOUND,
    ),
    (
        "",
        &[
            "--retries",
            "--low-level-retries",
            "--retries-sleep",
            "--max-retries",
            "--max-backoff",
            "--retry-count",
            "--curl-retriable-errors",
            "--http-retriable-errors",
        ],
        RETRIES,
    ),
    ("", &["--tpslimit", "--tpslimit-burst"], "--iops limits operations of file systems and SFTP"),
    ("", &["--max-age", "--min-age", "--older-than", "--newer-than", "--if-source-newer"], AGES),
    (
        "",
        &[
            "--ignore-case",
            "--max-depth",
            "--immutable",
            "--track-renames",
            "--interactive",
            "--max-transfer",
            "--max-duration",
            "--cutoff-mode",
        ],
        "haul has no equivalent",
    ),
    ("", &["--metadata-set", "-l"], "haul always keeps metadata: omit it"),
    (
        "",
        &["--exit-on-error", "--error-on-no-transfer"],
        "see the summary and the exit code; --json has the counts",
    ),
    // AWS CLI
    ("", &["--dryrun"], "use -n or --dry-run"),
    ("", &["--endpoint-url"], "use --endpoint URL"),
    ("", &["--profile"], "set AWS_PROFILE"),
    ("", &["--ca-bundle", "--cacert", "--ca-cert"], "set AWS_CA_BUNDLE"),
    (
        "",
        &["--no-verify-ssl", "--insecure", "--no-check-certificate"],
        "haul always checks certificates: set AWS_CA_BUNDLE to your own authority",
    ),
    ("", &["--no-sign-request"], "haul signs every request: credentials are required"),
    ("", &["--only-show-errors"], "use -q"),
    ("", &["--no-overwrite", "--if-size-differ"], "use --ignore-existing"),
    (
        "",
        &["--acl", "--grants", "--sse-c", "--sse-c-key", "--request-payer", "--expires"],
        "haul cannot set it",
    ),
    ("", &["--summarize", "--long"], "haul prints the size, time and name of each object, and no sums"),
    ("ls", &["-a", "--all", "-1"], "haul always lists the size, time and name of every object: omit it"),
    (
        "",
        &[
            "--access-key",
            "--secret-key",
            "--s3-access-key",
            "--s3-secret-key",
            "--secret-access-key",
            "--access-key-id",
        ],
        SECRETS,
    ),
    // xbcloud
    (
        "",
        &["--storage", "--s3-bucket", "--s3-region", "--s3-endpoint"],
        "give the store as a URL: s3://BUCKET/KEY, gs://..., az://..., with --endpoint and --region",
    ),
    ("", &["--fifo-timeout"], "haul waits one minute for the pipes"),
    // ssh, scp, mscp
    ("", &["-P", "-p", "-F", "-J", "-o", "-Q", "-W", "--identity-file"], SSH),
    ("", &["-g", "--congestion-control"], "use --congestion NAME"),
];

/// Commands of other tools, and what to run instead.
pub(super) const COMMANDS: &[(&[&str], &str)] = &[
    (&["cp", "scp", "copyto", "xcopy"], "use `haul copy SRC DST`"),
    (&["rsync", "mirror", "robocopy"], "use `haul copy SRC DST`, or `haul sync SRC DST` to delete too"),
    (
        &["mv", "move", "moveto", "rename"],
        "haul does not move: run `haul copy SRC DST` and `haul verify SRC DST`, then delete SRC",
    ),
    (&["check", "cmp", "diff", "compare", "cryptcheck"], "use `haul verify SRC DST`"),
    (&["cat", "download"], "use `haul get SRC`"),
    (&["rcat", "upload"], "use `haul put DST`"),
    (&["doctor"], "use `haul probe --doctor SRC DST`"),
    (&["version"], "use `haul --version`"),
    (
        &["du", "size", "ncdu", "tree", "analyze", "analyse", "stat"],
        "use `haul plan SRC` for a tree, `haul ls URL` for objects",
    ),
    (&["list", "dir", "lsl", "lsf", "lsd"], "use `haul ls URL`"),
    (&["del", "delete", "remove", "purge", "deletefile", "unlink"], "use `haul rm URL`"),
    (&["b3sum", "md5sum", "sha256sum", "hashsum", "checksum"], "use `haul hash SRC`"),
    (&["status", "ps", "history"], "use `haul jobs`"),
    (&["config", "configure"], "haul has no configuration file; `haul help` lists its commands"),
    (&["fpart", "partition", "split"], "use `haul plan --parts N SRC`"),
    (&["bench", "benchmark", "speed"], "use `haul probe SRC DST`"),
];
