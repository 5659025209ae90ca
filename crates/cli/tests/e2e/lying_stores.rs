//! Stores that speak as a store does and lie: in every field of a listing, in heads, ranges and marks, in what they say was
//! removed, in how long an answer takes and is. After each: the right exit code, nothing outside of the destination, no
//! control characters on the terminal, and memory that is bounded.

use std::fs;
use std::time::Duration;

use haul_testkit::store::{Reply, Scripted};

use crate::not_stores::haul;
use crate::scene::Scene;
use crate::{Case, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![a_listing_that_lies_is_not_believed, a_listing_without_an_end_ends]
}

/// A record of a listing.
fn record(key: &str, size: &str) -> String {
    format!(
        "<Contents><Key>{key}</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified><ETag>e</ETag><Size>{size}</Size></Contents>"
    )
}

fn a_listing_that_lies_is_not_believed() {
    let scene = Scene::new();
    let to = scene.join("to");
    fs::create_dir(&to).unwrap();
    fs::write(to.join("kept"), "kept").unwrap();
    let to = to.display().to_string();
    for (content, said) in [
        (Reply::listing(&record("t/a", "-1")), "which is no number"),
        (Reply::listing(&record("t/a", "18446744073709551615")), "a length of 18446744073709551615"),
        (Reply::listing(&record("/tmp/evil4", "1")), "lists `/tmp/evil4` below `t/`"),
        (Reply::listing(&record("t", "1")), "lists `t` below `t/`"),
        (
            Reply::listing("<CommonPrefixes><Prefix>other/</Prefix></CommonPrefixes>"),
            "lists `other/` below `t/`",
        ),
        (Reply::listing("<Contents><Size>1</Size></Contents>"), "`Contents` has no `Key`"),
        (Reply::listing("<IsTruncated>true</IsTruncated>"), "does not say where"),
        (Reply::xml("<ListBucketResult><Contents><Key>t/a</Key>"), "it ends too early"),
        (
            Reply::xml(format!("<ListBucketResult>{}", "<a>".repeat(2_000_000))),
            "too much in one of its elements",
        ),
        (
            Reply::xml("<!DOCTYPE x [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]><ListBucketResult/>"),
            "a document with a type of its own",
        ),
        (Reply::listing(&record("t/&b;", "1")), "an entity that XML does not know"),
        (Reply::listing(&record("t/a", "1").repeat(100_000)), "too many names"),
    ] {
        let server = Scripted::start(move |_, _| content.clone());
        for command in ["copy", "sync"] {
            let run = haul(&scene, &server, command)
                .args(["s3://b/t/", &to])
                .watch_memory()
                .finish()
                .expect_code(4);
            assert!(run.err().contains(said), "{said}: {run}");
            assert!(run.near_peak < (128 + 64) << 20, "{said}: {} MiB", run.near_peak >> 20);
        }
    }
    assert_eq!(fs::read_dir(&to).unwrap().count(), 1, "nothing was written or removed");
}

fn a_listing_without_an_end_ends() {
    let scene = Scene::new();
    // Another token each time, and the same names.
    let server = Scripted::start(|_, before| {
        let names = record("t/a", "1") + &record("t/b", "1");
        Reply::listing(&format!(
            "{names}<IsTruncated>true</IsTruncated><NextContinuationToken>{before}</NextContinuationToken>"
        ))
    });
    let run = haul(&scene, &server, "ls").args(["-r", "s3://b/t/"]).finish().expect_code(4);
    assert!(run.err().contains("would go on for ever"), "{run}");
    // An answer without an end, and one that drips.
    let server = Scripted::start(|_, _| Reply::listing(&record("t/a", "1")).endless());
    let run = haul(&scene, &server, "ls").args(["--timeout", "2", "s3://b/t/"]).watch_memory().finish();
    let run = run.expect_code(4);
    assert!(run.near_peak < 192 << 20, "{} MiB", run.near_peak >> 20);
    let server =
        Scripted::start(|_, _| Reply::listing(&record("t/a", "1")).dripping(1, Duration::from_millis(300)));
    let run = haul(&scene, &server, "ls").args(["--timeout", "2", "s3://b/t/"]).finish().expect_code(4);
    assert!(run.err().contains("nothing moved"), "{run}");
}
