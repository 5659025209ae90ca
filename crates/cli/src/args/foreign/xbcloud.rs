//! Words of xbcloud.

use super::word::Tool::Xbcloud;
use super::word::Verdict::{DefaultValue, Hint};
use super::word::{OBJECTS, STREAMS, Word, word};

pub(super) const WORDS: &[Word] = &[
    word(&["--s3-bucket-lookup"], &[Xbcloud], OBJECTS, DefaultValue(&["auto"])),
    word(
        &[
            "--storage",
            "--s3-bucket",
            "--google-bucket",
            "--google-region",
            "--google-endpoint",
            "--azure-container-name",
            "--azure-endpoint",
            "--azure-tier-class",
            "--azure-development-storage",
        ],
        &[Xbcloud],
        OBJECTS,
        Hint(
            "give the store as a URL: s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/KEY, with --endpoint and --region",
        ),
    ),
    word(
        &[
            "--swift-container",
            "--swift-user",
            "--swift-tenant",
            "--swift-password",
            "--swift-auth-url",
            "--swift-auth-version",
            "--swift-storage-url",
            "--swift-key",
            "--swift-region",
        ],
        &[Xbcloud],
        OBJECTS,
        Hint("haul has no Swift client: use the S3 interface of Swift, with --endpoint"),
    ),
    word(&["--s3-api-version"], &[Xbcloud], OBJECTS, Hint("haul always uses signature version 4: omit it")),
    word(&["--fifo-timeout"], &[Xbcloud], STREAMS, Hint("haul waits one minute for the pipes: omit it")),
    word(
        &["--defaults-file", "--defaults-extra-file", "--defaults-group-suffix", "--login-path"],
        &[Xbcloud],
        OBJECTS,
        Hint("give the store as a URL, or name it in ~/.config/haul/config.toml (`haul help config`)"),
    ),
    word(
        &["--parallel-download"],
        &[Xbcloud],
        &["get"],
        Hint("haul adapts this itself: omit it (--max-memory is the upper bound)"),
    ),
    word(
        &["--fifo-streams"],
        &[Xbcloud],
        &["get"],
        Hint("`haul get` creates one pipe for each object: omit it"),
    ),
    word(&["--timeout-connect"], &[Xbcloud], OBJECTS, Hint("use --timeout SECONDS")),
    word(
        &["--storage-class"],
        &[Xbcloud],
        &["get", "rm"],
        Hint("only `haul put` sets the class of an object: omit it"),
    ),
];
