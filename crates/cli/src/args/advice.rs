//! Words of rsync, scp, rclone, the AWS CLI, s5cmd, mscp, xbcloud and fpsync that haul does not have, with the way out.

const FOUND: &str = "haul finds it out by itself: leave it out (--streams and --max-memory are the bounds)";
const RETRIES: &str =
    "haul retries until no progress was made for --timeout or --store-timeout seconds: leave it out";
const KEPT: &str = "haul always keeps modes, owners, times, links, ACLs and attributes; what cannot be set is reported, and fails only with --strict";
const SSH: &str = "options of ssh go into -e, as in -e 'ssh -p 2222 -i KEY', or into ssh_config";
const DIGEST: &str = "every file is verified with BLAKE3 anyway: leave it out";
const BACKUPS: &str = "haul keeps no backups of the files that it replaces or deletes";
const FILTERS: &str =
    "haul has --exclude, --include, --exclude-from and --include-from, of which the first match wins";
const LINKS: &str = "haul copies symbolic links as links; it cannot follow them";
const AGES: &str = "haul cannot select by age: use `find … -newer … -print0 | haul copy -0 --files-from -`";
const LOGS: &str = "haul has no log file: redirect standard error, or use --json";
const SECRETS: &str = "credentials come from the environment or the files of the provider's own tools, never from the command line";
const SNAPSHOTS: &str = "haul cannot link to files of an earlier copy";
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
        "`haul sync` never deletes what is excluded: delete it by hand, or leave the rule out",
    ),
    (
        "",
        &["--delete-missing-args", "--ignore-missing-args"],
        "a missing source is reported and fails, the others are copied",
    ),
    ("", &["--force"], "haul replaces an empty directory with a file, and never one that has entries"),
    (
        "copy sync",
        &["--compress-choice", "--zc", "--compress-level", "--zl"],
        "--compress takes auto, none, lz4, zstd and zstd:LEVEL",
    ),
    ("", &["--compress-threads", "--skip-compress", "--old-compress", "--new-compress", "--zz"], FOUND),
    (
        "",
        &["-R", "--relative", "--no-implied-dirs"],
        "paths of --files-from keep their place; otherwise use SRC/ and the DST you mean",
    ),
    (
        "",
        &["--append", "--append-verify"],
        "of a file that grew only the new end is sent anyway (see --delta): leave it out",
    ),
    ("", &["-W", "--whole-file"], "use --delta off"),
    ("", &["--no-whole-file", "--no-W"], "use --delta on"),
    (
        "",
        &["-B", "--block-size", "--checksum-seed", "-y", "--fuzzy"],
        "--delta compares blocks of 16 KiB in the file of the same name",
    ),
    ("verify", &["-v", "--verbose"], "`haul verify` names every difference: leave it out"),
    (
        "",
        &["-i", "--itemize-changes"],
        "use -v, or -n to see what would be done (ssh's -i goes into -e 'ssh -i KEY')",
    ),
    ("", &["--out-format", "--log-file-format", "--debug"], "use --json for output that programs read"),
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
        "haul never writes through a symbolic link at DST: name the directory it points to as DST",
    ),
    (
        "",
        &["-d", "--dirs", "--old-dirs", "--no-recursive", "--no-r"],
        "haul always copies directories with all that is in them",
    ),
    ("", &["--no-inc-recursive", "--no-i-r"], "haul always copies while it scans: leave it out"),
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
    ("", &["--copy-devices", "--write-devices"], "haul copies device nodes, not what is on the devices"),
    (
        "",
        &["-I", "--ignore-times", "--ignore-size"],
        "haul skips files of the same size and time; -c compares their content",
    ),
    (
        "",
        &["-T", "--temp-dir", "--partial-dir", "--delay-updates"],
        "haul writes beside the final name and renames each file when it is complete: leave it out",
    ),
    ("", &["--compare-dest", "--copy-dest", "--link-dest"], SNAPSHOTS),
    (
        "",
        &["--remove-source-files", "--remove-sent-files"],
        "haul never deletes at the source: `haul verify SRC DST`, then delete it",
    ),
    ("", &["-m", "--prune-empty-dirs"], "haul copies empty directories too; --exclude leaves them out"),
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
        "there is nothing to set in haul: leave it out",
    ),
    (
        "",
        &["--password-file", "--early-input", "--daemon", "--config"],
        "haul does not speak rsync's own protocol: use host:PATH, over ssh",
    ),
    (
        "",
        &["--trust-sender", "--old-args", "--insecure-links", "--confine-root"],
        "haul trusts no other machine with that: leave it out",
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
        "haul has nothing like it",
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
        "haul has nothing like it",
    ),
    ("", &["--metadata-set", "-l"], "haul keeps metadata by itself: leave it out"),
    (
        "",
        &["--exit-on-error", "--error-on-no-transfer"],
        "what failed is named at the end and in the exit code; --json has the counts",
    ),
    // AWS CLI
    ("", &["--dryrun"], "use -n or --dry-run"),
    ("", &["--endpoint-url"], "use --endpoint URL"),
    ("", &["--profile"], "set AWS_PROFILE"),
    ("", &["--ca-bundle", "--cacert", "--ca-cert"], "set AWS_CA_BUNDLE"),
    (
        "",
        &["--no-verify-ssl", "--insecure", "--no-check-certificate"],
        "haul checks certificates always: AWS_CA_BUNDLE names your own authority",
    ),
    ("", &["--no-sign-request"], "haul signs each request: credentials are needed"),
    ("", &["--only-show-errors"], "use -q"),
    ("", &["--no-overwrite", "--if-size-differ"], "use --ignore-existing"),
    (
        "",
        &["--acl", "--grants", "--sse-c", "--sse-c-key", "--request-payer", "--expires"],
        "haul cannot set it",
    ),
    ("", &["--summarize", "--long"], "haul prints length, time and name of each, and no sums"),
    ("ls", &["-a", "--all", "-1"], "length, time and name of every object are always listed: leave it out"),
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
        "the store is named by its URL: s3://BUCKET/KEY, gs://…, az://…, with --endpoint and --region",
    ),
    ("", &["--fifo-timeout"], "pipes are waited for one minute"),
    // ssh, scp, mscp
    ("", &["-P", "-p", "-F", "-J", "-o", "-Q", "-W", "--identity-file"], SSH),
    ("", &["-g", "--congestion-control"], "use --congestion NAME"),
];

/// Commands of other tools, and what to run instead.
pub(super) const COMMANDS: &[(&[&str], &str)] = &[
    (&["cp", "scp", "copyto", "xcopy"], "it is `haul copy SRC DST`"),
    (&["rsync", "mirror", "robocopy"], "it is `haul copy SRC DST`, or `haul sync SRC DST` to delete too"),
    (
        &["mv", "move", "moveto", "rename"],
        "haul does not move: `haul copy SRC DST`, `haul verify SRC DST`, then delete SRC",
    ),
    (&["check", "cmp", "diff", "compare", "cryptcheck"], "it is `haul verify SRC DST`"),
    (&["cat", "download"], "it is `haul get SRC`"),
    (&["rcat", "upload"], "it is `haul put DST`"),
    (&["doctor"], "it is `haul probe --doctor SRC DST`"),
    (&["version"], "it is `haul --version`"),
    (
        &["du", "size", "ncdu", "tree", "analyze", "analyse", "stat"],
        "`haul plan SRC` counts a tree, `haul ls URL` lists objects",
    ),
    (&["list", "dir", "lsl", "lsf", "lsd"], "it is `haul ls URL`"),
    (&["del", "delete", "remove", "purge", "deletefile", "unlink"], "it is `haul rm URL`"),
    (&["b3sum", "md5sum", "sha256sum", "hashsum", "checksum"], "it is `haul hash SRC`"),
    (&["status", "ps", "history"], "it is `haul jobs`"),
    (&["config", "configure"], "haul has no configuration file; `haul help` lists its commands"),
    (&["fpart", "partition", "split"], "it is `haul plan --parts N SRC`"),
    (&["bench", "benchmark", "speed"], "it is `haul probe SRC DST`"),
];
