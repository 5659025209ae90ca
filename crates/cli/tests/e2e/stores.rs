//! Faulty object stores: a real one behind a proxy.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_testkit::store::{HttpRequest, endpoint};
use haul_testkit::{Need, Proxy, ProxyTrouble};

use crate::scene::{HAUL, summary};
use crate::store::{TestBucket, requests};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Program("weed"), Need::Program("rclone");
        a_store_that_asks_for_less_gets_less_and_all_arrives,
        connections_that_are_cut_cost_a_part_each,
        a_byte_that_is_flipped_on_the_way_up_is_sent_again,
        a_byte_that_is_flipped_on_the_way_down_withholds_the_end,
        a_lost_answer_to_the_last_request_is_no_failure,
        a_store_without_the_checksum_just_works,
        credentials_that_run_out_are_waited_for,
        a_range_that_is_slow_is_asked_for_again,
        an_object_that_is_replaced_meanwhile_is_told,
        a_store_that_is_gone_is_given_up_after_the_time_that_was_said,
        a_part_of_a_key_is_kept,
    ];
    all.extend(cases![
        Need::Root, Need::Program("weed"), Need::Program("rclone");
        the_requested_version_of_ip_reaches_the_store,
    ]);
    all
}

fn proxy(plan: impl Fn(&HttpRequest, usize) -> Option<ProxyTrouble> + Send + Sync + 'static) -> Proxy {
    Proxy::start(endpoint(), plan)
}

/// Puts 50 MB through the proxy and reads them back from the store itself. Gives the summary.
fn put_and_compare(bucket: &TestBucket, proxy: &Proxy) -> serde_json::Value {
    let (file, bytes) = bucket.file("content", 50_000_000);
    let run = bucket.through(proxy, "put").args(["--json", &bucket.at("x"), "--", "cat"]).arg(file);
    let run = run.finish().expect_success();
    assert!(bucket.read("x") == bytes);
    assert!(bucket.incomplete().is_empty());
    summary(&run).0
}

fn a_store_that_asks_for_less_gets_less_and_all_arrives() {
    let bucket = TestBucket::new();
    let proxy = proxy(|request, before| {
        let busy = request.part().is_some() && before < 2;
        busy.then_some(ProxyTrouble::Refuse(503, "Retry-After: 1\r\n", "SlowDown"))
    });
    let summary = put_and_compare(&bucket, &proxy);
    assert!(requests(&summary, "retried") >= 10, "{summary}");
}

fn connections_that_are_cut_cost_a_part_each() {
    let bucket = TestBucket::new();
    let proxy = proxy(|request, before| match (request.part(), before) {
        (Some(part), 0) if part % 2 == 0 => Some(ProxyTrouble::CutContent(1_000_000)),
        (Some(3), 0) => Some(ProxyTrouble::LoseAnswer),
        (None, 0) if request.range_start().is_some() => Some(ProxyTrouble::CutAnswer(5_000_000)),
        _ => None,
    });
    let summary = put_and_compare(&bucket, &proxy);
    assert!(requests(&summary, "retried") >= 3, "{summary}");
    let run = bucket.through(&proxy, "get").arg(bucket.at("x")).finish().expect_success();
    assert!(run.stdout == bucket.read("x"));
}

fn a_byte_that_is_flipped_on_the_way_up_is_sent_again() {
    let bucket = TestBucket::new();
    let proxy = proxy(|request, before| {
        (request.part().is_some() && before == 0).then_some(ProxyTrouble::FlipContent(12_345))
    });
    let summary = put_and_compare(&bucket, &proxy);
    assert!(requests(&summary, "retried") >= 5, "{summary}");
    let small = self::proxy(|request, before| {
        (request.method == "PUT" && before == 0).then_some(ProxyTrouble::FlipContent(3))
    });
    let _ = bucket.through(&small, "put").arg(bucket.at("small")).input("small").finish().expect_success();
    assert_eq!(bucket.read("small"), b"small");
}

fn a_byte_that_is_flipped_on_the_way_down_withholds_the_end() {
    let bucket = TestBucket::new();
    let (_, bytes) = bucket.file("content", 30_000_000);
    bucket.put("long", &bytes);
    bucket.put("small", b"small");
    let proxy = proxy(|request, _| (request.range_start() == Some(0)).then_some(ProxyTrouble::FlipAnswer(1)));
    for (key, len) in [("long", bytes.len()), ("small", 5)] {
        let run = bucket.through(&proxy, "get").arg(bucket.at(key)).finish().expect_code(3);
        assert!(run.stdout.len() < len, "{key}: the last bytes are not handed over");
        assert!(run.err().contains("BLAKE3"), "{run}");
        let file = bucket.scene.join(key);
        let _ = bucket.through(&proxy, "get").arg(bucket.at(key)).arg(&file).finish().expect_code(3);
        assert!(!file.exists());
    }
}

fn a_lost_answer_to_the_last_request_is_no_failure() {
    let bucket = TestBucket::new();
    let proxy = proxy(|request, before| {
        let last = request.completes() || request.method == "PUT" && request.path.ends_with("/small");
        (last && before == 0).then_some(ProxyTrouble::LoseAnswer)
    });
    let _ = put_and_compare(&bucket, &proxy);
    let run =
        bucket.through(&proxy, "put").args(["--no-clobber", &bucket.at("small")]).input("small").finish();
    let _ = run.expect_success();
    assert_eq!(bucket.read("small"), b"small");
}

fn a_store_without_the_checksum_just_works() {
    let bucket = TestBucket::new();
    let proxy = proxy(|request, _| {
        let new = request
            .headers
            .iter()
            .any(|(name, _)| name.starts_with("x-amz-checksum-") && name != "x-amz-checksum-mode");
        new.then_some(ProxyTrouble::Refuse(400, "", "InvalidArgument"))
    });
    let _ = put_and_compare(&bucket, &proxy);
    let parts = |request: &HttpRequest| request.part().is_some() && request.header("content-md5").is_some();
    assert!(proxy.count(parts) >= 5, "each part is checked by MD5 instead");
    let _ = bucket.through(&proxy, "put").arg(bucket.at("small")).input("small").finish().expect_success();
}

fn credentials_that_run_out_are_waited_for() {
    let bucket = TestBucket::new();
    let proxy = proxy(|request, before| {
        let refused = request.part().is_some_and(|part| part > 2) && before < 2;
        refused.then_some(ProxyTrouble::Refuse(400, "", "ExpiredToken"))
    });
    let (file, bytes) = bucket.file("content", 40_000_000);
    let run = bucket.through(&proxy, "put").args([&bucket.at("x"), "--", "cat"]).arg(file).finish();
    let run = run.expect_success();
    assert!(run.err().contains("the credentials are refused"), "{run}");
    assert!(bucket.read("x") == bytes);
}

fn a_range_that_is_slow_is_asked_for_again() {
    let bucket = TestBucket::new();
    let (_, bytes) = bucket.file("content", 60_000_000);
    bucket.put("x", &bytes);
    let proxy = proxy(|request, before| {
        (request.range_start() == Some(16 << 20) && before == 0)
            .then_some(ProxyTrouble::Late(Duration::from_secs(60)))
    });
    let run = bucket.through(&proxy, "get").arg(bucket.at("x")).limit(Duration::from_secs(40)).finish();
    assert!(run.expect_success().stdout == bytes);
    assert_eq!(proxy.count(|request| request.range_start() == Some(16 << 20)), 2);
}

fn an_object_that_is_replaced_meanwhile_is_told() {
    let bucket = TestBucket::new();
    let (_, bytes) = bucket.file("content", 60_000_000);
    bucket.put("x", &bytes);
    let replaced = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&replaced);
    // The second half waits until there is another object.
    let proxy = proxy(move |request, _| {
        while request.range_start().is_some_and(|start| start > 0) && !seen.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    });
    let mut run = bucket.through(&proxy, "get").arg(bucket.at("x")).start();
    run.wait_until("it reads", || proxy.count(|request| request.range_start().is_some()) > 1);
    bucket.put("x", &bytes[1..]);
    replaced.store(true, Ordering::Relaxed);
    let run = run.finish().expect_code(1);
    assert!(run.err().contains("another object by now"), "{run}");
}

fn a_store_that_is_gone_is_given_up_after_the_time_that_was_said() {
    let bucket = TestBucket::new();
    let proxy = proxy(|request, _| (request.part() == Some(2)).then_some(ProxyTrouble::CutContent(10)));
    let (file, bytes) = bucket.file("content", 40_000_000);
    let run = bucket.through(&proxy, "put").args(["--timeout", "2", &bucket.at("x"), "--", "cat"]).arg(&file);
    let run = run.finish().expect_code(4);
    assert!(run.err().contains("--resume") && run.err().contains("nothing went through"), "{run}");
    assert!(bucket.names().is_empty());
    let run =
        bucket.haul("put").args(["--json", "--resume", &bucket.at("x"), "--", "cat"]).arg(&file).finish();
    assert!(summary(&run.expect_success()).of("resumed_bytes") >= 8 << 20);
    assert!(bucket.read("x") == bytes);
}

fn a_part_of_a_key_is_kept() {
    let bucket = TestBucket::new();
    for key in ["a/b/c/1", "a/b/c/2", "a/b2/c/3", "a/d"] {
        let _ = bucket.put(key, key.as_bytes());
    }
    let kept = |source: &str, files: &[&str]| {
        let to = bucket.scene.join("to");
        let run = bucket.haul("copy").args(["-R", &bucket.at(source)]).arg(&to).finish().expect_success();
        let mut found: Vec<String> = haul_testkit::tree::list(&to)
            .into_iter()
            .filter(|path| to.join(path).is_file())
            .map(|path| path.display().to_string())
            .collect();
        found.sort_unstable();
        assert_eq!(found, files, "{source}: {run}");
        assert_eq!(
            fs::read_to_string(to.join(files[0])).unwrap().rsplit('/').next(),
            files[0].rsplit('/').next()
        );
        fs::remove_dir_all(&to).unwrap();
    };
    kept("a/b/c", &["a/b/c/1", "a/b/c/2"]);
    kept("a/./b/c", &["b/c/1", "b/c/2"]);
    kept("a/b/./c/2", &["c/2"]);
    kept("./a/b2", &["a/b2/c/3"]);
    kept("a/./b*/c", &["b/c/1", "b/c/2", "b2/c/3"]);
    kept("a/b/./", &["c/1", "c/2"]);
    // Up to another bucket, which keeps the path too.
    let other = TestBucket::new();
    let _ =
        bucket.haul("copy").args(["-R", &bucket.at("a/./b2/c"), &other.at("to/")]).finish().expect_success();
    let mut names = other.names();
    names.retain(|name| !name.ends_with(".haul"));
    assert_eq!(names, ["to/b2/c/3"]);
    let run =
        bucket.haul("copy").arg(bucket.at("a/./b")).arg(bucket.scene.join("to")).finish().expect_code(2);
    assert!(run.err().contains("component `.`"), "{run}");
}

fn the_requested_version_of_ip_reaches_the_store() {
    let bucket = TestBucket::new();
    let _ = bucket.put("k", b"x");
    let hosts = bucket.scene.join("hosts");
    fs::write(&hosts, "127.0.0.1 both.test four.test\n::1 both.test\n").unwrap();
    let enter = format!("mount --bind '{}' /etc/hosts && exec \"$0\" \"$@\"", hosts.display());
    let run = |host: &str, family: &str, words: &[&str]| {
        let run =
            bucket.program("unshare").args(["--mount", "--propagation", "private", "sh", "-c", &enter, HAUL]);
        let run = run.env("AWS_ENDPOINT_URL", format!("http://{host}:{}", endpoint().port()));
        run.args([words[0], family]).args(&words[1..]).finish()
    };
    let (url, to) = (bucket.at("k"), bucket.scene.join("to").display().to_string());
    for words in [
        &["copy", "--store-timeout=2s", &url, &to][..],
        &["ls", "--timeout=2s", &url],
        &["stat", "--timeout=2s", &url],
        &["get", "--timeout=2s", "-q", &url],
        &["put", "--timeout=2s", "-q", &url, "--", "echo", "x"],
    ] {
        // The store listens on 127.0.0.1 only.
        let _ = run("both.test", "-4", words).expect_success();
        let refused = run("both.test", "-6", words).expect_code(4);
        assert!(refused.err().contains("both.test"), "{refused}");
        let none = run("four.test", "-6", words).expect_code(4);
        assert!(none.err().contains("four.test") && none.err().contains("-4 or -6"), "{none}");
    }
}
