//! Stores that send false answers: in every field of a listing, in heads, ranges and continuation marks, about
//! removals, and in the duration and length of answers. After each: the right exit code, nothing touched outside of the
//! destination, no control characters on the terminal, and bounded memory.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use haul_testkit::store::{Scripted, ScriptedReply};

use crate::not_stores::haul;
use crate::scene::Scene;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        a_listing_that_lies_is_not_believed,
        a_listing_without_an_end_ends,
        keys_that_climb_write_nothing_outside,
        text_of_a_store_cannot_steer_the_terminal,
        content_that_differs_from_its_record_is_not_handed_over,
        a_redirect_is_not_followed,
        a_clock_that_is_wrong_is_named_at_once,
        an_address_of_the_wrong_kind_is_named_at_once,
        a_token_does_not_go_over_a_network_in_the_clear,
    ]
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
        (ScriptedReply::listing(&record("t/a", "-1")), "which is no number"),
        (ScriptedReply::listing(&record("t/a", "18446744073709551615")), "a length of 18446744073709551615"),
        (ScriptedReply::listing(&record("/tmp/evil4", "1")), "lists `/tmp/evil4` below `t/`"),
        (ScriptedReply::listing(&record("t", "1")), "lists `t` below `t/`"),
        (
            ScriptedReply::listing("<CommonPrefixes><Prefix>other/</Prefix></CommonPrefixes>"),
            "lists `other/` below `t/`",
        ),
        (ScriptedReply::listing("<Contents><Size>1</Size></Contents>"), "`Contents` has no `Key`"),
        (ScriptedReply::listing("<IsTruncated>true</IsTruncated>"), "does not say where"),
        (ScriptedReply::xml("<ListBucketResult><Contents><Key>t/a</Key>"), "it ends too early"),
        (
            ScriptedReply::xml(format!("<ListBucketResult>{}", "<a>".repeat(2_000_000))),
            "too much in one of its elements",
        ),
        (
            ScriptedReply::xml("<!DOCTYPE x [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]><ListBucketResult/>"),
            "a document with a type of its own",
        ),
        (ScriptedReply::listing(&record("t/&b;", "1")), "an entity that XML does not know"),
        (ScriptedReply::listing(&record("t/a", "1").repeat(100_000)), "too many names"),
    ] {
        let server = Scripted::start(move |_, _| content.clone());
        for command in ["copy", "sync"] {
            let run = haul(&scene, &server, command)
                .args(["s3://b/t/", &to])
                .watch_memory()
                .finish()
                .expect_code(4);
            assert!(run.err().contains(said), "{said}: {run}");
            assert!(run.local_peak < (128 + 64) << 20, "{said}: {} MiB", run.local_peak >> 20);
        }
    }
    assert_eq!(fs::read_dir(&to).unwrap().count(), 1, "nothing was written or removed");
}

fn a_listing_without_an_end_ends() {
    let scene = Scene::new();
    // Another token each time, and the same names.
    let server = Scripted::start(|_, before| {
        let names = record("t/a", "1") + &record("t/b", "1");
        ScriptedReply::listing(&format!(
            "{names}<IsTruncated>true</IsTruncated><NextContinuationToken>{before}</NextContinuationToken>"
        ))
    });
    let run = haul(&scene, &server, "ls").args(["-r", "s3://b/t/"]).finish().expect_code(4);
    assert!(run.err().contains("would go on for ever"), "{run}");
    // An answer without an end, and one that drips.
    let server = Scripted::start(|_, _| ScriptedReply::listing(&record("t/a", "1")).endless());
    let run = haul(&scene, &server, "ls").args(["--timeout", "2", "s3://b/t/"]).watch_memory().finish();
    let run = run.expect_code(4);
    assert!(run.local_peak < 192 << 20, "{} MiB", run.local_peak >> 20);
    let server = Scripted::start(|_, _| {
        ScriptedReply::listing(&record("t/a", "1")).dripping(1, Duration::from_millis(300))
    });
    let run = haul(&scene, &server, "ls").args(["--timeout", "2", "s3://b/t/"]).finish().expect_code(4);
    assert!(run.err().contains("no data for "), "{run}");
}

fn keys_that_climb_write_nothing_outside() {
    let scene = Scene::new();
    let outer = scene.join("outer");
    fs::create_dir(&outer).unwrap();
    let to = outer.join("to").display().to_string();
    let keys = ["t/../evil", "t/../../evil", "t/a/../../../evil", "t//evil", "t/./evil", "t/..", "t/%00evil"];
    let content: String = keys.iter().map(|key| record(key, "1")).collect();
    let server = Scripted::start(move |request, _| match request.header("range") {
        None if request.method == "GET" && request.path == "/b" => ScriptedReply::listing(&content),
        _ => ScriptedReply::refusal(404, "NoSuchKey", "no"),
    });
    for command in ["copy", "sync"] {
        let run = haul(&scene, &server, command).args(["s3://b/t/", &to]).finish();
        assert!(matches!(run.code(), Some(1 | 4)), "{run}");
        let left: Vec<_> = fs::read_dir(&outer).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name == "to"), "{left:?}");
        assert!(!scene.join("evil").exists());
    }
    // No request is sent to the address that such a name would become.
    let content = record("t/../evil", "1") + &record("t/..", "1");
    let server = Scripted::start(move |request, _| match &request.method[..] {
        "GET" => ScriptedReply::listing(&content),
        _ => ScriptedReply::refusal(400, "MalformedXML", "no"),
    });
    let run = haul(&scene, &server, "rm").args(["-r", "s3://b/t/"]).finish().expect_code(1);
    assert!(server.seen().iter().all(|request| request.method != "DELETE"), "{run}");
}

fn text_of_a_store_cannot_steer_the_terminal() {
    let scene = Scene::new();
    let to = scene.join("to").display().to_string();
    let evil = "\u{1b}]0;title\u{7}\u{1b}[2J\r\nall 12 files there and verified\u{9b}31m";
    for reply in [
        ScriptedReply::refusal(403, "AccessDenied", evil),
        ScriptedReply::refusal(403, evil, evil),
        ScriptedReply::refusal(400, "ExpiredToken", evil),
        ScriptedReply::listing(&record(&format!("elsewhere{evil}"), "1")),
        ScriptedReply::listing(&record("t/a", evil)),
        ScriptedReply::xml(format!("<{evil}/>")),
    ] {
        let server = Scripted::start(move |_, _| reply.clone());
        for words in [
            &["copy", "s3://b/t/", &to][..],
            &["ls", "s3://b/t/"],
            &["get", "s3://b/t/x"],
            &["rm", "-r", "s3://b/t/"],
        ] {
            let timeout = if words[0] == "copy" { "--store-timeout" } else { "--timeout" };
            let run = haul(&scene, &server, words[0]).args(&words[1..]).args([timeout, "1"]).finish();
            assert!(matches!(run.code(), Some(1 | 4)), "{run}");
            let said = [&run.stdout[..], &run.stderr[..]].concat();
            let text = String::from_utf8_lossy(&said);
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{words:?}: {text:?}");
            assert!(!text.lines().any(|line| line.starts_with("all 12 files")), "{words:?}: {text:?}");
        }
    }
}

/// A store with one object of five bytes, `hello`, whose answers `lie` changes.
fn one_object(lie: impl Fn(&str, ScriptedReply) -> ScriptedReply + Send + Sync + 'static) -> Scripted {
    Scripted::start(move |request, _| {
        if request.path != "/b/x" {
            return ScriptedReply::refusal(404, "NoSuchKey", "no");
        }
        let object = |status| {
            ScriptedReply::new(status, "", "hello").header("x-amz-request-id", "1").header("ETag", "\"e-1\"")
        };
        let reply = match &request.method[..] {
            "HEAD" => object(200),
            _ => object(206).header("Content-Range", "bytes 0-4/5"),
        };
        lie(&request.method, reply)
    })
}

fn content_that_differs_from_its_record_is_not_handed_over() {
    let scene = Scene::new();
    let get = |server: &Scripted| {
        let run = haul(&scene, server, "get").args(["--timeout", "2", "s3://b/x"]).finish();
        (run.code(), run.stdout.clone(), run)
    };
    let (code, out, run) = get(&one_object(|_, reply| reply));
    assert!(code == Some(0) && out == b"hello", "{run}");
    // Another checksum, an MD5 that is none, a sidecar that lies about the digest.
    let digest = "0".repeat(64);
    let lies: [(&str, &str); 3] = [
        ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA="),
        ("ETag", "\"00000000000000000000000000000000\""),
        ("x-amz-meta-haul-blake3", &digest),
    ];
    for (name, value) in lies {
        let (name, value) = (name.to_owned(), value.to_owned());
        let server = Scripted::start({
            let name = name.clone();
            move |request, _| {
                let bare = ScriptedReply::new(if request.method == "HEAD" { 200 } else { 206 }, "", "hello");
                let reply = bare.header("x-amz-request-id", "1").header("Content-Range", "bytes 0-4/5");
                let reply = if name == "ETag" { reply } else { reply.header("ETag", "\"e-1\"") };
                if request.path == "/b/x" {
                    reply.header(&name, &value)
                } else {
                    ScriptedReply::refusal(404, "NoSuchKey", "no")
                }
            }
        });
        let (code, out, run) = get(&server);
        assert!(matches!(code, Some(0 | 3)), "{name}: {run}");
        // A note without the length is no record.
        assert!(code == Some(3) && out.is_empty() || name.contains("blake3"), "{name}: {run}");
    }
    // Another range, fewer bytes, another object.
    for (lie, exit) in [("range", 1), ("short", 4), ("mark", 1)] {
        let server = Scripted::start(move |request, _| {
            let head = |status, content: &str| {
                ScriptedReply::new(status, "", content).header("x-amz-request-id", "1")
            };
            let mark = if lie == "mark" && request.method == "GET" { "\"other\"" } else { "\"e-1\"" };
            match &request.method[..] {
                _ if request.path != "/b/x" => ScriptedReply::refusal(404, "NoSuchKey", "no"),
                "HEAD" => head(200, "hello").header("ETag", mark),
                _ => {
                    let range = if lie == "range" { "bytes 1-5/9" } else { "bytes 0-4/5" };
                    let content = if lie == "short" { "hel" } else { "hello" };
                    head(206, content).header("ETag", mark).header("Content-Range", range)
                }
            }
        });
        let (code, out, run) = get(&server);
        assert!(code == Some(exit) && out.is_empty(), "{lie}: {run}");
    }
    // A head without an end.
    let long = "x".repeat(2_000_000);
    let (code, _, run) = get(&one_object(move |_, reply| reply.header("x-long", &long)));
    assert!(code == Some(4), "{run}");
}

fn a_redirect_is_not_followed() {
    let scene = Scene::new();
    let other = Scripted::start(|_, _| ScriptedReply::listing(&record("t/a", "1")));
    for status in [301, 302, 303, 307, 308] {
        let there = format!("{}/b", other.endpoint());
        let server =
            Scripted::start(move |_, _| ScriptedReply::new(status, "", "").header("Location", &there));
        for words in
            [&["ls", "s3://b/t/"][..], &["get", "s3://b/x"], &["put", "s3://b/x"], &["rm", "-r", "s3://b/t"]]
        {
            let run =
                haul(&scene, &server, words[0]).args(&words[1..]).input("content").finish().expect_code(4);
            assert!(run.err().contains("it redirects to http://127.0.0.1"), "{run}");
        }
    }
    assert!(other.seen().is_empty(), "nothing was asked there, and no credentials were sent");
}

fn a_clock_that_is_wrong_is_named_at_once() {
    let scene = Scene::new();
    let server = Scripted::start(|_, _| {
        let reply = ScriptedReply::refusal(403, "RequestTimeTooSkewed", "The difference is too large.");
        reply.header("Date", "Wed, 09 Sep 2009 09:20:02 GMT")
    });
    for words in [&["ls", "s3://b/"][..], &["get", "s3://b/x"]] {
        let run = haul(&scene, &server, words[0]).args(&words[1..]).finish().expect_code(4);
        assert!(run.err().contains("2009-09-09T09:20:02Z at the store"), "{run}");
        assert!(run.err().contains("set the clock"), "{run}");
    }
    assert!(server.seen().len() <= 4, "it is not tried again and again");
}

fn an_address_of_the_wrong_kind_is_named_at_once() {
    let scene = Scene::new();
    let server = Scripted::start(|_, _| ScriptedReply::listing(""));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // The answer of an HTTP server to a request that it does not understand.
    std::thread::spawn(move || {
        for client in listener.incoming().take(2) {
            let mut client = client.unwrap();
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    for endpoint in [format!("https://{address}"), address.clone()] {
        let run =
            haul(&scene, &server, "ls").args(["--endpoint", &endpoint, "s3://b/"]).finish().expect_code(4);
        assert!(
            run.err().contains(&format!("{address} does not speak TLS: is it http://{address}?")),
            "{run}"
        );
    }
}

fn a_token_does_not_go_over_a_network_in_the_clear() {
    let scene = Scene::new();
    // An address of which RFC 5737 says that nobody has it.
    let remote = "http://192.0.2.1:9";
    let google = |words: &[&str]| {
        let run = scene.haul("ls").env("CLOUDSDK_AUTH_ACCESS_TOKEN", "secret").args([
            "--endpoint",
            remote,
            "--timeout",
            "1",
        ]);
        run.args(words).arg("gs://b/").finish()
    };
    let run = google(&[]).expect_code(2);
    assert!(run.err().contains("the token would go to 192.0.2.1 in the clear"), "{run}");
    let run = google(&["--insecure-http"]).expect_code(4);
    assert!(!run.err().contains("in the clear") && !run.err().contains("secret"), "{run}");
    let azure = |name: &str, value: &str| {
        let run = scene.haul("ls").env("AZURE_STORAGE_ACCOUNT", "a").env(name, value);
        run.args(["--endpoint", remote, "--timeout", "1", "az://b/"]).finish()
    };
    let run = azure("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=c2VjcmV0").expect_code(2);
    assert!(run.err().contains("in the clear") && !run.err().contains("c2VjcmV0"), "{run}");
    let run = azure("AZURE_STORAGE_KEY", "a2V5").expect_code(4);
    assert!(!run.err().contains("in the clear"), "{run}");
    let server = Scripted::start(|_, _| ScriptedReply::listing(""));
    let amazon = |endpoint: &str| {
        let run =
            haul(&scene, &server, "ls").env("AWS_SESSION_TOKEN", "secret").args(["--endpoint", endpoint]);
        run.args(["--timeout", "1", "s3://b/"]).finish()
    };
    let run = amazon(remote).expect_code(4);
    assert!(run.err().contains("the session token and the content go to 192.0.2.1 in the clear"), "{run}");
    assert!(amazon(&server.endpoint()).expect_success().err().is_empty());
}
