//! `haul stat`: the metadata of single entries, compared with stat(1) and the AWS client.

use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::store::endpoint;
use haul_testkit::{CommandRun, Finished, Need};
use serde_json::Value;

use crate::provider::{ALL, Provider, ProviderBucket};
use crate::scene::Scene;
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![files_are_described_as_by_stat, missing_entries_are_named];
    all.extend(cases![
        Need::Program("weed"), Need::Program("rclone"), Need::Program("aws");
        objects_are_described_as_by_the_aws_client,
    ]);
    all.extend(cases![
        Need::Program("weed"), Need::Program("rclone"), Need::Program("azurite-blob");
        objects_are_described_at_each_provider,
    ]);
    all
}

/// The lines of a run, in JSON.
fn described(run: CommandRun) -> Vec<Value> {
    let run = run.arg("--json").finish().expect_success();
    run.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn files_are_described_as_by_stat() {
    let scene = Scene::new();
    let tree = scene.tree("src");
    tree.file("a", 3000);
    tree.file("b/c", 10);
    tree.link("link", "a");
    let sftp = format!("sftp://{}", scene.sshd().host());
    let shell = scene.sshd().shell();
    for name in ["a", "b", "link"] {
        let path = tree.join(name);
        let mut stat = Command::new("stat");
        let expected = tool(stat.args(["-c", "%s %Y %a %u %g %U %G %h"]).arg(&path));
        let expected: Vec<&str> = expected.split_whitespace().collect();
        for (way, run) in [
            ("local", scene.haul("stat").arg(&path)),
            ("ssh", scene.haul_ssh("stat").arg(scene.remote(&path))),
            ("sftp", scene.haul("stat").args(["-e", &shell]).arg(format!("{sftp}{}", path.display()))),
        ] {
            let all = described(run);
            let [line] = &all[..] else { panic!("{all:?}") };
            let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
            let number = |key: &str| line[key].as_u64().unwrap_or_default().to_string();
            let modified = text("modified").parse::<jiff::Timestamp>().unwrap().as_second();
            if name == "a" {
                assert_eq!(number("len"), expected[0], "{way} {line}");
            }
            assert_eq!(modified.to_string(), expected[1], "{way} {line}");
            // A link has no mode of its own.
            if name != "link" {
                assert_eq!(text("mode").trim_start_matches('0'), expected[2], "{way} {line}");
            }
            assert_eq!([number("uid"), number("gid")], expected[3..5], "{way} {line}");
            if way != "sftp" {
                assert_eq!([text("user"), text("group")], expected[5..7], "{way} {line}");
                assert_eq!(number("links"), expected[7], "{way} {line}");
            }
            assert_eq!(text("target"), if name == "link" { "a" } else { "" }, "{way} {line}");
        }
    }
    let pattern = scene.remote(tree.join("[ab]"));
    let names: Vec<String> =
        described(scene.haul_ssh("stat").arg(pattern)).iter().map(|line| line["kind"].to_string()).collect();
    assert_eq!(names, ["\"file\"", "\"dir\""]);
    let run = scene.haul("stat").args([tree.join("a"), tree.join("b")]).finish().expect_success();
    assert!(run.out().contains("size             3,000 bytes (2.93 KiB)\n"), "{run}");
    assert_eq!(run.out().lines().filter(|line| line.starts_with("location ")).count(), 2, "{run}");
}

/// Checks that a run names the missing entry in one line, and prints nothing else.
fn missing(run: CommandRun) -> Finished {
    let run = run.finish().expect_code(1);
    assert!(
        run.stdout.is_empty() && run.err().lines().filter(|line| line.contains("failed")).count() == 1,
        "{run}"
    );
    run
}

fn missing_entries_are_named() {
    let scene = Scene::new();
    let tree = scene.tree("src");
    tree.text("a", "a");
    let none = tree.join("none");
    for run in [scene.haul("stat").arg(&none), scene.haul_ssh("stat").arg(scene.remote(&none))] {
        let run = missing(run);
        assert!(run.err().contains("No such file or directory"), "{run}");
    }
    let run = scene.haul("stat").arg(&none).arg(tree.join("a")).finish().expect_code(1);
    assert!(run.out().contains("kind             file") && run.err().contains("none"), "{run}");
}

fn objects_are_described_as_by_the_aws_client() {
    let bucket = TestBucket::new();
    let put = bucket.haul("put").args(["--metadata", "host=db1", "--header", "Content-Type: text/x-dump"]);
    let _ = put.args(["-q", &bucket.at("a/k")]).input("hello").finish().expect_success();
    let aws = bucket
        .program("aws")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", format!("http://{}", endpoint()));
    let aws = aws.args(["s3api", "head-object", "--bucket", bucket.name(), "--key", "a/k"]);
    let theirs: Value = serde_json::from_str(&aws.finish().expect_success().out()).unwrap();
    let all = described(bucket.haul("stat").args([bucket.at("a/k"), bucket.at("a/"), bucket.at("")]));
    let [object, prefix, whole] = &all[..] else { panic!("{all:?}") };
    assert_eq!(object["len"], theirs["ContentLength"], "{object}");
    assert_eq!(object["etag"], theirs["ETag"].as_str().unwrap().trim_matches('"'), "{object}");
    assert_eq!(object["headers"]["content-type"], theirs["ContentType"], "{object}");
    assert_eq!(object["metadata"]["host"], theirs["Metadata"]["host"], "{object}");
    // The first version of the client prints the time as the store sends it.
    let time = |value: &Value| {
        let text = value.as_str().unwrap();
        let of_http = || jiff::fmt::rfc2822::parse(text).map(|time| time.timestamp());
        text.parse::<jiff::Timestamp>().or_else(|_| of_http()).unwrap().as_second()
    };
    assert_eq!(time(&object["modified"]), time(&theirs["LastModified"]), "{object}");
    assert_eq!((prefix["kind"].as_str(), whole["kind"].as_str()), (Some("prefix"), Some("bucket")));
    let pattern = described(bucket.haul("stat").arg(bucket.at("*/k")));
    assert_eq!(pattern, std::slice::from_ref(object));
    for key in ["none", "none/", "no*", "a"] {
        let run = bucket.haul("stat").arg(bucket.at(key));
        if key == "a" {
            assert_eq!(described(run)[0]["kind"], "prefix");
        } else {
            let _ = missing(run);
        }
    }
}

fn objects_are_described_at_each_provider() {
    for provider in ALL {
        let at = ProviderBucket::new(provider);
        let put = at.haul("put").args(["-q", "--header", "Content-Type: text/x-dump", &at.at("k")]);
        let _ = put.input("hello").finish().expect_success();
        let all = described(at.haul("stat").arg(at.at("k")));
        assert_eq!((all[0]["len"].as_u64(), all[0]["kind"].as_str()), (Some(5), Some("object")), "{all:?}");
        assert_eq!(all[0]["headers"]["content-type"], "text/x-dump", "{provider:?} {all:?}");
        let run = missing(at.haul("stat").arg(at.at("none")));
        assert!(run.err().contains("none"), "{run}");
        assert!(provider != Provider::Azure || all[0]["class"].as_str().is_some(), "{all:?}");
    }
}
