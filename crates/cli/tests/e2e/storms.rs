//! Rare faults of real stores: a store inside the test process, behind a proxy that injects them.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haul_testkit::store::{Habits, HttpRequest};
use haul_testkit::{CommandRun, Finished, Proxy, ProxyTrouble, content};

use crate::scene::summary;
use crate::small::{StoreOfTest, at};
use crate::store::requests;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        a_storm_of_refusals_delays_and_harms_nothing,
        every_connection_that_is_cut_once_is_made_again,
        a_checksum_that_is_not_that_of_the_part_is_sent_again,
        a_mark_that_is_not_that_of_the_part_makes_no_object,
        an_answer_with_another_mark_or_range_is_not_taken,
        a_part_that_stands_still_is_sent_again,
        credentials_that_run_out_are_renewed_from_their_file,
        a_lost_answer_to_the_last_request_is_no_failure,
        twenty_parts_are_enough_for_a_long_stream,
        where_marks_only_look_like_md5_parts_are_checked_by_it,
        a_long_stream_takes_no_more_memory_than_a_short_one,
    ]
}

/// Long enough for five parts.
fn noise() -> Vec<u8> {
    let mut bytes = vec![0; 40_000_000];
    content::fill(5, 0, &mut bytes);
    bytes
}

impl StoreOfTest {
    fn proxy(
        &self,
        plan: impl Fn(&HttpRequest, usize) -> Option<ProxyTrouble> + Send + Sync + 'static,
    ) -> Proxy {
        Proxy::start(self.store.address(), plan)
    }

    /// Puts the noise through the proxy, and looks whether it is there.
    fn put_noise(&self, proxy: &Proxy, words: &[&str]) -> Finished {
        let run = self.behind(proxy, "put").args(["--json"]).args(words).arg(at("x")).input(noise());
        let run = run.finish().expect_success();
        assert!(self.stored("x") == noise());
        assert_eq!(self.store.incomplete(), 0);
        run
    }
}

fn a_storm_of_refusals_delays_and_harms_nothing() {
    let place = StoreOfTest::new();
    // Every request of any kind is refused once, each part twice, and then it is said how long to wait.
    let proxy = place.proxy(|request, before| match (before, request.part()) {
        (0, _) => Some(ProxyTrouble::Refuse(503, "", "SlowDown")),
        (1, Some(_)) => Some(ProxyTrouble::Refuse(503, "Retry-After: 1\r\n", "ServiceUnavailable")),
        _ => None,
    });
    let run = place.put_noise(&proxy, &[]);
    assert!(requests(&summary(&run).0, "retried") >= 2 * 5 + 4, "{run}");
    let run = place.behind(&proxy, "get").arg(at("x")).finish().expect_success();
    assert!(run.stdout == noise());
}

fn every_connection_that_is_cut_once_is_made_again() {
    let place = StoreOfTest::new();
    let proxy = place.proxy(|request, before| match (before, &request.method[..]) {
        (0, "PUT") => Some(ProxyTrouble::CutContent(100)),
        (0, "HEAD") => Some(ProxyTrouble::LoseAnswer),
        (0, "GET") => Some(ProxyTrouble::CutAnswer(10)),
        _ => None,
    });
    let run = place.put_noise(&proxy, &[]);
    assert!(requests(&summary(&run).0, "retried") >= 5, "{run}");
    let run = place.behind(&proxy, "get").arg(at("x")).finish().expect_success();
    assert!(run.stdout == noise());
}

fn a_checksum_that_is_not_that_of_the_part_is_sent_again() {
    let place = StoreOfTest::new();
    let proxy = place.proxy(|request, before| {
        let first = request.part().is_some() && before == 0;
        first.then_some(ProxyTrouble::Lie("x-amz-checksum-crc64nvme", "AAAAAAAAAAA="))
    });
    let run = place.put_noise(&proxy, &[]);
    assert_eq!(requests(&summary(&run).0, "retried"), 5, "{run}");
    let always = place.proxy(|request, _| {
        request.part().is_some().then_some(ProxyTrouble::Lie("x-amz-checksum-crc64nvme", "AAAAAAAAAAA="))
    });
    let run = place.behind(&always, "put").arg(at("y")).input(noise()).finish().expect_code(3);
    assert!(run.err().contains("the store has other content than haul sent"), "{run}");
    assert!(place.store.object("/bucket/y").is_none() && place.store.incomplete() == 0);
}

fn a_mark_that_is_not_that_of_the_part_makes_no_object() {
    let place = StoreOfTest::new();
    let proxy = place.proxy(|request, _| {
        (request.part() == Some(2))
            .then_some(ProxyTrouble::Lie("etag", "\"00000000000000000000000000000000\""))
    });
    let run = place.behind(&proxy, "put").arg(at("x")).input(noise()).finish().expect_code(1);
    assert!(run.err().contains("InvalidPart"), "{run}");
    assert!(place.store.object("/bucket/x").is_none() && place.store.incomplete() == 0);
}

fn an_answer_with_another_mark_or_range_is_not_taken() {
    let place = StoreOfTest::new();
    place.put(&[], "x", &noise());
    for (name, value) in [("etag", "\"other\""), ("content-range", "bytes 0-8388607/40000000")] {
        let proxy = place.proxy(move |request, _| {
            (request.range_start() == Some(16 << 20)).then_some(ProxyTrouble::Lie(name, value))
        });
        let run = place.behind(&proxy, "get").arg(at("x")).finish().expect_code(1);
        assert!(run.stdout.len() <= 16 << 20 && noise().starts_with(&run.stdout), "{name}");
        assert!(run.err().contains("another object by now"), "{run}");
    }
}

fn a_part_that_stands_still_is_sent_again() {
    let place = StoreOfTest::new();
    let proxy = place.proxy(|request, before| match (request.part(), before) {
        (Some(2), 0) => Some(ProxyTrouble::Late(Duration::from_secs(60))),
        // A slow one that moves is let be.
        (Some(3), _) => Some(ProxyTrouble::Slow(4_000_000)),
        _ => None,
    });
    place.put_noise(&proxy, &["--timeout", "12"]);
    assert_eq!(proxy.count(|request| request.part() == Some(2)), 2);
    assert_eq!(proxy.count(|request| request.part() == Some(3)), 1);
}

fn credentials_that_run_out_are_renewed_from_their_file() {
    let place = StoreOfTest::new();
    let file = place.scene.join("credentials");
    let write = |token: &str| {
        let text = "[default]\naws_access_key_id=x\naws_secret_access_key=x\naws_session_token=";
        fs::write(&file, format!("{text}{token}\n")).unwrap();
    };
    write("first");
    // After two parts the first token is refused, on every request.
    let taken = Arc::new(AtomicUsize::new(0));
    let proxy = place.proxy(move |request, _| {
        let fresh = request.header("x-amz-security-token") == Some("second");
        let late = taken.load(Ordering::Relaxed) >= 2;
        if late && !fresh {
            return Some(ProxyTrouble::Refuse(403, "", "ExpiredToken"));
        }
        taken.fetch_add(usize::from(request.part().is_some()), Ordering::Relaxed);
        None
    });
    let run = place.scene.haul("put").env("AWS_ENDPOINT_URL", proxy.endpoint());
    let run = run.env("AWS_SHARED_CREDENTIALS_FILE", &file).arg(at("x")).input(noise());
    let mut run: haul_testkit::Running = run.start();
    let refused = |request: &HttpRequest| request.header("x-amz-security-token") == Some("first");
    run.wait_until("it is refused", || proxy.count(refused) > 4);
    write("second");
    let run = run.finish().expect_success();
    assert!(run.err().contains("the credentials are refused"), "{run}");
    assert!(run.err().contains("the credentials are taken again"), "{run}");
    assert!(place.stored("x") == noise());
}

fn a_lost_answer_to_the_last_request_is_no_failure() {
    let place = StoreOfTest::new();
    let proxy = place
        .proxy(|request, before| (request.completes() && before == 0).then_some(ProxyTrouble::LoseAnswer));
    place.put_noise(&proxy, &["--no-clobber"]);
    assert_eq!(proxy.count(HttpRequest::completes), 2);
    assert!(place.store.object("/bucket/x.haul").is_some(), "its digest is there too");
}

fn twenty_parts_are_enough_for_a_long_stream() {
    let place = StoreOfTest::with(Habits { forgets: true, md5: false, max_parts: 20, ..Habits::default() });
    let line = "head -c 700000000 /dev/zero";
    let run = place.haul("put").args(["--max-parts", "20", &at("x"), "--", line]).watch_memory().finish();
    let run = run.expect_success();
    assert!(run.local_peak <= 128 << 20, "{} MiB", run.local_peak >> 20);
    let (len, parts) = place.store.object("/bucket/x").unwrap();
    assert!(len == 700_000_000 && parts <= 20, "{parts} parts");
    // Told of no limit, it runs into it.
    let run = place.haul("put").args([&at("y"), "--", line]).finish().expect_code(1);
    assert!(run.err().contains("InvalidArgument"), "{run}");
    assert!(place.store.object("/bucket/y").is_none() && place.store.incomplete() == 0);
}

fn where_marks_only_look_like_md5_parts_are_checked_by_it() {
    let place = StoreOfTest::with(Habits { crc64: false, md5: false, ..Habits::default() });
    let by_md5 = |request: &HttpRequest| request.part().is_some() && request.header("content-md5").is_some();
    // Damage of content that comes with its MD5 is detected.
    let proxy = place.proxy(move |request, before| {
        (by_md5(request) && request.part() == Some(3) && before < 2).then_some(ProxyTrouble::FlipContent(9))
    });
    let run = place.put_noise(&proxy, &["--sse", "aws:kms"]);
    assert_eq!(proxy.count(by_md5) as u64, 5 + requests(&summary(&run).0, "retried"), "{run}");
    let small = place.behind(&proxy, "put").args(["--sse", "aws:kms", &at("small")]).input("small");
    let _ = small.finish().expect_success();
    assert_eq!(place.stored("small"), b"small");
}

fn a_long_stream_takes_no_more_memory_than_a_short_one() {
    let place = StoreOfTest::with(Habits { forgets: true, md5: false, ..Habits::default() });
    let stretch = "head -c 300M /dev/zero; head -c 100M /dev/urandom;";
    let line = format!("{stretch} {stretch} {stretch}");
    let run: CommandRun = place.haul("put").args([&at("x"), "--", "sh", "-c", &line]).watch_memory();
    let run = run.finish().expect_success();
    eprintln!("memory: a stream of 1.2 GB: {} MiB", run.local_peak >> 20);
    assert!(run.local_peak <= 128 << 20, "{} MiB", run.local_peak >> 20);
    assert_eq!(place.store.object("/bucket/x").unwrap().0, 1200 << 20);
}
