//! Servers that are not object stores: a console port, a login page, a proxy. Their answers never count as a listing,
//! an object or a successful upload.

use std::fs;
use std::net::TcpListener;

use haul_testkit::CommandRun;
use haul_testkit::store::{Scripted, ScriptedReply};

use crate::scene::Scene;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        a_page_for_a_browser_is_no_store_whatever_is_asked,
        no_other_answer_of_a_web_server_counts_either,
        a_server_that_answers_200_to_everything_has_stored_nothing,
        google_and_azure_are_looked_at_as_closely,
        a_refused_head_is_asked_again_for_its_reason,
        a_port_that_expects_tls_is_named,
        an_answer_without_a_reason_may_be_that_of_no_store,
    ]
}

/// The program with its first word, and a server as its store.
pub(crate) fn haul(scene: &Scene, server: &Scripted, word: &str) -> CommandRun {
    scene
        .haul(word)
        .env("AWS_ENDPOINT_URL", server.endpoint())
        .env("AWS_ACCESS_KEY_ID", "x")
        .env("AWS_SECRET_ACCESS_KEY", "x")
        .env("TMPDIR", scene.path())
}

/// A directory with a file in it.
fn directory(scene: &Scene, name: &str) -> String {
    let directory = scene.join(name);
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("file"), "content").unwrap();
    directory.display().to_string()
}

fn a_page_for_a_browser_is_no_store_whatever_is_asked() {
    let scene = Scene::new();
    let server = Scripted::start(|_, _| ScriptedReply::html());
    let (from, to) = (directory(&scene, "from"), directory(&scene, "to"));
    let said = format!(
        "{} does not speak S3: it answered with text/html (is that the console's port?)",
        server.address()
    );
    for words in [
        &["copy", "s3://b/", &to][..],
        &["copy", "s3://b/t/", &to],
        &["copy", "s3://b/t", &to],
        &["copy", &from, "s3://b/t/"],
        &["copy", &format!("{from}/"), "s3://b/"],
        &["sync", "s3://b/", &to],
        &["sync", &format!("{from}/"), "s3://b/t/"],
        &["verify", "s3://b/", &to],
        &["verify", &to, "s3://b/"],
        &["hash", "s3://b/"],
        &["ls", "s3://b/"],
        &["ls", "-r", "s3://b/x"],
        &["rm", "s3://b/x"],
        &["rm", "-r", "s3://b/x"],
        &["rm", "--incomplete", "s3://b/"],
        &["get", "s3://b/x"],
        &["get", "s3://b/x", &format!("{to}/x")],
        &["put", "s3://b/x"],
    ] {
        let run = haul(&scene, &server, words[0]).args(&words[1..]).input("content").finish();
        assert_eq!(run.code(), Some(4), "{words:?}: {run}");
        assert!(run.err().contains(&said), "{words:?}: {run}");
        assert!(run.stdout.is_empty() || matches!(words[0], "copy" | "sync" | "verify"), "{words:?}: {run}");
    }
    assert_eq!(fs::read_dir(scene.join("to")).unwrap().count(), 1, "nothing was written or removed");
}

fn no_other_answer_of_a_web_server_counts_either() {
    let scene = Scene::new();
    let to = directory(&scene, "to");
    for (reply, said) in [
        (ScriptedReply::new(200, "", ""), "it answered with nothing"),
        (
            ScriptedReply::new(200, "application/xml", "<?xml version=\"1.0\"?><ListAllMyBucketsResult/>"),
            "`<ListAllMyBucketsResult>`",
        ),
        (
            ScriptedReply::new(200, "application/json", "{\"objects\":[]}"),
            "it answered with application/json",
        ),
        (ScriptedReply::new(404, "text/html", "<html>not found</html>"), "text/html"),
        (ScriptedReply::new(501, "text/html", "<html>no such method</html>"), "text/html"),
        (ScriptedReply::new(400, "text/plain", "Client sent something.\n"), "text/plain"),
        (
            ScriptedReply::new(302, "text/html", "").header("Location", "http://127.0.0.1:9/login"),
            "it redirects to http://127.0.0.1:9/login",
        ),
    ] {
        let server = Scripted::start(move |_, _| reply.clone());
        for words in [&["copy", "s3://b/t/", &to][..], &["hash", "s3://b/"], &["ls", "s3://b/"]] {
            let run = haul(&scene, &server, words[0]).args(&words[1..]).finish().expect_code(4);
            assert!(run.err().contains("does not speak S3") && run.err().contains(said), "{words:?}: {run}");
        }
        let seen = server.seen();
        assert!(seen.len() < 30 && seen.iter().all(|request| request.path.starts_with("/b")), "{seen:?}");
    }
}

fn a_server_that_answers_200_to_everything_has_stored_nothing() {
    let scene = Scene::new();
    let from = directory(&scene, "from");
    // With marks, and without any content that gives it away.
    let server = Scripted::start(|_, _| ScriptedReply::new(200, "", "").header("ETag", "\"6f2a\""));
    for words in [
        &["put", "s3://b/x"][..],
        &["copy", &from, "s3://b/t/"],
        &["rm", "s3://b/x"],
        &["rm", "-r", "s3://b/x"],
        &["get", "s3://b/x"],
    ] {
        let run = haul(&scene, &server, words[0]).args(&words[1..]).input("content").finish().expect_code(4);
        assert!(run.err().contains("does not speak S3"), "{words:?}: {run}");
    }
}

fn google_and_azure_are_looked_at_as_closely() {
    let scene = Scene::new();
    let server = Scripted::start(|_, _| ScriptedReply::html());
    let to = directory(&scene, "to");
    for (place, said) in
        [("gs://b/", "as Google Cloud Storage does"), ("az://b/", "as Azure's Blob Storage does")]
    {
        let object = format!("{place}x");
        for words in [
            &["copy", place, &to][..],
            &["ls", place],
            &["get", &object],
            &["put", &object],
            &["rm", &object],
        ] {
            let run =
                haul(&scene, &server, words[0]).args(&words[1..]).args(["--endpoint", &server.endpoint()]);
            let run = run.env("AZURE_STORAGE_ACCOUNT", "a").env("AZURE_STORAGE_KEY", "a2V5");
            let run = run.input("content").finish().expect_code(4);
            assert!(run.err().contains(said), "{words:?}: {run}");
            assert!(run.err().contains("text/html"), "{words:?}: {run}");
        }
    }
}

fn a_refused_head_is_asked_again_for_its_reason() {
    let scene = Scene::new();
    for (status, code, message, exit, command) in [
        (400, "ExpiredToken", "The provided token has expired.", 4, "get"),
        (403, "AccessDenied", "Not for you.", 1, "get"),
        (404, "NoSuchBucket", "The specified bucket does not exist", 1, "get"),
        (404, "NoSuchBucket", "The specified bucket does not exist", 1, "rm"),
        (404, "NoSuchKey", "", 1, "get"),
    ] {
        let server = Scripted::start(move |request, _| match &request.method[..] {
            "HEAD" => ScriptedReply::new(status, "", "").header("x-amz-request-id", "1"),
            _ => ScriptedReply::refusal(status, code, message),
        });
        let begun = std::time::Instant::now();
        let run = haul(&scene, &server, command).args(["--timeout", "2", "s3://b/x"]).finish();
        let run = run.expect_code(exit);
        let said =
            if code == "NoSuchKey" { "there is no such object" } else { message.trim_end_matches('.') };
        assert!(run.err().contains(said), "{run}");
        // haul repeats requests after errors that may pass.
        let waited = server.seen().len() > 4;
        assert_eq!(waited, code == "ExpiredToken", "{} in {:?}", server.seen().len(), begun.elapsed());
    }
}

fn a_port_that_expects_tls_is_named() {
    let scene = Scene::new();
    // The answers of Go and of nginx.
    for text in
        ["Client sent an HTTP request to an HTTPS server.", "The plain HTTP request was sent to HTTPS port"]
    {
        let server = Scripted::start(move |_, _| ScriptedReply::new(400, "text/plain", text));
        let run = haul(&scene, &server, "ls").arg("s3://b/").finish().expect_code(4);
        let address = server.address();
        assert!(run.err().contains(&format!("{address} speaks HTTPS: is it https://{address}?")), "{run}");
    }
    // Others end the connection.
    let server = Scripted::start(|_, _| ScriptedReply::listing(""));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let endpoint = format!("http://{address}");
    let run = haul(&scene, &server, "ls").args(["--endpoint", &endpoint, "--timeout", "5", "s3://b/"]);
    let run = run.finish().expect_code(4);
    assert!(run.err().contains(&format!("; is it https://{address}?)")), "{run}");
}

fn an_answer_without_a_reason_may_be_that_of_no_store() {
    let scene = Scene::new();
    let server = Scripted::start(|_, _| ScriptedReply::new(404, "", ""));
    let run = haul(&scene, &server, "ls").arg("s3://b/").finish().expect_code(1);
    assert!(
        run.err().contains("not found (HTTP 404)\nhint: the answer gives no reason: check the bucket"),
        "{run}"
    );
}
