//! The messages of haul about common mistakes, word for word: one line for one cause, with the object, the cause and
//! the way out, and the exit code.

use std::process::Command;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::store::{ACCESS_KEY, SECRET_KEY, Scripted, ScriptedReply, endpoint};
use haul_testkit::terminal::Terminal;
use haul_testkit::{CommandRun, Finished, Need, TestMount};

use crate::scene::{HAUL, Scene, slash};
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        a_home_directory_is_named_however_it_is_spelled,
        mistakes_in_the_command_are_explained,
        mistakes_at_a_remote_host_are_explained,
        refusals_of_a_store_are_explained,
        a_store_that_does_not_answer_is_named,
        a_store_that_fails_is_quoted,
    ];
    all.extend(cases![
        Need::Root, Need::Program("setpriv");
        missing_rights_at_the_destination_are_one_line,
        a_source_that_may_not_be_read_is_named_once,
    ]);
    all.extend(cases![Need::Root; a_destination_that_shows_the_kernel_is_one_line]);
    all.extend(cases![Need::Tmpfs; a_read_only_destination_is_one_line, a_full_destination_is_said_once]);
    all.extend(cases![Need::Program("weed"); only_text_is_written_to_a_terminal]);
    all
}

/// One mistake: its name, the words of the command, the exit code, and the lines on standard error.
type Row = (&'static str, &'static str, i32, &'static str);

/// A scene with sources, and a file where a directory is expected.
fn scene() -> Scene {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.many("many", 20, 10..100);
    source.file("big", 6 << 20);
    source.link("link", "big");
    scene.tree("one").text("file", "x");
    scene
}

/// Runs a row, in the directory of the scene, and compares its messages.
fn check(scene: &Scene, (name, words, code, expected): Row, run: impl Fn(&str) -> CommandRun) {
    let mut words = words.split(' ');
    let run = run(words.next().unwrap()).in_dir(scene.path()).args(words).finish();
    assert_eq!(run.code(), Some(code), "{name}: {run}");
    assert_eq!(said(scene, &run), expected, "{name}: {run}");
}

/// Standard error, with placeholders for the parts that differ from run to run.
fn said(scene: &Scene, run: &Finished) -> String {
    let dir = format!("{}/", scene.path().display());
    let text = run.err().replace(&dir, "DIR/");
    let lines = text.lines().filter(|line| !line.contains("goes directly"));
    lines.collect::<Vec<_>>().join("\n")
}

fn mistakes_in_the_command_are_explained() {
    let scene = scene();
    for row in [
        (
            "no words",
            "copy",
            2,
            "haul: arguments are missing: `haul copy [OPTIONS] SRC... DST`; see `haul copy --help`",
        ),
        (
            "one location",
            "copy src",
            2,
            "haul: failed to copy: the destination is missing: haul copy SRC DST (--list-only lists SRC)",
        ),
        (
            "two sources of sync",
            "sync src one dst",
            2,
            "haul: failed to sync: it takes one source; `haul copy` takes several",
        ),
        (
            "a timeout of another unit",
            "copy --timeout 30x src dst",
            2,
            "haul: --timeout: `30x` is not a time; times are like 30, 90s, 5m or 1h, up to a day",
        ),
        (
            "a unit apart from its number",
            "copy --bwlimit 10 MB src dst",
            2,
            "haul: failed to read the location `MB`: there is no such file; write a unit together with its number, as in 10MB",
        ),
        (
            "a missing source",
            "copy nosuch dst",
            1,
            "haul: failed to find `nosuch` (source): No such file or directory",
        ),
        (
            "a wildcard that the shell did not expand",
            "copy src/f* dst",
            1,
            "haul: failed to find `src/f*` (source): No such file or directory\n\
             hint: haul expands no wildcards here: the shell does, unless they are quoted or no file matches; for \
             files of a whole tree see `haul help patterns`",
        ),
        (
            "a missing copy",
            "verify src/ nosuch",
            1,
            "haul: failed to find `nosuch` (destination): No such file or directory",
        ),
        (
            "a copy whose place is another one",
            "verify src one",
            1,
            "haul: failed to find `one/src` (destination): No such file or directory\n\
             hint: a source without a slash at its end is compared with the entry of its name in DST; SRC/ with DST",
        ),
        (
            "a directory onto a file",
            "copy src/ one/file",
            2,
            "haul: failed to copy to `one/file`: it is a file, and src/ is a directory",
        ),
        (
            "a directory below a file",
            "copy src/ one/file/sub",
            2,
            "haul: failed to copy to `one/file/sub` (destination): it is a file, or a file is above it, and a directory is needed",
        ),
        (
            "a file into a file",
            "copy src/big one/file/",
            2,
            "haul: failed to copy to `one/file/big` (destination): it is a file, or a file is above it, and a directory is needed",
        ),
        (
            "a directory that cannot be made",
            "copy src/ /proc/x",
            1,
            "haul: failed to copy to `/proc/x` (destination): it shows the state of the kernel, and no file can be created \
             there",
        ),
        (
            "a list that is missing",
            "copy --files-from nosuch src dst",
            2,
            "haul: failed to open the list `nosuch`: No such file or directory",
        ),
        (
            "a command that fails",
            "put --endpoint http://127.0.0.1:9 s3://bucket/key -- false",
            1,
            "haul: failed to run `false` (source): it exited with code 1",
        ),
    ] {
        check(&scene, row, |word| {
            scene.haul(word).env("AWS_ACCESS_KEY_ID", "x").env("AWS_SECRET_ACCESS_KEY", "x")
        });
        assert!(!scene.join("dst").exists(), "{}: nothing was done", row.0);
    }
    for words in
        ["copy --timeout 30s --modify-window 2s src dst", "copy --store-timeout 2m --timeout 30 src dst"]
    {
        let run = scene.haul("copy").in_dir(scene.path()).args(words.split(' ').skip(1));
        let _ = run.finish().expect_success();
    }
    let run = scene.haul("copy").in_dir(scene.path()).args(["src", "copies/src"]).finish().expect_success();
    let note = "haul: copies to copies/src/src; for copies/src itself, add a slash: src/";
    assert_eq!(run.err().lines().next(), Some(note), "{run}");
}

fn mistakes_at_a_remote_host_are_explained() {
    let scene = scene();
    let far = scene.remote("").into_string().unwrap();
    let rows: [Row; 4] = [
        (
            "a missing source",
            "copy FAR/nosuch dst",
            1,
            "haul: failed to find `FAR/nosuch` (source): No such file or directory",
        ),
        (
            "a wildcard",
            "copy FAR/src/f* dst",
            1,
            "haul: failed to find `FAR/src/f*` (source): no entry matches the pattern",
        ),
        (
            "a directory onto a file",
            "copy src/ FAR/one/file",
            2,
            "haul: failed to copy to `FAR/one/file` (destination): it is a file, or a file is above it, and a directory is needed",
        ),
        (
            "a directory below a file",
            "copy src/ FAR/one/file/sub",
            2,
            "haul: failed to copy to `FAR/one/file/sub` (destination): it is a file, or a file is above it, and a directory is needed",
        ),
    ];
    let place = format!("{far}{}", scene.path().display());
    for (name, words, code, expected) in rows {
        let words: Vec<String> = words.split(' ').map(|word| word.replace("FAR", &place)).collect();
        let run = scene.haul_ssh(&words[0]).in_dir(scene.path()).args(&words[1..]).finish();
        assert_eq!(run.code(), Some(code), "{name}: {run}");
        let text = run.err().replace(&place, "FAR");
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("goes directly")).collect();
        assert_eq!(lines.join("\n"), expected, "{name}: {run}");
    }
    let run = scene.haul("copy").args(["src", "no-such-host.invalid:x"]).finish().expect_code(4);
    assert!(run.err().contains("./PATH"), "{run}");
}

/// A tree that everybody may read.
fn open_to_all(scene: &Scene) {
    tool(Command::new("chmod").arg("-R").arg("a+rX").arg(scene.path()));
}

fn missing_rights_at_the_destination_are_one_line() {
    let scene = scene();
    let _ = scene.tree("locked");
    scene.tree("mixed").file("dir/f", 1);
    let _ = scene.as_nobody();
    open_to_all(&scene);
    let refused = "(destination): Permission denied\n\
                   hint: run haul as a user who may write there, such as the owner of the directory, or with sudo; or choose \
                   another directory";
    for (name, words, subject) in [
        ("an empty directory", "copy src/ locked/", "write to `locked`"),
        ("a file into it", "copy src/big locked/", "write to `locked/big`"),
        ("a new directory in it", "copy src/ locked/sub/", "make `locked/sub`"),
        ("a directory in one with others", "copy src mixed/", "make `mixed/src`"),
    ] {
        let run = scene.as_nobody().in_dir(scene.path()).args(words.split(' ')).finish().expect_code(1);
        assert_eq!(said(&scene, &run), format!("haul: failed to {subject} {refused}"), "{name}: {run}");
    }
    // A directory that this user may not search.
    tool(Command::new("install").args(["-d", "-m", "700"]).arg(scene.join("closed")));
    for words in
        ["copy src/ closed/x/", "sync src/ closed/x/", "sync -n src/ closed/x/", "verify src/ closed/x/"]
    {
        let run = scene.as_nobody().in_dir(scene.path()).args(words.split(' ')).finish().expect_code(1);
        assert_eq!(
            said(&scene, &run),
            format!("haul: failed to look at `closed/x` {refused}"),
            "{words}: {run}"
        );
    }
    // Writable parts are written, although another part is not writable.
    tool(Command::new("chmod").arg("a+w").arg(scene.join("mixed/dir")));
    let source = scene.tree("part");
    source.file("dir/new", 10);
    source.file("not", 10);
    open_to_all(&scene);
    let run =
        scene.as_nobody().in_dir(scene.path()).args(["copy", "part/", "mixed/"]).finish().expect_code(1);
    assert!(scene.join("mixed/dir/new").exists() && !scene.join("mixed/not").exists(), "{run}");
}

fn a_source_that_may_not_be_read_is_named_once() {
    let scene = scene();
    scene.tree("perm").file("no", 10);
    let _ = scene.as_nobody();
    open_to_all(&scene);
    tool(Command::new("chmod").arg("0").arg(scene.join("perm/no")));
    tool(Command::new("install").args(["-d", "-m", "777"]).arg(scene.join("open")));
    let run = scene.as_nobody().in_dir(scene.path()).args(["copy", "perm/", "open/"]).finish();
    assert_eq!(run.code(), Some(1), "{run}");
    assert_eq!(run.err().matches("perm/no").count(), 1, "{run}");
    assert!(run.err().contains("1 entry failed\n") && !run.err().contains("os error"), "{run}");
}

fn a_destination_that_shows_the_kernel_is_one_line() {
    let scene = scene();
    let cause = "it shows the state of the kernel, and no file can be created there";
    for (source, destination) in [
        ("src/", "/proc/"),
        ("src/", "/sys/"),
        ("src/big", "/sys/"),
        ("src", "/proc"),
        ("src/", "/sys/x"),
        ("src/", "/proc/x/y"),
    ] {
        let run = scene.haul("copy").in_dir(scene.path()).args([source, destination]).finish().expect_code(1);
        assert_eq!((run.err().lines().count(), run.err().matches(cause).count()), (1, 1), "{run}");
    }
}

fn a_read_only_destination_is_one_line() {
    let scene = scene();
    let mount = TestMount::tmpfs_at(scene.tree("mnt").path(), 4 << 20);
    scene.tree("mnt/there").file("f", 10);
    tool(Command::new("mount").args(["-o", "remount,ro"]).arg(mount.path()));
    for (name, words, subject) in [
        ("the root", "copy src/ mnt/", "write to `mnt`"),
        ("a directory in it", "copy src mnt/there", "write to `mnt/there/src`"),
        ("a new directory", "copy src/ mnt/new/", "make `mnt/new`"),
    ] {
        let expected = format!(
            "haul: failed to {subject} (destination): Read-only file system\n\
             hint: choose a directory on another file system, or mount this one for writing"
        );
        let run = scene.haul("copy").in_dir(scene.path()).args(words.split(' ').skip(1)).finish();
        assert_eq!((run.code(), said(&scene, &run)), (Some(1), expected), "{name}: {run}");
    }
    // Entries that are up to date need no writing.
    let copy = scene.tree("copy");
    tool(Command::new("cp").args(["-a", "mnt/there/.", "copy/"]).current_dir(scene.path()));
    let run = scene.haul("copy").in_dir(scene.path()).args(["copy/", "mnt/there/"]).finish().expect_success();
    assert!(run.err().contains("up to date") && copy.join("f").exists(), "{run}");
}

fn a_full_destination_is_said_once() {
    let scene = scene();
    let _mount = TestMount::tmpfs_at(scene.tree("mnt").path(), 2 << 20);
    let run = scene.haul("copy").in_dir(scene.path()).args(["--on-full", "fail", "src/big", "mnt/"]).finish();
    let run = run.expect_code(5);
    assert_eq!(run.err().matches("No space left").count(), 1, "{run}");
    let last = "still to copy; make room there and run the same command again to resume\n";
    assert!(run.err().contains("is full: 6.00 MiB of 6.00 MiB found") && run.err().ends_with(last), "{run}");
}

/// The program with a store that gives these answers.
fn at_store(scene: &Scene, server: &Scripted, word: &str) -> CommandRun {
    crate::not_stores::haul(scene, server, word).in_dir(scene.path())
}

fn refusals_of_a_store_are_explained() {
    let scene = scene();
    let region = "the region 'us-east-1' is wrong; expecting 'eu-west-1'";
    let moved = || {
        ScriptedReply::refusal(301, "PermanentRedirect", "Use the endpoint.")
            .header("x-amz-bucket-region", "eu-west-1")
    };
    let denied = || ScriptedReply::refusal(403, "AccessDenied", "Access Denied");
    let here = "hint: the bucket is in another region: --region eu-west-1";
    for (name, reply, words, code, hint) in [
        ("ls", denied(), "ls s3://b/", 1, "s3:ListBucket"),
        ("buckets", denied(), "ls s3://", 1, "name it, as in s3://BUCKET/"),
        ("copy", denied(), "copy src/ s3://b/x/", 1, "s3:ListBucket"),
        ("put", denied(), "put s3://b/x", 1, "s3:PutObject"),
        ("get", denied(), "get s3://b/x", 1, "s3:GetObject"),
        (
            "region",
            ScriptedReply::refusal(400, "AuthorizationHeaderMalformed", region),
            "ls s3://b/",
            1,
            here,
        ),
        ("redirect", moved(), "ls s3://b/", 1, here),
        (
            "verify",
            ScriptedReply::refusal(404, "NoSuchBucket", "No such bucket"),
            "verify src/ s3://b/t",
            1,
            "",
        ),
    ] {
        let server = Scripted::start(move |_, _| reply.clone());
        let mut words = words.split(' ');
        let run = at_store(&scene, &server, words.next().unwrap()).args(words).input("content").finish();
        let run = run.expect_code(code);
        let lines: Vec<String> = run.err().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 1 + usize::from(!hint.is_empty()), "{name}: {run}");
        assert!(lines[lines.len() - 1].contains(hint), "{name}: {run}");
        if name == "verify" {
            assert!(lines[0].contains("`s3://b/t` (destination)"), "{run}");
        }
    }
}

fn a_store_that_does_not_answer_is_named() {
    let scene = scene();
    // It accepts connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    for (endpoint, why) in [
        (silent.as_str(), ""),
        ("http://127.0.0.1:9", "Connection refused"),
        ("http://no-such-host.invalid", "no host is known as no-such-host.invalid"),
    ] {
        let run = scene.haul("ls").args(["--timeout", "8s", "--endpoint", endpoint, "s3://bucket/"]);
        let run = run.env("AWS_ACCESS_KEY_ID", "x").env("AWS_SECRET_ACCESS_KEY", "x");
        let run = run.limit(Duration::from_secs(60)).finish().expect_code(4);
        let first = run.err().lines().next().unwrap_or_default().to_owned();
        assert!(first.starts_with(&format!("haul: no answer from {endpoint} yet (")), "{run}");
        assert!(first.contains(why) && first.ends_with("; trying for up to 8 s"), "{run}");
    }
    let closed = "http://127.0.0.1:9";
    for (words, option) in [
        (["ls", "--timeout=1s", "s3://bucket/"].as_slice(), "; --timeout sets"),
        (&["get", "--timeout=1s", "s3://bucket/key"], "; --timeout sets"),
        (&["copy", "--store-timeout=1s", "src/", "s3://bucket/x"], "; --store-timeout sets"),
        (&["verify", "--store-timeout=1s", "src/", "s3://bucket/x"], "; --store-timeout sets"),
    ] {
        let run = scene.haul(words[0]).in_dir(scene.path()).args(["--endpoint", closed]).args(&words[1..]);
        let run = run.env("AWS_ACCESS_KEY_ID", "x").env("AWS_SECRET_ACCESS_KEY", "x");
        let run = run.limit(Duration::from_secs(60)).finish().expect_code(4);
        assert!(run.err().contains(option), "{words:?}: {run}");
    }
    // A put has sent its content before it waits for the answer.
    let run = scene.haul("put").args(["--timeout", "8s", "--endpoint", &silent, "s3://bucket/key"]);
    let run = run.env("AWS_ACCESS_KEY_ID", "x").env("AWS_SECRET_ACCESS_KEY", "x").input("content");
    let run = run.limit(Duration::from_secs(60)).finish().expect_code(4);
    let first = format!("haul: no answer from {silent} yet (");
    assert!(run.err().lines().next().is_some_and(|line| line.starts_with(&first)), "{run}");
    assert!(!run.err().contains("limit: source"), "{run}");
}

fn a_store_that_fails_is_quoted() {
    let scene = scene();
    let server = Scripted::start(|_, _| ScriptedReply::refusal(500, "InternalError", "We broke\u{202e} it"));
    for words in
        [["get", "--timeout=1s", "s3://b/x"].as_slice(), &["copy", "--store-timeout=1s", "s3://b/x/", "to/"]]
    {
        let run = at_store(&scene, &server, words[0]).args(&words[1..]).finish().expect_code(4);
        assert!(run.err().contains("We broke") && run.err().contains("(InternalError, HTTP 500)"), "{run}");
        assert!(!run.err().contains('\u{202e}'), "{run}");
    }
}

fn only_text_is_written_to_a_terminal() {
    let bucket = TestBucket::new();
    let _ = bucket.put("text", b"some text\n");
    let _ = bucket.put("binary", b"a\0b\xff");
    for (key, code, expected) in [("text", 0, "some text"), ("binary", 2, "it is a terminal")] {
        let (home, store) = (bucket.scene.home(), endpoint());
        let line = format!(
            "HOME={} AWS_ENDPOINT_URL=http://{store} AWS_ACCESS_KEY_ID={ACCESS_KEY} \
             AWS_SECRET_ACCESS_KEY={SECRET_KEY} {HAUL} get {}",
            home.display(),
            bucket.at(key)
        );
        let (ended, screen) = Terminal::run(&line, bucket.scene.tag()).finish();
        assert_eq!(ended, Some(code), "{screen}");
        assert!(screen.contains(expected), "{screen}");
    }
}

fn a_home_directory_is_named_however_it_is_spelled() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("file", "x");
    for home in ["", ".", "./", "~/"] {
        let run = scene.haul_ssh("copy").arg("-n").arg(slash(source.path()));
        let run = run.arg(scene.remote(home)).finish().expect_success();
        assert!(run.err().contains("gets mode, owner and times of"), "{home}: {run}");
    }
}
