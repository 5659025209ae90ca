//! Backups of several streams, and estimated requests of uploads.

use std::fs;
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::{CommandRun, Need};
use serde_json::Value;

use crate::scene::{events, summary};
use crate::store::{TestBucket, requests};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Program("weed"), Need::Program("rclone");
        streams_of_one_backup_are_objects_and_pipes_again,
        streams_of_a_backup_that_fails_are_no_objects,
        the_cost_of_a_stream_is_estimated,
    ]
}

/// As xtrabackup does: a pipe is made when the one before has a reader.
fn producer(bucket: &TestBucket, end: &str) -> String {
    let dir = bucket.scene.join("pipes");
    fs::create_dir_all(&dir).unwrap();
    let (dir, from) = (dir.display(), bucket.scene.path().display());
    format!(
        "cd {dir} && rm -f thread_* && mkfifo thread_0 && exec 5>thread_0 && mkfifo thread_1 && exec 6>thread_1 && \
         cat {from}/first >&5; exec 5>&-; cat {from}/second >&6; exec 6>&-; {end}"
    )
}

fn streams_of_one_backup_are_objects_and_pipes_again() {
    let bucket = TestBucket::new();
    let (_, first) = bucket.file("first", 20_000_000);
    let (_, second) = bucket.file("second", 1_000_000);
    let line = producer(&bucket, "exit 0");
    let pipes = bucket.scene.join("pipes");
    let put =
        |words: &[&str]| bucket.haul("put").arg(bucket.at("db1")).arg("--fifo-dir").arg(&pipes).args(words);
    let run = put(&["--json", "--fifo-streams", "2", "--", "bash", "-c", &line]).finish().expect_success();
    let summary = summary(&run);
    assert_eq!((summary.of("copied"), summary.of("copied_bytes")), (2, 21_000_000));
    assert_eq!(bucket.names(), ["db1/thread_0", "db1/thread_0.haul", "db1/thread_1"]);
    assert!(bucket.read("db1/thread_0") == first && bucket.read("db1/thread_1") == second);

    // The pipes of the run before are in the way, and stay.
    let get = || bucket.haul("get").arg(bucket.at("db1/")).arg("--fifo-dir").arg(&pipes);
    let _ = get().finish().expect_code(1);
    for name in ["thread_0", "thread_1"] {
        fs::remove_file(pipes.join(name)).unwrap();
    }
    let manifest = bucket.scene.join("manifest");
    let hashed = get().args(["--manifest-format", "sha256", "--manifest"]).arg(&manifest);
    let mut run = hashed.start();
    run.wait_until("there are pipes", || pipes.join("thread_1").exists() && pipes.join("thread_0").exists());
    let read = |name: &str| {
        let cat = CommandRun::new("cat", bucket.scene.tag()).arg(pipes.join(name)).finish();
        cat.expect_success().stdout
    };
    assert!(read("thread_1") == second && read("thread_0") == first);
    let _ = run.finish().expect_success();
    assert_eq!(fs::read_dir(&pipes).unwrap().count(), 0);
    let by_sha256sum = |file: &str, name: &str| {
        let sum = tool(Command::new("sha256sum").arg(bucket.scene.join(file)));
        format!("{}  {name}\n", &sum[..64])
    };
    let expected = by_sha256sum("first", "thread_0") + &by_sha256sum("second", "thread_1");
    assert_eq!(fs::read_to_string(&manifest).unwrap(), expected);
    let _ = bucket.haul("get").arg(bucket.at("none/")).arg("--fifo-dir").arg(&pipes).finish().expect_code(1);
}

fn streams_of_a_backup_that_fails_are_no_objects() {
    let bucket = TestBucket::new();
    bucket.put("first", b"so that there is a bucket");
    bucket.file("first", 20_000_000);
    bucket.file("second", 1_000_000);
    let pipes = bucket.scene.join("pipes");
    let put = |streams: &str, line: &str| {
        let run = bucket.haul("put").arg(bucket.at("db1")).arg("--fifo-dir").arg(&pipes);
        run.args(["--fifo-streams", streams, "--", "bash", "-c", line]).finish()
    };
    let line = producer(&bucket, "exit 3");
    let run = put("2", &line).expect_code(1);
    assert!(run.err().contains("it exited with code 3"), "{run}");
    fs::remove_dir_all(&pipes).unwrap();
    fs::create_dir(&pipes).unwrap();
    let run = put("3", &format!("cd {} && mkfifo thread_0 thread_1", pipes.display())).expect_code(1);
    assert!(run.err().contains("2 of 3 pipes"), "{run}");
    let run = put("4", "true").expect_code(2);
    assert!(run.err().contains("--max-memory"), "{run}");
    let run = bucket.haul("put").arg(bucket.at("db1")).arg("--fifo-dir").arg(bucket.scene.path()).finish();
    assert!(run.expect_code(2).err().contains("--fifo-streams"));
    assert_eq!(bucket.names(), ["first"]);
    assert!(bucket.incomplete().is_empty());
    bucket.scene.assert_all_gone();
}

fn the_cost_of_a_stream_is_estimated() {
    let bucket = TestBucket::new();
    let (file, bytes) = bucket.file("content", 20_000_000);
    let estimate = |words: &[&str]| -> Vec<Value> {
        events(&bucket.haul("put").args(["-n", "--json"]).args(words).finish().expect_success())
    };
    let len = bytes.len().to_string();
    for no_clobber in [false, true] {
        let key = format!("x{no_clobber}");
        let words = if no_clobber { &["--no-clobber"][..] } else { &[] };
        let said = &estimate(&[&["--length", &len, &bucket.at(&key)][..], words].concat())[0];
        let run = bucket.haul("put").args(["--json", &bucket.at(&key)]).args(words).args(["--", "cat"]);
        let made = summary(&run.arg(&file).finish().expect_success());
        for kind in ["put", "get"] {
            assert_eq!(said[kind].as_u64(), Some(requests(&made.0, kind)), "{kind}: {said} {}", made.0);
        }
        assert_eq!(said["parts"], 3);
    }
    let small = &estimate(&["--length", "5", "gs://c/x", "s3://b/x"]);
    assert_eq!((small.len(), small[0]["put"].as_u64(), small[1]["get"].as_u64()), (2, Some(1), Some(0)));
    let run = bucket.haul("put").args(["-n", &bucket.at("y"), "--", "true"]).finish().expect_code(2);
    assert!(run.err().contains("--length"), "{run}");
    assert!(!bucket.names().contains(&"y".to_owned()));
}
