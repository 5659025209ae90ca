//! Objects that `ls`, `du` and `rm -r` select by size and age.

use std::thread;
use std::time::Duration;

use haul_testkit::Need;
use serde_json::Value;

use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Program("weed"), Need::Program("rclone");
        sizes_and_sums_are_those_of_the_objects,
        only_entries_of_the_age_are_removed,
        a_sidecar_goes_with_its_stream,
        selections_that_cannot_be_are_refused,
    ]
}

fn put(bucket: &TestBucket, key: &str, len: usize) {
    let _ = bucket.haul("put").args(["-q", &bucket.at(key)]).input(vec![b'x'; len]).finish().expect_success();
}

/// The keys that a listing with these options has.
fn listed(bucket: &TestBucket, words: &[&str]) -> Vec<String> {
    let run =
        bucket.haul("ls").args(["-r", "--json"]).args(words).arg(bucket.at("t/")).finish().expect_success();
    let lines =
        run.out().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
    lines.iter().map(|line| line["key"].as_str().unwrap().to_owned()).collect()
}

/// The time at which the store received an object.
fn stored(bucket: &TestBucket, key: &str) -> String {
    let run = bucket.haul("ls").args(["--json", &bucket.at(key)]).finish().expect_success();
    let line: Value = serde_json::from_str(run.out().lines().next().unwrap()).unwrap();
    line["modified"].as_str().unwrap().to_owned()
}

fn sizes_and_sums_are_those_of_the_objects() {
    let bucket = TestBucket::new();
    for (key, len) in [("t/a", 10), ("t/b", 1000), ("t/sub/c", 5000)] {
        put(&bucket, key, len);
    }
    assert_eq!(listed(&bucket, &["--min-size", "1000"]), ["t/b", "t/sub/c"]);
    assert_eq!(listed(&bucket, &["--max-size", "1000", "--min-size", "11"]), ["t/b"]);
    let run = bucket.haul("ls").args(["--summarize", &bucket.at("t/")]).finish().expect_success();
    assert!(run.out().contains("t/sub/") && run.out().contains("total of 2 objects"), "{run}");
    let du = bucket.haul("du").arg(bucket.at("t/")).finish().expect_success();
    assert_eq!(du.out().trim(), "5.87 KiB  total of 3 objects", "{du}");
    let du =
        bucket.haul("du").args(["--json", "--min-size", "1000", &bucket.at("t/")]).finish().expect_success();
    let total: Value = serde_json::from_str(du.out().trim()).unwrap();
    assert_eq!((total["objects"].as_u64(), total["len"].as_u64()), (Some(2), Some(6000)), "{du}");
}

fn only_entries_of_the_age_are_removed() {
    let bucket = TestBucket::new();
    put(&bucket, "t/old", 10);
    thread::sleep(Duration::from_millis(2100));
    put(&bucket, "t/new", 10);
    let (old, new) = (stored(&bucket, "t/old"), stored(&bucket, "t/new"));
    assert!(old < new, "{old} {new}");
    assert_eq!(listed(&bucket, &["--max-age", &new]), ["t/new"]);
    assert_eq!(listed(&bucket, &["--min-age", &old]), ["t/old"]);
    assert!(listed(&bucket, &["--min-age", "1d"]).is_empty());
    let rm = |words: &[&str]| bucket.haul("rm").arg("-r").args(words).arg(bucket.at("t/")).finish();
    let dry = rm(&["-n", "--min-age", &old]).expect_success();
    assert!(dry.out().contains("t/old") && !dry.out().contains("t/new"), "{dry}");
    let _ = rm(&["--min-age", "1d"]).expect_success();
    assert_eq!(bucket.names(), ["t/new", "t/old"]);
    let _ = rm(&["--min-age", &old]).expect_success();
    assert_eq!(bucket.names(), ["t/new"]);
    // Of a whole bucket, too; without a selection that would empty it.
    let whole = |words: &[&str]| bucket.haul("rm").arg("-r").args(words).arg(bucket.at("")).finish();
    let _ = whole(&["--min-age", "1d"]).expect_success();
    let _ = whole(&[]).expect_code(2);
    assert_eq!(bucket.names(), ["t/new"]);
    let _ = whole(&["--max-age", "1d"]).expect_success();
    assert!(bucket.names().is_empty());
}

fn a_sidecar_goes_with_its_stream() {
    let bucket = TestBucket::new();
    // Of a stream that is not known to end within one request, the digest is in a sidecar.
    put(&bucket, "t/stream", 20 << 20);
    put(&bucket, "t/stream-2", 10);
    let (file, _) = bucket.file("other", 100);
    bucket.upload(&file, "t/stream-2.haul");
    assert_eq!(bucket.names(), ["t/stream", "t/stream-2", "t/stream-2.haul", "t/stream.haul"]);
    let rm = |words: &[&str]| {
        let _ = bucket.haul("rm").arg("-r").args(words).arg(bucket.at("t/")).finish().expect_success();
    };
    // The sidecar is small, and belongs to an object that is not.
    rm(&["--max-size", "50"]);
    assert_eq!(bucket.names(), ["t/stream", "t/stream-2.haul", "t/stream.haul"]);
    // Something else that only has such a name is judged by itself.
    rm(&["--min-size", "1M"]);
    assert_eq!(bucket.names(), ["t/stream-2.haul"]);
}

fn selections_that_cannot_be_are_refused() {
    let bucket = TestBucket::new();
    put(&bucket, "t/a", 10);
    let refused = |words: &[&str], why: &str| {
        let run = bucket.haul(words[0]).args(&words[1..]).arg(bucket.at("t/a")).finish().expect_code(2);
        assert!(run.said().contains(why), "{run}");
    };
    refused(&["rm", "--min-age", "1d"], "add -r");
    refused(&["rm", "--incomplete", "--min-size", "1"], "add -r");
    refused(&["rm", "-r", "--min-age", "2d", "--max-age", "1d"], "nothing has such an age");
    refused(&["ls", "--min-size", "2", "--max-size", "1"], "nothing has such a size");
    assert_eq!(bucket.names(), ["t/a"]);
}
