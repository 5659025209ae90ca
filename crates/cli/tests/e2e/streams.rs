//! Streams to and from a real object store, checked with other clients of the store.

use std::fs;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::process::kill;
use haul_testkit::{LongLink, Need, Proxy, ProxyTrouble, content};
use rustix::process::Signal;

use crate::scene::{events, summary};
use crate::store::{TestBucket, requests};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Program("weed"), Need::Program("rclone");
        a_small_stream_is_one_request_and_comes_back,
        a_host_without_certificates_reaches_a_store_over_http,
        a_long_stream_goes_in_parts_and_its_digest_is_beside_it,
        a_command_that_fails_makes_and_replaces_nothing,
        a_failure_before_the_pipe_is_a_failure,
        an_empty_stream_replaces_nothing_unless_told_to,
        no_clobber_replaces_nothing,
        an_interrupted_put_leaves_nothing,
        an_interrupted_pipeline_is_no_end_of_its_stream,
        a_killed_put_goes_on_where_it_was,
        an_interrupt_keeps_the_parts_of_a_resumed_put,
        the_upload_of_a_killed_put_is_given_up,
        each_destination_has_an_outcome_of_its_own,
        parts_grow_so_that_few_are_enough_and_memory_stays,
        a_get_into_a_file_goes_on_where_it_was,
        a_reader_that_has_enough_ends_it_quietly,
        objects_of_others_are_read,
        the_user_bounds_the_connections_to_a_store,
        headers_and_metadata_of_a_put_are_kept,
        objects_are_listed_and_removed,
        an_object_with_only_the_name_of_a_sidecar_stays,
        requests_that_cannot_be_meant_are_refused,
    ]
}

fn a_small_stream_is_one_request_and_comes_back() {
    let bucket = TestBucket::new();
    let run =
        bucket.haul("put").args(["--json", &bucket.at("a/small")]).input("hello").finish().expect_success();
    let summary = summary(&run);
    assert_eq!((summary.of("copied"), summary.of("copied_bytes")), (1, 5));
    assert_eq!((requests(&summary.0, "put"), requests(&summary.0, "get")), (1, 0), "{run}");
    assert_eq!(bucket.read("a/small"), b"hello");
    assert_eq!(bucket.names(), ["a/small"]);
    let run = bucket.haul("get").arg(bucket.at("a/small")).finish().expect_success();
    assert_eq!(run.out(), "hello");
    assert!(!run.err().contains("no digest is recorded"), "{run}");
    let run = bucket.haul("get").arg(bucket.at("a/other")).finish().expect_code(1);
    assert!(run.err().contains("there is no such object"), "{run}");
}

fn a_host_without_certificates_reaches_a_store_over_http() {
    let bucket = TestBucket::new();
    let bare = |word: &str| {
        let run = bucket.haul(word).env("AWS_CA_BUNDLE", "");
        run.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent")
    };
    let _ = bare("put").arg(bucket.at("small")).input("hello").finish().expect_success();
    let run = bare("get").arg(bucket.at("small")).finish().expect_success();
    assert_eq!(run.out(), "hello");
}

fn a_long_stream_goes_in_parts_and_its_digest_is_beside_it() {
    let bucket = TestBucket::new();
    let (file, bytes) = bucket.file("content", 40_000_001);
    let run = bucket.haul("put").args(["--json", &bucket.at("long"), "--", "cat"]).arg(&file).finish();
    let run = run.expect_success();
    assert_eq!(summary(&run).of("copied_bytes"), bytes.len() as u64);
    assert_eq!(events(&run)[0]["command"], "put");
    assert!(bucket.read("long") == bytes);
    let digest = tool(std::process::Command::new("b3sum").arg("--no-names").arg(&file));
    let sidecar: serde_json::Value = serde_json::from_slice(&bucket.read("long.haul")).unwrap();
    assert_eq!(sidecar["blake3"], digest.trim());
    assert_eq!(sidecar["length"], bytes.len());
    let run = bucket.haul("get").arg(bucket.at("long")).watch_memory().finish().expect_success();
    assert!(run.stdout == bytes);
    assert!(!run.err().contains("no digest is recorded"), "{run}");
    let copy = bucket.scene.join("copy");
    let run = bucket.haul("get").args(["--json", &bucket.at("long")]).arg(&copy).finish().expect_success();
    assert_eq!(summary(&run).of("copied"), 1);
    assert!(fs::read(&copy).unwrap() == bytes);
    assert!(bucket.incomplete().is_empty());
}

fn a_command_that_fails_makes_and_replaces_nothing() {
    let bucket = TestBucket::new();
    bucket.put("old", b"the old one");
    for (len, end) in [("10", "exit 3"), ("30000000", "exit 3"), ("30000000", "kill -9 $$")] {
        for key in ["old", "new"] {
            let line = format!("head -c {len} /dev/zero; {end}");
            let run =
                bucket.haul("put").args([&bucket.at(key), "--", "sh", "-c", &line]).finish().expect_code(1);
            assert!(run.err().contains("failed to run `sh "), "{run}");
        }
    }
    let run = bucket.haul("put").args([&bucket.at("new"), "--", "no-such-command"]).finish().expect_code(1);
    assert!(run.err().contains("no-such-command"), "{run}");
    assert_eq!(bucket.names(), ["old"]);
    assert_eq!(bucket.read("old"), b"the old one");
    assert!(bucket.incomplete().is_empty());
    bucket.scene.assert_all_gone();
}

fn a_failure_before_the_pipe_is_a_failure() {
    let bucket = TestBucket::new();
    let run = bucket.haul("put").args([&bucket.at("x"), "--", "false | echo done"]).finish();
    let _ = run.expect_code(1);
    let run = bucket.haul("put").args([&bucket.at("y"), "--", "echo done | tr d D"]).finish();
    let _ = run.expect_success();
    assert_eq!(bucket.names(), ["y"]);
    assert_eq!(bucket.read("y"), b"Done\n");
}

fn an_empty_stream_replaces_nothing_unless_told_to() {
    let bucket = TestBucket::new();
    bucket.put("x", b"old");
    let run = bucket.haul("put").arg(bucket.at("x")).finish().expect_code(1);
    assert!(run.err().contains("empty"), "{run}");
    let _ = bucket.haul("put").args([&bucket.at("x"), "--", "true"]).finish().expect_code(1);
    assert_eq!(bucket.read("x"), b"old");
    let _ = bucket.haul("put").args(["--allow-empty", &bucket.at("x")]).finish().expect_success();
    assert_eq!(bucket.read("x"), b"");
    let run = bucket.haul("get").arg(bucket.at("x")).finish().expect_success();
    assert!(run.stdout.is_empty());
}

fn no_clobber_replaces_nothing() {
    let bucket = TestBucket::new();
    let _ = bucket.haul("put").args(["--no-clobber", &bucket.at("x")]).input("old").finish().expect_success();
    let long = vec![1; 20_000_000];
    for input in [&b"new"[..], &long] {
        let run = bucket.haul("put").args(["--no-clobber", &bucket.at("x")]).input(input).finish();
        assert!(run.expect_code(1).err().contains("--no-clobber"));
    }
    assert_eq!(bucket.read("x"), b"old");
    assert!(bucket.incomplete().is_empty());
}

/// A stream of which 40 MB come at once and the rest never.
const ENDLESS: &str = "head -c 40000000 /dev/zero; sleep 300";

fn an_interrupted_put_leaves_nothing() {
    let bucket = TestBucket::new();
    let run = bucket.haul("put").args([&bucket.at("x"), "--", "sh", "-c", ENDLESS]);
    let mut run = run.start();
    run.wait_until("parts are sent", || !bucket.incomplete().is_empty());
    run.signal(Signal::INT);
    let _ = run.finish().expect_code(130);
    assert!(bucket.incomplete().is_empty());
    assert!(bucket.names().is_empty());
    bucket.scene.assert_all_gone();
}

/// Ctrl-C goes to both ends of a pipe, and the writer is gone first.
fn an_interrupted_pipeline_is_no_end_of_its_stream() {
    let bucket = TestBucket::new();
    bucket.put("x", b"old");
    for (round, len) in [1_000_000, 30_000_000, 1_000_000, 30_000_000].into_iter().enumerate() {
        let ready = bucket.scene.join(format!("ready{round}"));
        // All but the last bytes were read when the writer says so; it is no shell then, which might lose the signal
        // on its way to being another program. A job has a process group of its own.
        let line = format!(
            "set -m; {{ head -c {len} /dev/zero; exec python3 -c 'import signal, time; \
             signal.signal(signal.SIGINT, signal.SIG_DFL); open(\"{ready}\", \"w\"); time.sleep(300)'; \
             }} | '{haul}' put '{at}' & \
             until [ -e '{ready}' ]; do sleep 0.1; done; kill -INT -- -$(jobs -p); wait $!; echo $?",
            ready = ready.display(),
            haul = crate::scene::HAUL,
            at = bucket.at("x"),
        );
        let run = bucket.program("bash").args(["-c", &line]).finish().expect_success();
        assert_eq!(run.out().trim(), "130", "{run}");
        assert_eq!(bucket.read("x"), b"old");
        assert!(bucket.incomplete().is_empty());
    }
    bucket.scene.assert_all_gone();
}

fn a_killed_put_goes_on_where_it_was() {
    let bucket = TestBucket::new();
    let (file, bytes) = bucket.file("content", 60_000_000);
    let proxy = Proxy::start(haul_testkit::store::endpoint(), |_, _| None);
    let stalled = format!("head -c 40000000 {}; sleep 300", file.display());
    let run = bucket.through(&proxy, "put").args([&bucket.at("x"), "--", "sh", "-c", &stalled]);
    let mut run = run.start();
    // Four parts of 8 MiB are complete; the fifth waits for more.
    run.wait_until("parts are sent", || proxy.done(|request| request.part().is_some()) == 4);
    kill(run.pid());
    assert!(run.finish().was_killed());
    let run =
        bucket.haul("put").args(["--json", "--resume", &bucket.at("x"), "--", "cat"]).arg(&file).finish();
    let summary = summary(&run.expect_success());
    assert_eq!(summary.of("resumed_bytes"), 4 * (8 << 20), "{}", summary.0);
    assert_eq!(summary.of("resumed_bytes") + summary.of("sent_bytes"), bytes.len() as u64);
    assert!(bucket.read("x") == bytes);
    assert!(bucket.incomplete().is_empty());
}

fn an_interrupt_keeps_the_parts_of_a_resumed_put() {
    let bucket = TestBucket::new();
    let (file, bytes) = bucket.file("content", 60_000_000);
    let proxy = Proxy::start(haul_testkit::store::endpoint(), |_, _| None);
    let stalled = format!("head -c 40000000 {}; sleep 300", file.display());
    let run = bucket.through(&proxy, "put").args(["--resume", &bucket.at("x"), "--", "sh", "-c", &stalled]);
    let mut run = run.start();
    run.wait_until("parts are sent", || proxy.done(|request| request.part().is_some()) == 4);
    run.signal(Signal::INT);
    assert!(run.finish().expect_code(130).err().contains("with --resume goes on from them"));
    let run = bucket.haul("put").args(["--json", "--resume", &bucket.at("x"), "--", "cat"]).arg(&file);
    assert_eq!(summary(&run.finish().expect_success()).of("resumed_bytes"), 4 * (8 << 20));
    assert!(bucket.read("x") == bytes && bucket.incomplete().is_empty());
}

fn the_upload_of_a_killed_put_is_given_up() {
    let bucket = TestBucket::new();
    let run = bucket.haul("put").args([&bucket.at("dir/x"), "--", "sh", "-c", ENDLESS]);
    let mut run = run.start();
    run.wait_until("parts are sent", || !bucket.incomplete().is_empty());
    let busy = bucket.haul("rm").args(["--incomplete", &bucket.at("dir/")]).finish().expect_success();
    assert!(busy.out().contains("in use by a haul on this host"), "{busy}");
    kill(run.pid());
    assert!(run.finish().was_killed());
    // Its command outlives it: nobody told it to end.
    haul_testkit::process::tagged(bucket.scene.tag()).into_iter().for_each(kill);
    let elsewhere = bucket.haul("rm").env("XDG_STATE_HOME", bucket.scene.join("other"));
    let left = elsewhere.args(["--incomplete", &bucket.at("")]).finish().expect_success();
    assert!(left.out().starts_with("skipped"), "{left}");
    let gone = bucket.haul("rm").args(["--incomplete", &bucket.at("")]).finish().expect_success();
    assert!(gone.out().starts_with("aborted"), "{gone}");
    assert!(bucket.incomplete().is_empty());
}

fn each_destination_has_an_outcome_of_its_own() {
    let bucket = TestBucket::new();
    let proxy = Proxy::start(haul_testkit::store::endpoint(), |request, _| {
        let bad = request.path.contains("/bad/") && request.method != "HEAD";
        bad.then_some(ProxyTrouble::Refuse(403, "", "AccessDenied"))
    });
    let (_, bytes) = bucket.file("content", 20_000_000);
    for (name, input) in [("small", &bytes[..100]), ("long", &bytes)] {
        let [good, bad] = ["good", "bad"].map(|dir| format!("{dir}/{name}"));
        let run = bucket.through(&proxy, "put").args(["--json", &bucket.at(&bad), &bucket.at(&good)]);
        let run = run.input(input).finish().expect_code(1);
        let failed: Vec<_> = events(&run).into_iter().filter(|event| event["type"] == "failed").collect();
        assert_eq!(failed.len(), 1, "{run}");
        assert_eq!(failed[0]["path"], bucket.at(&bad));
        assert!(bucket.read(&good) == input);
    }
}

fn parts_grow_so_that_few_are_enough_and_memory_stays() {
    let bucket = TestBucket::new();
    let proxy = Proxy::start(haul_testkit::store::endpoint(), |request, _| {
        let beyond = request.part().is_some_and(|part| part > 20);
        beyond.then_some(ProxyTrouble::Refuse(400, "", "InvalidArgument"))
    });
    // 450 MiB take parts of 64 and 128 MiB, more than fits into memory.
    let line = "head -c 471859200 /dev/zero";
    let run =
        bucket.through(&proxy, "put").args(["--json", "--max-parts", "20", &bucket.at("x"), "--", line]);
    let run = run.watch_memory().finish().expect_success();
    assert!(run.local_peak < 128 << 20, "{} MiB", run.local_peak >> 20);
    assert_eq!(summary(&run).of("copied_bytes"), 471_859_200);
    assert!(proxy.count(|request| request.part().is_some()) <= 20);
    let sum = bucket.haul("get").arg(bucket.at("x")).arg(bucket.scene.join("copy")).watch_memory().finish();
    assert!(sum.local_peak < 128 << 20, "{} MiB", sum.local_peak >> 20);
    let _ = sum.expect_success();
    assert_eq!(fs::metadata(bucket.scene.join("copy")).unwrap().len(), 471_859_200);
}

fn a_get_into_a_file_goes_on_where_it_was() {
    let bucket = TestBucket::new();
    let (_, bytes) = bucket.file("content", 60_000_000);
    bucket.put("x", &bytes);
    let proxy = Proxy::start(haul_testkit::store::endpoint(), |request, _| {
        let late = request.range_start().is_some_and(|start| start >= 32 << 20);
        late.then_some(ProxyTrouble::Slow(10_000))
    });
    let directory = bucket.scene.join("directory");
    fs::create_dir(&directory).unwrap();
    let staged = || {
        fs::read_dir(&directory).unwrap().flatten().next().map_or(0, |entry| entry.metadata().unwrap().len())
    };
    let mut run = bucket.through(&proxy, "get").arg(bucket.at("x")).arg(&directory).start();
    run.wait_until("some ranges are there", || staged() >= 24 << 20);
    kill(run.pid());
    let _ = run.finish();
    assert!(!directory.join("x").exists());
    let run = bucket.haul("get").args(["--json", &bucket.at("x")]).arg(&directory).finish().expect_success();
    assert!(summary(&run).of("resumed_bytes") >= 24 << 20, "{run}");
    assert!(fs::read(directory.join("x")).unwrap() == bytes);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
}

fn a_reader_that_has_enough_ends_it_quietly() {
    let bucket = TestBucket::new();
    let (_, bytes) = bucket.file("content", 30_000_000);
    bucket.put("x", &bytes);
    let haul = crate::scene::HAUL;
    let line = format!("{haul} get {} | head -c 1000; echo ${{PIPESTATUS[0]}} >&2", bucket.at("x"));
    let run = haul_testkit::CommandRun::new("bash", bucket.scene.tag()).args(["-c", &line]);
    let run = run
        .env("AWS_ACCESS_KEY_ID", haul_testkit::store::ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", haul_testkit::store::SECRET_KEY)
        .env("AWS_ENDPOINT_URL", format!("http://{}", haul_testkit::store::endpoint()));
    let run = run.finish().expect_success();
    assert!(run.stdout == bytes[..1000]);
    assert_eq!(run.err().trim(), "1");
}

fn the_user_bounds_the_connections_to_a_store() {
    let bucket = TestBucket::new();
    let (_, bytes) = bucket.file("content", 60_000_000);
    bucket.put("long", &bytes);
    let delay = Duration::from_millis(20);
    for (words, few) in [(&["--streams", "2"][..], true), (&[], false)] {
        let link = LongLink::new(haul_testkit::store::endpoint(), delay, 1 << 20);
        let endpoint = format!("http://127.0.0.1:{}", link.port());
        let run = bucket.haul("get").args(["--endpoint", &endpoint]).args(words).arg(bucket.at("long"));
        assert!(run.finish().expect_success().stdout == bytes);
        // One more: the digest is looked up while the first ranges are on their way.
        assert_eq!(link.connections() <= 3, few, "{} with {words:?}", link.connections());
    }
}

fn objects_of_others_are_read() {
    let bucket = TestBucket::new();
    let (file, bytes) = bucket.file("content", 3_000_000);
    bucket.put("first", b"so that there is a bucket");
    bucket.upload(&file, "theirs");
    let run = bucket.haul("get").arg(bucket.at("theirs")).finish().expect_success();
    assert!(run.stdout == bytes);
}

fn headers_and_metadata_of_a_put_are_kept() {
    let bucket = TestBucket::new();
    let proxy = Proxy::start(haul_testkit::store::endpoint(), |_, _| None);
    for len in [10, 20_000_000] {
        let run = bucket.through(&proxy, "put").args([
            "--header",
            "Content-Type: text/x-dump",
            "--metadata",
            "host=db1",
        ]);
        let run = run.args(["--storage-class", "STANDARD_IA", "--tag", "a b=c", &bucket.at("x")]);
        let _ = run.input(vec![0; len]).finish().expect_success();
        let first = proxy.seen().into_iter().rfind(|request| {
            request.header("content-type") == Some("text/x-dump") && request.header("x-amz-tagging").is_some()
        });
        let first = first.expect("the object is begun with what was asked for");
        assert_eq!(first.header("x-amz-meta-host"), Some("db1"));
        assert_eq!(first.header("x-amz-storage-class"), Some("STANDARD_IA"));
        assert_eq!(first.header("x-amz-tagging"), Some("a%20b=c"));
    }
    let run = bucket.haul("put").args(["--header", "x-amz-acl: public-read", &bucket.at("x")]).input("x");
    let _ = run.finish().expect_code(2);
}

fn objects_are_listed_and_removed() {
    let bucket = TestBucket::new();
    for key in ["a/one", "a/b/two", "a/b/thr ee+%", "c"] {
        bucket.put(key, key.as_bytes());
    }
    bucket.put("c.haul", sidecar(1).as_bytes());
    let list = |words: &[&str]| {
        let run = bucket.haul("ls").arg("--json").args(words).finish().expect_success();
        let name = |event: &serde_json::Value| {
            event["key"].as_str().or(event["prefix"].as_str()).unwrap().to_owned()
        };
        events(&run).iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(list(&[&bucket.at("")]), ["a/", "c", "c.haul"]);
    let mut all = list(&["-r", &bucket.at("a/")]);
    all.sort();
    assert_eq!(all, ["a/b/thr ee+%", "a/b/two", "a/one"]);
    let people = bucket.haul("ls").arg(bucket.at("c")).finish().expect_success();
    assert!(people.out().contains("1 B") && people.out().contains("  c\n"), "{people}");
    let _ = bucket.haul("ls").arg(bucket.at("none")).finish().expect_code(1);
    let run = bucket.haul("rm").args(["-rn", &bucket.at("a/b/")]).finish().expect_success();
    assert_eq!(run.out().lines().count(), 2);
    assert_eq!(bucket.names().len(), 5);
    let _ = bucket.haul("rm").args(["-r", &bucket.at("a/b/")]).finish().expect_success();
    let _ = bucket.haul("rm").arg(bucket.at("c")).finish().expect_success();
    assert_eq!(bucket.names(), ["a/one"]);
    let _ = bucket.haul("rm").arg(bucket.at("c")).finish().expect_code(1);
    let _ = bucket.haul("rm").args(["-r", &bucket.at("")]).finish().expect_code(2);
}

/// A sidecar of an object that is gone.
fn sidecar(version: u32) -> String {
    format!("{{\"haul\":{version},\"length\":1,\"blake3\":\"{}\",\"etag\":\"e-1\"}}", "0".repeat(64))
}

fn an_object_with_only_the_name_of_a_sidecar_stays() {
    let bucket = TestBucket::new();
    let long = vec![1; 20_000_000];
    for theirs in [&b"theirs"[..], sidecar(2).as_bytes(), &[b' '; 5000]] {
        bucket.put("x", b"old");
        bucket.put("x.haul", theirs);
        let run = bucket.haul("put").args([&bucket.at("x"), &bucket.at("y")]).input(&long[..]).finish();
        let run = run.expect_code(1);
        assert!(run.err().contains("x.haul") && run.err().contains("something else is there"), "{run}");
        assert_eq!(bucket.read("x"), b"old");
        assert!(bucket.read("y") == long);
        assert!(bucket.incomplete().is_empty(), "what was begun meanwhile is given up");
        let run = bucket.haul("get").arg(bucket.at("x")).finish().expect_success();
        assert_eq!(run.stdout, b"old");
        // This object has no record in its metadata, so haul looks at the object beside it.
        let (file, bytes) = bucket.file("content", 1000);
        bucket.upload(&file, "x");
        let run = bucket.haul("get").arg(bucket.at("x")).finish().expect_success();
        assert!(run.stdout == bytes);
        let _ = bucket.haul("rm").arg(bucket.at("x")).finish().expect_success();
        assert!(bucket.read("x.haul") == theirs);
        assert!(bucket.incomplete().is_empty());
    }
    bucket.put("x.haul", sidecar(1).as_bytes());
    let _ = bucket.haul("put").arg(bucket.at("x")).input(&long[..]).finish().expect_success();
    assert!(bucket.read("x.haul") != sidecar(1).as_bytes(), "one of an earlier object is replaced");
    let run = bucket.haul("put").args([&bucket.at("a"), &bucket.at("a.haul")]).input("x").finish();
    let _ = run.expect_code(2);
}

fn requests_that_cannot_be_meant_are_refused() {
    let bucket = TestBucket::new();
    let at = bucket.at("x");
    for words in [
        &["put", "s3://bucket"][..],
        &["put", &at, &at],
        &["put", "--max-memory", "32M", &at],
        &["get", &at, "--json"],
        &["probe", &at, "dst"],
        &["put", "az://bucket"],
        &["put", "--endpoint", "ftp://x", &at],
        &["rm", "--any", &at],
    ] {
        let run = bucket.haul(words[0]).args(&words[1..]).input("x").finish();
        assert_eq!(run.code(), Some(2), "{run}");
    }
    let mut random = vec![0; 10];
    content::fill(1, 0, &mut random);
    let run = bucket.haul("put").arg(&at).env("AWS_SECRET_ACCESS_KEY", "wrong").input(random).finish();
    let run = run.expect_code(4);
    assert!(run.err().contains("hint: credentials come from"), "{run}");
}
