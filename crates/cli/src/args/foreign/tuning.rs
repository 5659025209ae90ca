//! Numbers of transfers, sizes of parts and buffers, retries: haul adapts them itself.

use super::word::Tool::{self, Aws, Mc, Rclone, S5cmd, Xbcloud};
use super::word::Verdict::Hint;
use super::word::{OBJECTS, READS, STREAMS, Word, word};

const TREE_LIMITS: &str =
    "haul adapts this itself: omit it (--streams and --max-memory are the upper bounds)";
const STREAM_LIMITS: &str = "haul adapts this itself: omit it (--max-memory is the upper bound)";
const NO_LIMITS: &str = "haul adapts this itself: omit it";
const TREE_RETRIES: &str =
    "haul retries until --timeout or --store-timeout seconds pass without progress: omit it";
const RETRIES: &str = "haul retries until --timeout seconds pass without progress: omit it";

/// Commands with `--streams` and `--max-memory` that have no `--part-size` of their own.
const READERS: &[&str] = &["copy", "sync", "verify", "hash", "probe"];

const RCLONE: &[&str] = &[
    "--transfers",
    "--checkers",
    "--multi-thread-streams",
    "--multi-thread-cutoff",
    "--multi-thread-chunk-size",
    "--multi-thread-write-buffer-size",
    "--buffer-size",
    "--max-buffer-memory",
    "--max-backlog",
    "--use-mmap",
    "--fast-list",
    "--s3-upload-concurrency",
    "--s3-chunk-size",
    "--s3-upload-cutoff",
    "--s3-copy-cutoff",
    "--s3-max-upload-parts",
    "--s3-list-chunk",
    "--s3-disable-checksum",
    "--gcs-chunk-size",
    "--azureblob-chunk-size",
    "--azureblob-upload-concurrency",
    "--sftp-concurrency",
    "--streaming-upload-cutoff",
    "--order-by",
    "--check-first",
    "--no-traverse",
    "--no-check-dest",
];
const AWS: &[&str] =
    &["--expected-size", "--max-concurrent-requests", "--multipart-chunksize", "--multipart-threshold"];
const S5CMD: &[&str] = &["--numworkers", "--concurrency", "--part-size"];
const MC: &[&str] = &["--max-workers", "--disable-multipart"];
const XBCLOUD: &[&str] = &["--parallel", "--read-buffer-size"];

const fn on_trees(names: &'static [&'static str], tools: &'static [Tool]) -> Word {
    word(names, tools, READERS, Hint(TREE_LIMITS))
}

const fn on_streams(names: &'static [&'static str], tools: &'static [Tool]) -> Word {
    word(names, tools, STREAMS, Hint(STREAM_LIMITS))
}

const fn on_lists(names: &'static [&'static str], tools: &'static [Tool]) -> Word {
    word(names, tools, &["ls", "rm"], Hint(NO_LIMITS))
}

pub(super) const WORDS: &[Word] = &[
    on_trees(RCLONE, &[Rclone]),
    on_streams(RCLONE, &[Rclone]),
    on_lists(RCLONE, &[Rclone]),
    on_trees(AWS, &[Aws]),
    on_streams(AWS, &[Aws]),
    on_lists(AWS, &[Aws]),
    on_trees(S5CMD, &[S5cmd]),
    on_streams(S5CMD, &[S5cmd]),
    on_lists(S5CMD, &[S5cmd]),
    on_trees(MC, &[Mc]),
    on_streams(MC, &[Mc]),
    on_lists(MC, &[Mc]),
    on_trees(XBCLOUD, &[Xbcloud]),
    on_streams(XBCLOUD, &[Xbcloud]),
    on_lists(XBCLOUD, &[Xbcloud]),
    word(&["--retries", "--low-level-retries", "--retries-sleep"], &[Rclone], READS, Hint(TREE_RETRIES)),
    word(&["--retries", "--low-level-retries", "--retries-sleep"], &[Rclone], OBJECTS, Hint(RETRIES)),
    word(&["--cli-read-timeout", "--cli-connect-timeout"], &[Aws], READS, Hint(TREE_RETRIES)),
    word(&["--cli-read-timeout", "--cli-connect-timeout"], &[Aws], OBJECTS, Hint(RETRIES)),
    word(&["--retry-count"], &[S5cmd], READS, Hint(TREE_RETRIES)),
    word(&["--retry-count"], &[S5cmd], OBJECTS, Hint(RETRIES)),
    word(&["--retry"], &[Mc], READS, Hint(TREE_RETRIES)),
    word(&["--retry"], &[Mc], OBJECTS, Hint(RETRIES)),
    word(
        &["--max-retries", "--max-backoff", "--curl-retriable-errors", "--http-retriable-errors"],
        &[Xbcloud],
        READS,
        Hint(TREE_RETRIES),
    ),
    word(
        &["--max-retries", "--max-backoff", "--curl-retriable-errors", "--http-retriable-errors"],
        &[Xbcloud],
        OBJECTS,
        Hint(RETRIES),
    ),
];
