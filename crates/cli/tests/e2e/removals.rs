//! Removals from a store: exactly the given objects, with any characters in their keys; one failure does not stop the
//! others.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use haul_testkit::{CommandRun, Proxy, ProxyTrouble};

use crate::scene::Scene;
use crate::small::{StoreOfTest, at};
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        a_key_with_control_characters_is_removed_and_no_other,
        a_real_store_loses_just_the_objects_that_sync_removes,
        one_key_that_cannot_be_removed_does_not_keep_the_others,
        objects_that_an_answer_does_not_name_are_removed_one_by_one,
        a_key_that_no_file_can_have_is_named_as_itself,
        a_key_and_all_below_it_are_removed_and_no_other,
        a_location_of_another_shape_gets_the_way_out,
    ]
}

/// Names that differ for whoever takes all characters as they are.
const NAMES: [&str; 9] =
    ["a\rb", "a\nb", "a\r\nb", "Icon\r", "\u{1}x", " a", "a ", "<&>\"'\u{7f}", "\u{201b}\u{85}\u{fffe}"];

/// Puts files with all names there, removes those that `goes` says at the source, and returns the names that are left
/// in the store.
fn synced(
    scene: &Scene,
    haul: impl Fn(&str) -> CommandRun,
    to: &str,
    goes: impl Fn(&str) -> bool,
) -> Vec<String> {
    let from = scene.join("from");
    fs::create_dir(&from).unwrap();
    for name in NAMES.into_iter().chain(["keep", "x1", "x2", "x3"]) {
        fs::write(from.join(name), name).unwrap();
    }
    let source = format!("{}/", from.display());
    let _ = haul("sync").args([&source, to]).finish().expect_success();
    for name in NAMES.into_iter().chain(["x1", "x2", "x3"]).filter(|name| goes(name)) {
        fs::remove_file(from.join(name)).unwrap();
    }
    let _ = haul("sync").args([&source, to]).finish().expect_success();
    let back = scene.join("back");
    let _ = haul("copy").args([to, &back.display().to_string()]).finish().expect_success();
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(&back).unwrap() {
        let name = String::from_utf8(entry.unwrap().file_name().as_bytes().to_vec()).unwrap();
        assert_eq!(fs::read(back.join(&name)).unwrap(), name.as_bytes(), "{name:?}");
        names.push(name);
    }
    names.sort();
    names
}

fn a_key_with_control_characters_is_removed_and_no_other() {
    // Each alone with others that go, and all at once.
    for which in NAMES.into_iter().map(Some).chain([None]) {
        let place = StoreOfTest::new();
        let left = synced(
            &place.scene,
            |word| place.haul(word),
            &at("t/"),
            |name| which.is_none_or(|one| one == name || name.starts_with('x')),
        );
        let mut expected: Vec<&str> =
            NAMES.into_iter().filter(|name| which.is_some_and(|one| one != *name)).collect();
        expected.push("keep");
        expected.sort_unstable();
        assert_eq!(left, expected, "{which:?}");
    }
}

fn a_real_store_loses_just_the_objects_that_sync_removes() {
    let bucket = TestBucket::new();
    let left = synced(&bucket.scene, |word| bucket.haul(word), &bucket.at("t/"), |name| name != "a\nb");
    assert_eq!(left, ["a\nb", "keep"]);
}

/// A store with four objects below `t/`, and a proxy before it.
fn four(
    plan: impl Fn(&haul_testkit::store::HttpRequest, usize) -> Option<ProxyTrouble> + Send + Sync + 'static,
) -> (StoreOfTest, Proxy) {
    let place = StoreOfTest::new();
    for name in ["a", "b", "c", "d"] {
        place.store.put(&format!("/bucket/t/{name}"), b"x", &[]);
    }
    let proxy = Proxy::start(place.store.address(), plan);
    (place, proxy)
}

fn one_key_that_cannot_be_removed_does_not_keep_the_others() {
    let (place, proxy) = four(|request, _| match &request.method[..] {
        "POST" => Some(ProxyTrouble::Refuse(400, "", "MalformedXML")),
        "DELETE" if request.path.ends_with("/b") => Some(ProxyTrouble::Refuse(403, "", "AccessDenied")),
        _ => None,
    });
    let run = place.behind(&proxy, "rm").args(["-r", &at("t/")]).finish().expect_code(1);
    assert!(run.err().contains("s3://bucket/t/b`") && !run.err().contains("t/a`"), "{run}");
    let left: Vec<bool> =
        ["a", "b", "c", "d"].map(|name| !place.stored(&format!("t/{name}")).is_empty()).into();
    assert_eq!(left, [false, true, false, false]);
    // The same through `sync`, and a refusal that comes in the answer to all.
    let answer = "<DeleteResult><Deleted><Key>t/a</Key></Deleted><Error><Key>t/b</Key><Code>AccessDenied</Code>\
                  <Message>no</Message></Error></DeleteResult>";
    let (place, proxy) = four(move |request, _| match &request.method[..] {
        "POST" => Some(ProxyTrouble::Answer(answer.to_owned())),
        _ => None,
    });
    let empty = place.scene.join("empty");
    fs::create_dir(&empty).unwrap();
    fs::write(empty.join("e"), "e").unwrap();
    let from = format!("{}/", empty.display());
    let run = place.behind(&proxy, "sync").args(["--json", &from, &at("t/")]).finish().expect_code(1);
    assert!(run.out().contains("\"path\":\"b\"") && run.out().contains("AccessDenied"), "{run}");
    assert!(
        place.stored("t/c").is_empty() && place.stored("t/d").is_empty(),
        "what it did not name is gone too"
    );
}

fn objects_that_an_answer_does_not_name_are_removed_one_by_one() {
    for answer in ["<DeleteResult/>", "<DeleteResult><Deleted><Key>t/other</Key></Deleted></DeleteResult>"] {
        let (place, proxy) = four(move |request, _| {
            (request.method == "POST").then(|| ProxyTrouble::Answer(answer.to_owned()))
        });
        let _ = place.behind(&proxy, "rm").args(["-r", &at("t/")]).finish().expect_success();
        for name in ["a", "b", "c", "d"] {
            assert!(place.stored(&format!("t/{name}")).is_empty(), "{name}");
        }
        assert_eq!(proxy.count(|request| request.method == "DELETE"), 4);
    }
}

fn a_key_that_no_file_can_have_is_named_as_itself() {
    let place = StoreOfTest::new();
    for key in ["dot/deep/er/%E2%80%9B", "dot//x", "good"] {
        place.store.put(&format!("/bucket/t/{key}"), b"x", &[]);
    }
    let (to, list) = (place.scene.join("to"), place.scene.join("list"));
    let words = ["--json", "--failed", &list.display().to_string(), &at("t/"), &to.display().to_string()];
    let run = place.haul("copy").args(words).finish().expect_code(1);
    assert!(run.out().contains("\"path\":\"dot/deep/er/\u{201b}\""), "{run}");
    assert!(run.out().contains("\"path\":\"s3://bucket/t/dot//x\""), "{run}");
    assert!(!run.out().contains("\"path\":\".\""), "{run}");
    let mut listed: Vec<String> = fs::read_to_string(&list).unwrap().lines().map(str::to_owned).collect();
    listed.sort();
    assert_eq!(listed, ["dot/deep/er/\u{201b}", "s3://bucket/t/dot//x"]);
    assert!(to.join("good").exists());
    // The list names no more than these when it is read again.
    let words = ["--files-from", &list.display().to_string(), &at("t/"), &to.display().to_string()];
    let run = place.haul("copy").args(words).finish().expect_code(1);
    assert!(run.err().contains("2 entries failed") && run.err().contains("copied 0 files"), "{run}");
}

fn a_key_and_all_below_it_are_removed_and_no_other() {
    let place = StoreOfTest::new();
    for key in ["data/a", "data/b/c", "database/x", "data-old", "data.txt"] {
        place.store.put(&format!("/bucket/{key}"), b"x", &[]);
    }
    let _ = place.put(&[], "data", b"stream");
    let run = |words: &[&str]| place.haul("rm").args(words).finish();
    let removed = |words: &[&str]| {
        let run = run(words).expect_success();
        let mut keys: Vec<String> = run
            .out()
            .lines()
            .filter_map(|line| Some(line.split_once("s3://bucket/")?.1.to_owned()))
            .collect();
        keys.sort();
        keys
    };
    assert_eq!(removed(&["-rn", &at("data")]), ["data", "data/a", "data/b/c"]);
    assert_eq!(removed(&["-rn", "--min-size", "2", &at("data")]), ["data"]);
    assert_eq!(removed(&["-rn", &at("data/")]), ["data/a", "data/b/c"]);
    assert_eq!(removed(&["-r", &at("data")]), ["data", "data/a", "data/b/c"]);
    for key in ["database/x", "data-old", "data.txt"] {
        assert_eq!(place.stored(key), b"x", "{key}");
    }
    let none = run(&["-r", &at("data")]).expect_code(1);
    assert!(
        none.err().contains("it is no object, and none is below it\nhint: a pattern, as in 'KEY*'"),
        "{none}"
    );
    assert_eq!(removed(&["-r", &at("data*")]), ["data-old", "data.txt", "database/x"]);
}

fn a_location_of_another_shape_gets_the_way_out() {
    let place = StoreOfTest::new();
    place.store.put("/bucket/dir/a", b"x", &[]);
    for (words, code, said) in [
        (
            ["rm", "s3://bucket/dir"],
            1,
            "it is a prefix, and -r is not given\nhint: -r removes all objects below it",
        ),
        (
            ["rm", "s3://bucket/dir/"],
            2,
            "it is a prefix, and -r is not given\nhint: -r removes all objects below it",
        ),
        (["rm", "/tmp/nothing"], 2, "removes objects of stores and files of shares only\nhint: use rm(1)"),
        (["rm", "host:/nothing"], 2, "hint: run rm(1) there, as in `ssh HOST rm PATH`"),
        (
            ["get", "s3://bucket/dir"],
            1,
            "a get reads one object\nhint: `haul copy s3://bucket/dir/ DIR` copies all",
        ),
        (
            ["get", "s3://bucket/dir/"],
            2,
            "a get reads one object\nhint: `haul copy s3://bucket/dir/ DIR` copies all",
        ),
        (["get", "s3://bucket/none"], 1, "there is no such object"),
    ] {
        let run = place.haul(words[0]).arg(words[1]).finish().expect_code(code);
        assert!(run.err().contains(said) && run.err().lines().count() == 2, "{words:?}: {run}");
    }
    assert_eq!(place.stored("dir/a"), b"x");
}
