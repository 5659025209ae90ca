//! Words of rclone.

use super::word::Tool::{Aws, Mc, Rclone, S5cmd, Xbcloud};
use super::word::Verdict::{Default, Hint, Same};
use super::word::{ALL, COMPARES, HOSTS, LOGGED, SELECTS, STORES, TREES, Word, word};

const LOGS: &str = "use --log-file FILE, which logs each change and problem, or use --json";
const LS_LOGS: &str = "`haul ls` writes no log: redirect its output";
const CERTIFICATES: &str = "haul always checks certificates: use --ca-cert FILE for your own authority";
const RATE: &str = "use --bwlimit RATE, which limits the total";
const NO_FILE: &str = "set HAUL_CONFIG=FILE, or write ~/.config/haul/config.toml (`haul help config`); give credentials as in the tools of the provider";
const ASKS: &str = "haul never asks: list the objects with -n first";
const FAILURES: &str =
    "haul copies what it can and exits with 1 if an entry failed: omit it (--json has the counts)";

pub(super) const WORDS: &[Word] = &[
    // Accepted.
    word(&["--create-empty-src-dirs"], &[Rclone], TREES, Default),
    word(&["--metadata"], &[Rclone], TREES, Default),
    word(&["--no-unicode-normalization"], &[Rclone], COMPARES, Default),
    word(&["--s3-no-check-bucket"], &[Rclone], STORES, Default),
    word(&["--download", "--one-way"], &[Rclone], &["verify"], Default),
    word(&["--s3-endpoint"], &[Rclone, Xbcloud], STORES, Same("--endpoint")),
    word(&["--endpoint-url"], &[Aws, S5cmd], STORES, Same("--endpoint")),
    word(&["--s3-region"], &[Rclone, Xbcloud], STORES, Same("--region")),
    word(&["--s3-storage-class"], &[Rclone, Xbcloud], &["copy", "sync", "put"], Same("--storage-class")),
    word(&["--s3-server-side-encryption"], &[Rclone], &["copy", "sync", "put"], Same("--sse")),
    word(&["--s3-sse-kms-key-id"], &[Rclone], &["copy", "sync", "put"], Same("--sse-kms-key-id")),
    word(&["--older-than"], &[Mc], SELECTS, Same("--min-age")),
    word(&["--newer-than"], &[Mc], SELECTS, Same("--max-age")),
    // Refused.
    word(
        &["--tpslimit", "--tpslimit-burst"],
        &[Rclone],
        TREES,
        Hint("--iops limits operations of file systems and SFTP"),
    ),
    word(&["--bwlimit-file"], &[Rclone], TREES, Hint(RATE)),
    word(&["--limit-upload", "--limit-download"], &[Mc], TREES, Hint(RATE)),
    word(
        &["--log-file", "--log-level", "--use-json-log", "--syslog", "--log-systemd"],
        &[Rclone],
        &["ls"],
        Hint(LS_LOGS),
    ),
    word(&["--log-level", "--use-json-log", "--syslog", "--log-systemd"], &[Rclone], LOGGED, Hint(LOGS)),
    word(&["--log"], &[S5cmd], LOGGED, Hint(LOGS)),
    word(&["--log"], &[S5cmd], &["ls"], Hint(LS_LOGS)),
    word(
        &[
            "--stats-one-line",
            "--stats-one-line-date",
            "--stats-unit",
            "--stats-log-level",
            "--stats-file-name-length",
        ],
        &[Rclone],
        TREES,
        Hint("haul shows progress by itself: omit it (--progress without a terminal, --json for programs)"),
    ),
    word(
        &[
            "--progress-terminal-title",
            "--use-cookies",
            "--disable-http2",
            "--user-agent",
            "--no-gzip-encoding",
        ],
        &[Rclone],
        TREES,
        Hint("haul has no such setting, because it does not change what is copied: omit it"),
    ),
    word(&["--config", "--cache-dir", "--ask-password", "--password-command"], &[Rclone], ALL, Hint(NO_FILE)),
    word(&["--config-dir"], &[Mc], ALL, Hint(NO_FILE)),
    word(
        &["--ignore-case", "--ignore-case-sync"],
        &[Rclone],
        HOSTS,
        Hint("haul has no such rule: it compares names byte by byte, as in --exclude '*.[jJ][pP][gG]'"),
    ),
    word(&["--max-depth"], &[Rclone], HOSTS, Hint("use --exclude, for depth 1 as in --exclude '/*/*'")),
    word(
        &["--immutable"],
        &[Rclone],
        TREES,
        Hint("haul has no such mode: --ignore-existing skips the files that exist at DST"),
    ),
    word(
        &["--track-renames", "--track-renames-strategy"],
        &[Rclone],
        TREES,
        Hint("haul has no detection of renames: it copies a renamed file again, and verifies it"),
    ),
    word(&["--interactive"], &[Rclone], TREES, Hint("haul never asks: list the changes with -n first")),
    word(&["--interactive", "-i"], &[Rclone], &["rm"], Hint(ASKS)),
    word(&["-I"], &[Mc], &["rm"], Hint(ASKS)),
    word(
        &["--max-transfer"],
        &[Rclone],
        TREES,
        Hint(
            "haul has no limit of transferred bytes: --bwlimit limits the rate, and `haul plan --part-size SIZE SRC` splits a tree",
        ),
    ),
    word(
        &[
            "--metadata-set",
            "--metadata-exclude",
            "--metadata-include",
            "--metadata-filter",
            "--metadata-mapper",
        ],
        &[Rclone],
        TREES,
        Hint(
            "haul has no such rule: it always keeps metadata; `haul put --metadata NAME=VALUE` sets it for one object",
        ),
    ),
    word(
        &["--no-update-modtime", "--no-update-dir-modtime", "--use-server-modtime", "--refresh-times"],
        &[Rclone],
        TREES,
        Hint("haul always keeps modification times: omit it"),
    ),
    word(
        &["--ignore-checksum"],
        &[Rclone],
        TREES,
        Hint("haul has no copy without verification, because each digest is computed on the way: omit it"),
    ),
    word(&["--error-on-no-transfer"], &[Rclone], TREES, Hint(FAILURES)),
    word(&["--exit-on-error"], &[S5cmd], TREES, Hint(FAILURES)),
    word(&["--skip-errors"], &[Mc], TREES, Hint(FAILURES)),
    word(
        &["--combined", "--differ", "--missing-on-src", "--missing-on-dst", "--match", "--error"],
        &[Rclone],
        &["verify"],
        Hint("`haul verify` prints each difference on standard output; --json has one line each"),
    ),
    word(&["--checkfile"], &[Rclone], &["verify"], Hint("use --manifest FILE, the output of `haul hash`")),
    word(&["--ca-bundle"], &[Aws], STORES, Same("--ca-cert")),
    word(&["--cacert"], &[Xbcloud], STORES, Same("--ca-cert")),
    word(
        &["--client-cert", "--client-key", "--client-pass"],
        &[Rclone],
        STORES,
        Hint("haul has no client certificates for stores: requests are signed"),
    ),
    word(&["--no-check-certificate"], &[Rclone], STORES, Hint(CERTIFICATES)),
    word(&["--no-verify-ssl"], &[Aws, S5cmd], STORES, Hint(CERTIFICATES)),
    word(&["--insecure"], &[Mc, Xbcloud], STORES, Hint(CERTIFICATES)),
    word(
        &["--header", "--header-upload", "--header-download"],
        &[Rclone],
        TREES,
        Hint("haul has no headers for trees; `haul put --header NAME:VALUE` sets one for an object"),
    ),
    word(&["--header-upload", "--header-download"], &[Rclone], &["put"], Hint("use --header NAME:VALUE")),
    word(
        &[
            "--s3-provider",
            "--s3-env-auth",
            "--s3-force-path-style",
            "--s3-v2-auth",
            "--s3-no-head",
            "--s3-use-multipart-etag",
        ],
        &[Rclone],
        STORES,
        Hint("haul learns this from the store: omit it (--endpoint gives the address of other stores)"),
    ),
    word(
        &["--s3-acl", "--gcs-object-acl", "--gcs-bucket-acl", "--s3-upload-tagging"],
        &[Rclone],
        TREES,
        Hint("haul sets no ACL and no tags on trees, because the rights of the bucket apply: set them there"),
    ),
    word(
        &["--rc", "--rc-addr", "--metrics-addr"],
        &[Rclone],
        TREES,
        Hint("haul has no server: `haul jobs` lists running jobs and limits them"),
    ),
    word(
        &["--dscp"],
        &[Rclone],
        TREES,
        Hint("haul has no such setting: mark the packets with nftables, or yield with --nice"),
    ),
    word(
        &["--delete-if-unused", "--dump", "--cpuprofile", "--memprofile"],
        &[Rclone],
        TREES,
        Hint("haul has no such setting: omit it (--json reports what was done)"),
    ),
];
