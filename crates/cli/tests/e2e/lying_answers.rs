//! A store that sends one false answer of one kind at a time: heads, content, uploads, parts, removals. After each, the
//! command has ended with a documented exit code; 0 means that the data is right; nothing outside was touched; the
//! store did not control the terminal; memory is bounded.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_testkit::harm::harm;
use haul_testkit::measured::{measured, peak};
use haul_testkit::store::{HttpRequest, Scripted, ScriptedReply};

use crate::scene::{HAUL, Scene};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![no_answer_is_taken_that_cannot_be_right]
}

const AT_ONCE: usize = 16;
const BUDGET: u64 = 64 << 20;
const A: &str = "hello";
const B: &str = "all the world";
const ESCAPE: &str = "\u{1b}]0;title\u{7}\u{1b}[2J\r\nforged\u{9b}31m\u{202e}";

/// The purpose of a request.
fn asked(request: &HttpRequest) -> &'static str {
    match &request.method[..] {
        "HEAD" => "head",
        "GET" if request.has("list-type") => "list",
        "GET" if request.has("uploads") => "uploads",
        "GET" if request.has("uploadId") => "parts",
        "GET" => "get",
        "PUT" if request.has("partNumber") => "part",
        "PUT" => "put",
        "POST" if request.has("uploads") => "begin",
        "POST" if request.has("delete") => "remove",
        "POST" => "end",
        _ => "delete",
    }
}

fn object(request: &HttpRequest, content: &str) -> ScriptedReply {
    let base = |status, content: &str| {
        ScriptedReply::new(status, "", content).header("x-amz-request-id", "1").header("ETag", "\"e-1\"")
    };
    if request.method == "HEAD" {
        return base(200, content);
    }
    let Some(range) = request.header("range").and_then(|range| range.strip_prefix("bytes=")) else {
        return base(200, content);
    };
    let (from, to) = range.split_once('-').unwrap_or((range, ""));
    let from = from.parse().unwrap_or(0).min(content.len());
    let to = to.parse().map_or(content.len(), |last: usize| (last + 1).min(content.len()));
    let range = format!("bytes {from}-{}/{}", to.max(1) - 1, content.len());
    base(206, content.get(from..to).unwrap_or_default()).header("Content-Range", &range)
}

/// The answer of an honest store that holds `t/a` and `t/dir/b`, and accepts every write.
fn honest(request: &HttpRequest) -> ScriptedReply {
    let record = |key: &str, content: &str| {
        format!(
            "<Contents><Key>{key}</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified><ETag>\"e-1\"</ETag><Size>{}</Size></Contents>",
            content.len()
        )
    };
    match (asked(request), &request.path[..]) {
        ("list", _) if request.query.contains("delimiter") => ScriptedReply::listing(
            &(record("t/a", A) + "<CommonPrefixes><Prefix>t/dir/</Prefix></CommonPrefixes>"),
        ),
        ("list", _) => ScriptedReply::listing(&(record("t/a", A) + &record("t/dir/b", B))),
        ("head" | "get", "/b/t/a") => object(request, A),
        ("head" | "get", "/b/t/dir/b") => object(request, B),
        ("put" | "part", _) => ScriptedReply::xml("").header("ETag", "\"e-1\""),
        ("begin", _) => ScriptedReply::xml(
            "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>x</Key><UploadId>u</UploadId></InitiateMultipartUploadResult>",
        ),
        ("end", _) => ScriptedReply::xml(
            "<CompleteMultipartUploadResult><Bucket>b</Bucket><Key>x</Key><ETag>\"e-2\"</ETag></CompleteMultipartUploadResult>",
        ),
        ("remove", _) => ScriptedReply::xml(
            "<DeleteResult><Deleted><Key>t/a</Key></Deleted><Deleted><Key>t/dir/b</Key></Deleted></DeleteResult>",
        ),
        ("delete", _) => ScriptedReply::new(204, "", "").header("x-amz-request-id", "1"),
        _ => ScriptedReply::refusal(404, "NoSuchKey", "no"),
    }
}

/// Makes the lie from a request and the honest answer.
type TellLie = Arc<dyn Fn(&HttpRequest, ScriptedReply) -> ScriptedReply + Send + Sync>;

/// A lie: the answer in place of the honest one to requests of this kind.
struct AnswerLie {
    name: String,
    command: &'static str,
    asked: &'static str,
    /// Only the store's own word tells its action.
    believed: bool,
    tell: TellLie,
}

fn lies() -> Vec<AnswerLie> {
    let mut all = Vec::new();
    let mut add = |command: &'static str, asked: &'static str, believed: bool, name: &str, tell: TellLie| {
        all.push(AnswerLie { name: format!("{command} {asked} {name}"), command, asked, believed, tell });
    };
    let long = "x".repeat(3_000_000);
    let tags = "<a>".repeat(1_500_000);
    for (command, kinds) in [
        ("copy", &["list", "get"][..]),
        ("get", &["head", "get"]),
        ("put", &["put"]),
        ("big", &["begin", "part", "end"]),
        ("rm", &["list", "remove"]),
    ] {
        for asked in kinds {
            let header = long.clone();
            add(
                command,
                asked,
                true,
                "a head of megabytes",
                Arc::new(move |_, reply| reply.header("x-long", &header)),
            );
            add(
                command,
                asked,
                true,
                "thousands of headers",
                Arc::new(|_, reply| (0..5000).fold(reply, |reply, at| reply.header(&format!("x-{at}"), "y"))),
            );
            add(command, asked, false, "longer than told", Arc::new(|_, reply| reply.saying(1)));
            add(command, asked, false, "shorter than told", Arc::new(|_, reply| reply.saying(1 << 40)));
            add(
                command,
                asked,
                false,
                "a drop at a time",
                Arc::new(|_, reply| reply.dripping(1, Duration::from_millis(700))),
            );
            add(
                command,
                asked,
                false,
                "without an end",
                Arc::new(|_, _| ScriptedReply::xml("<a>".repeat(20_000)).endless()),
            );
            let content = tags.clone();
            add(
                command,
                asked,
                *asked == "put" || *asked == "part",
                "open tags",
                Arc::new(move |_, _| ScriptedReply::xml(&content[..])),
            );
            // Objects that are not removed together are removed one by one.
            add(
                command,
                asked,
                *asked == "remove",
                "words that steer",
                Arc::new(|_, _| ScriptedReply::refusal(400, ESCAPE, ESCAPE)),
            );
            add(command, asked, false, "nothing", Arc::new(|_, _| ScriptedReply::new(200, "", "")));
            add(
                command,
                asked,
                false,
                "a refusal with 200",
                Arc::new(|_, _| {
                    ScriptedReply::xml("<Error><Code>InternalError</Code><Message>no</Message></Error>")
                }),
            );
        }
    }
    for command in ["copy", "get"] {
        for (name, content) in [("more", "hello, all"), ("fewer", "he"), ("none", "")] {
            add(
                command,
                "get",
                false,
                &format!("{name} bytes"),
                Arc::new(move |_, _| {
                    let reply = ScriptedReply::new(206, "", content).header("x-amz-request-id", "1");
                    reply.header("ETag", "\"e-1\"").header("Content-Range", "bytes 0-4/5")
                }),
            );
        }
        for range in [
            "bytes 1-5/9",
            "bytes 0-4/18446744073709551615",
            "bytes 4-0/5",
            "bytes */5",
            "nonsense",
            "bytes 0-4/*",
        ] {
            add(
                command,
                "get",
                false,
                &format!("range {range}"),
                Arc::new(move |_, _| {
                    let reply = ScriptedReply::new(206, "", A)
                        .header("x-amz-request-id", "1")
                        .header("ETag", "\"e-1\"");
                    reply.header("Content-Range", range)
                }),
            );
        }
        add(command, "get", false, "another mark", Arc::new(|_, reply| reply.header("ETag", "\"other\"")));
    }
    for (name, id) in
        [("no", String::new()), ("a steering", ESCAPE.to_owned()), ("a long", "u".repeat(100_000))]
    {
        add(
            "big",
            "begin",
            true,
            &format!("{name} number of the upload"),
            Arc::new(move |_, _| {
                let id = id.replace(|c: char| c.is_control() && c != '\n' && c != '\r', "");
                ScriptedReply::xml(format!(
                    "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                ))
            }),
        );
    }
    for (name, content) in [
        ("others were removed", "<DeleteResult><Deleted><Key>other</Key></Deleted></DeleteResult>"),
        ("nothing is said", "<DeleteResult/>"),
        (
            "another was refused",
            "<DeleteResult><Error><Key>other</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>",
        ),
    ] {
        add("rm", "remove", true, name, Arc::new(move |_, _| ScriptedReply::xml(content)));
    }
    all
}

fn try_one(scene: &Scene, number: usize, lie: &AnswerLie) -> Vec<String> {
    let case = scene.join(format!("case-{number}"));
    let dir = case.join("in");
    fs::create_dir_all(&dir).unwrap();
    let (tell, kind) = (Arc::clone(&lie.tell), lie.asked);
    let server = Scripted::start(move |request, _| {
        let reply = honest(request);
        if asked(request) == kind { tell(request, reply) } else { reply }
    });
    let tag = case.display().to_string();
    let note = case.join("peak");
    let run = measured(&std::env::current_exe().unwrap(), &note, Path::new(HAUL), &tag)
        .env("HOME", &case)
        .env("XDG_RUNTIME_DIR", &case)
        .env("XDG_STATE_HOME", &case)
        .env("TMPDIR", &case)
        .env("AWS_ENDPOINT_URL", server.endpoint())
        .env("AWS_ACCESS_KEY_ID", "x")
        .env("AWS_SECRET_ACCESS_KEY", "x");
    let to = dir.join("dst").display().to_string();
    let run = match lie.command {
        "copy" => run.args(["copy", "--store-timeout", "2", "--max-memory", "64MiB", "s3://b/t/", &to]),
        "get" => run.args(["get", "--timeout", "2", "--max-memory", "64MiB", "s3://b/t/a"]),
        "rm" => run.args(["rm", "--timeout", "2", "-r", "s3://b/t/"]),
        _ => run.args(["put", "--timeout", "2", "--max-memory", "64MiB", "s3://b/x"]),
    };
    let input = if lie.command == "big" { vec![b'b'; 9 << 20] } else { b"content".to_vec() };
    let run = run.input(input).limit(Duration::from_secs(60)).finish();
    let mut wrong = Vec::new();
    let mut check = |right: bool, what: String| {
        if !right {
            wrong.push(format!("{what}\n{run}"));
        }
    };
    check(server.seen().iter().any(|request| asked(request) == kind), "it was never asked for".to_owned());
    check(matches!(run.code(), Some(0 | 1 | 3 | 4 | 5)), "no exit code for this".to_owned());
    check(run.code() == Some(0) || !lie.name.ends_with("honestly"), "it fails without a lie".to_owned());
    if run.code() == Some(0) {
        match lie.command {
            "copy" => {
                let read = |name: &str| fs::read_to_string(dir.join("dst").join(name)).unwrap_or_default();
                let right = read("a") == A && read("dir/b") == B;
                check(right, format!("exit code 0, and {:?} {:?}", read("a"), read("dir/b")));
            }
            "get" => check(run.stdout == A.as_bytes(), "exit code 0, and other content".to_owned()),
            _ => check(lie.believed, "exit code 0".to_owned()),
        }
    }
    let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    check(names.iter().all(|name| name == "dst"), format!("outside there is {names:?}"));
    let peak = peak(&note);
    check(peak > 0, "its memory was not seen".to_owned());
    harm(&run, peak, BUDGET).into_iter().for_each(|what| check(false, what));
    let _ = fs::remove_dir_all(&case);
    wrong
}

fn no_answer_is_taken_that_cannot_be_right() {
    let scene = Scene::new();
    let mut lies = lies();
    // The commands must succeed without a lie; only then does a lie count.
    for (command, asked) in
        [("copy", "list"), ("get", "head"), ("put", "put"), ("big", "end"), ("rm", "list")]
    {
        let name = format!("{command}, honestly");
        lies.push(AnswerLie { name, command, asked, believed: true, tell: Arc::new(|_, reply| reply) });
    }
    let next = Mutex::new(lies.iter().enumerate());
    let failed = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some((number, lie)) = next.lock().unwrap().next() else { return };
            let tried = catch_unwind(AssertUnwindSafe(|| try_one(&scene, number, lie)));
            let wrong = tried.unwrap_or_else(|_| vec!["it did not end".to_owned()]);
            if !wrong.is_empty() {
                failed.lock().unwrap().push(format!("{}: {}", lie.name, wrong.join("; ")));
            }
        }
    };
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} lies:\n{}", failed.len(), lies.len(), failed.join("\n"));
}
