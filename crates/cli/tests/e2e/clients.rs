//! S3 clients other than rclone, which the other modules use: they read objects of haul, and haul reads theirs.

use std::fs;
use std::path::Path;

use haul_testkit::Need;
use haul_testkit::store::endpoint;

use crate::scene::slash;
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Program("weed"), Need::Program("rclone"), Need::Program("aws");
        the_aws_client_reads_objects_of_haul_and_haul_reads_its_objects,
    ];
    all.extend(cases![
        Need::Program("weed"), Need::Program("rclone"), Need::Program("s5cmd");
        s5cmd_reads_objects_of_haul_and_haul_reads_its_objects,
    ]);
    all
}

/// `words` with two more words: from one place to another.
fn run(bucket: &TestBucket, words: &[&str], from: &str, to: &str) {
    let (program, words) = words.split_first().unwrap();
    let run = bucket.program(program).args(words).args([from, to]).env("AWS_REGION", "us-east-1");
    let run =
        run.env("AWS_DEFAULT_REGION", "us-east-1").env("S3_ENDPOINT_URL", format!("http://{}", endpoint()));
    let _ = run.finish().expect_success();
}

/// Streams of one part and of several, and a tree, there and back: `one` copies an object, `all` the objects below a
/// prefix, which ends as `below` says.
fn there_and_back(one: &[&str], all: &[&str], below: &str) {
    let bucket = TestBucket::new();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    for (name, len) in [("short", 1000), ("long", 30_000_000)] {
        let (file, bytes) = bucket.file(name, len);
        let _ = bucket.put(name, &bytes);
        let taken = bucket.scene.join(format!("{name}.taken"));
        run(&bucket, one, &bucket.at(name), &text(&taken));
        assert!(fs::read(&taken).unwrap() == bytes, "{name}");
        let theirs = bucket.at(&format!("theirs/{name}"));
        run(&bucket, one, &text(&file), &theirs);
        assert!(bucket.haul("get").arg(&theirs).finish().expect_success().stdout == bytes, "{name}");
    }
    let tree = bucket.scene.tree("src");
    for path in ["a", "b/c", "b/d/e f", "huge"] {
        tree.file(path, if path == "huge" { 20 << 20 } else { 5000 });
    }
    let (taken, back) = (bucket.scene.join("taken"), bucket.scene.join("back"));
    let _ = bucket.haul("copy").arg(slash(tree.path())).arg(bucket.at("tree/")).finish().expect_success();
    run(&bucket, all, &bucket.at(&format!("tree/{below}")), &slash(&taken).to_string_lossy());
    run(&bucket, all, &slash(tree.path()).to_string_lossy(), &bucket.at("their tree/"));
    let _ = bucket.haul("copy").arg(bucket.at("their tree/")).arg(slash(&back)).finish().expect_success();
    for path in ["a", "b/c", "b/d/e f", "huge"] {
        let bytes = fs::read(tree.join(path)).unwrap();
        assert!(
            fs::read(taken.join(path)).unwrap() == bytes && fs::read(back.join(path)).unwrap() == bytes,
            "{path}"
        );
    }
}

fn the_aws_client_reads_objects_of_haul_and_haul_reads_its_objects() {
    there_and_back(&["aws", "s3", "cp", "--quiet"], &["aws", "s3", "cp", "--quiet", "--recursive"], "");
}

fn s5cmd_reads_objects_of_haul_and_haul_reads_its_objects() {
    there_and_back(&["s5cmd", "cp"], &["s5cmd", "cp"], "*");
}
