//! Errors that name the way out of a slip, and runs that change nothing before they tell it.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use haul_testkit::SshdOptions;
use haul_testkit::sshd::sftp_server;

use crate::scene::{Scene, events, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        an_account_for_sftp_alone_gets_the_url,
        a_refused_login_shows_the_command_of_ssh,
        a_scheme_without_the_rest_is_no_host,
        files_and_directories_that_are_mixed_up_are_told,
        options_of_ssh_are_told_at_streams,
        a_timeout_of_hosts_is_told_at_stores,
        a_put_to_a_closed_port_shows_the_error_alone,
        a_path_through_a_missing_directory_makes_nothing,
        a_single_file_and_a_dry_run_use_the_link_dest,
        the_error_that_ends_a_run_is_a_failed_event,
        a_tilde_behind_an_equals_sign_is_the_home_directory,
    ]
}

fn an_account_for_sftp_alone_gets_the_url() {
    let external = sftp_server().display().to_string();
    for command in ["internal-sftp", &external] {
        let options = SshdOptions { force_command: Some(command.to_owned()), ..SshdOptions::default() };
        let scene = Scene::with_sshd(options);
        scene.tree("src").file("file", 10);
        let (from, to) = (scene.join("src"), scene.join("dst"));
        let run = scene.haul_ssh("copy").arg(&from).arg(scene.remote(&to)).finish().expect_code(4);
        assert!(run.err().contains("write sftp://127.0.0.1/PATH"), "{run}");
        assert!(!run.err().contains("bashrc") && run.err().lines().count() == 2, "{run}");
        let over = format!("sftp://127.0.0.1{}", to.display());
        let _ = scene.haul_ssh("copy").arg(&from).arg(over).finish().expect_code(0);
        assert!(to.join("src/file").exists());
    }
}

fn a_refused_login_shows_the_command_of_ssh() {
    let scene = Scene::new();
    scene.tree("src").file("file", 10);
    let shell = scene.sshd().shell().replace("client_key", "no key").replace("-i ", "-i '");
    let shell = shell.replace("no key", "no key'");
    let run = scene.haul("copy").args(["-e", &shell]).arg(scene.join("src")).arg(scene.remote("/x"));
    let run = run.finish().expect_code(4);
    assert!(run.err().contains("Permission denied ("), "{run}");
    let denied = scene.haul("copy").args(["-e", &format!("{shell} -q")]);
    let denied = denied.arg(scene.join("src")).arg(scene.remote("/x")).finish().expect_code(4);
    for run in [run, denied] {
        let is_named = run.err().contains("no key") && !run.err().contains("SSH:");
        assert!(is_named, "{run}");
    }
}

fn files_and_directories_that_are_mixed_up_are_told() {
    let scene = Scene::new();
    scene.tree("src").file("file", 10);
    for (words, code, told) in [
        (
            &["copy", "src/file/", "dst"][..],
            1,
            "it is a file, not a directory\nhint: omit the slash at its end",
        ),
        (&["verify", "src/", "src/file"], 1, "it is a file, not a directory"),
        (&["copy", "--files-from", "src", "src/", "dst"], 2, "failed to open the list `src`: is a directory"),
        (
            &["copy", "--exclude-from", "src", "src/", "dst"],
            2,
            "failed to open the list `src`: is a directory",
        ),
        (
            &["copy", "--filter", "merge src", "src/", "dst"],
            2,
            "failed to open the list `src`: is a directory",
        ),
        (&["copy", "--log-file", "-", "src/", "dst"], 2, "--log-file: haul writes this to a file only"),
        (&["copy", "--manifest", "-", "src/", "dst"], 2, "--manifest: haul writes this to a file only"),
    ] {
        let run = scene.haul(words[0]).in_dir(scene.path()).args(&words[1..]).finish().expect_code(code);
        assert!(run.err().contains(told), "{run}");
        assert!(!scene.join("dst").exists() && !scene.join("-").exists(), "{run}");
    }
    let below = format!("sftp://127.0.0.1{}/src/file/x/y", scene.path().display());
    let run = scene.haul_ssh("copy").arg(scene.join("src")).arg(below).finish().expect_code(2);
    assert!(run.err().contains("it is a file, or a file is above it, and a directory is needed"), "{run}");
}

fn options_of_ssh_are_told_at_streams() {
    let scene = Scene::new();
    for words in ["get -i key h:/x", "put -i key h:/x", "get -P 22 h:/x", "put -p 22 h:/x", "ls -p 22 h:"] {
        let mut words = words.split(' ');
        let run = scene.haul(words.next().unwrap()).args(words).finish().expect_code(2);
        assert!(run.err().contains("-e 'ssh -p ") && run.err().lines().count() == 1, "{run}");
    }
}

fn a_scheme_without_the_rest_is_no_host() {
    let scene = Scene::new();
    for (at, url) in [("s3:", "s3://"), ("gs:", "gs://"), ("sftp:", "sftp://HOST"), ("smb:", "smb://HOST")] {
        let run = scene.haul("ls").arg(at).finish().expect_code(2);
        assert!(run.err().contains(&format!("write {url}")), "{run}");
        assert_eq!(run.err().lines().count(), 1, "{run}");
    }
}

fn a_timeout_of_hosts_is_told_at_stores() {
    let scene = Scene::new();
    scene.tree("src").file("file", 10);
    let told = "--timeout does not count for stores: --store-timeout sets";
    for (words, is_told) in [
        (&["copy", "--timeout=8", "src/", "s3://bucket/x"][..], true),
        (&["copy", "--timeout=8", "--store-timeout=1", "src/", "s3://bucket/x"], false),
        (&["verify", "--timeout=8", "src/", "s3://bucket/x"], true),
        (&["hash", "--timeout=8", "s3://bucket/x"], true),
        (&["hash", "--timeout=8", "src"], false),
    ] {
        let run = scene.haul(words[0]).in_dir(scene.path()).args(&words[1..]);
        let run = run.env("AWS_EC2_METADATA_DISABLED", "true").limit(Duration::from_secs(60)).finish();
        assert_eq!(run.err().matches(told).count(), usize::from(is_told), "{words:?}: {run}");
    }
}

fn a_put_to_a_closed_port_shows_the_error_alone() {
    let scene = Scene::new();
    let run =
        scene.haul("put").args(["--timeout=12s", "--endpoint", "http://127.0.0.1:9", "s3://bucket/key"]);
    let run = run.env("AWS_ACCESS_KEY_ID", "x").env("AWS_SECRET_ACCESS_KEY", "x").input("content");
    let run = run.limit(Duration::from_secs(60)).finish().expect_code(4);
    let begins: Vec<_> =
        run.err().lines().map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(begins, ["haul: no answer", "haul: failed to", "hint: check --endpoint"], "{run}");
}

fn a_path_through_a_missing_directory_makes_nothing() {
    let scene = Scene::new();
    scene.tree("src").file("file", 10);
    let through = scene.join("none/../dst");
    for to in [through.clone().into(), slash(&through), scene.remote(slash(&through))] {
        let is_remote = to.as_encoded_bytes().starts_with(b"127");
        let run = if is_remote { scene.haul_ssh("copy") } else { scene.haul("copy") };
        let run = run.arg(slash(&scene.join("src"))).arg(to).finish().expect_code(1);
        assert!(run.err().contains("none/../dst` (destination): No such file or directory"), "{run}");
        assert_eq!(run.err().lines().filter(|line| !line.contains("goes directly")).count(), 1, "{run}");
    }
    let over = format!("sftp://127.0.0.1{}/", through.display());
    let run = scene.haul_ssh("copy").arg(slash(&scene.join("src"))).arg(over).finish().expect_code(1);
    assert!(run.err().contains("none/../dst"), "{run}");
    assert!(!scene.join("none").exists() && !scene.join("dst").exists());
}

fn a_single_file_and_a_dry_run_use_the_link_dest() {
    let scene = Scene::new();
    scene.tree("src").file("file", 10);
    let copy = |words: &[&str]| {
        let run = scene.haul("copy").in_dir(scene.path()).args(words).finish().expect_success();
        run.err()
    };
    let _ = copy(&["src/", "old/"]);
    std::fs::create_dir(scene.join("one")).unwrap();
    let err = copy(&["--link-dest=../old", "src/file", "one/"]);
    assert!(!err.contains("no effect") && scene.join("old/file").metadata().unwrap().nlink() == 2, "{err}");
    let err = copy(&["--link-dest=../gone", "src/file", "one/"]);
    assert_eq!(err.matches("--link-dest had no effect").count(), 1, "{err}");
    let err = copy(&["-n", "--link-dest=../old", "src/", "new/"]);
    assert!(err.contains("up to date: 1 entry") && !err.contains("no effect"), "{err}");
    let err = copy(&["--link-dest=../old", "src/", "new/"]);
    assert!(err.contains("up to date: 1 entry"), "the run does what the dry run told: {err}");
}

fn the_error_that_ends_a_run_is_a_failed_event() {
    let scene = Scene::new();
    scene.tree("src").file("file", 10);
    let run = |words: &[&str]| scene.haul("copy").in_dir(scene.path()).arg("--json").args(words).finish();
    for (words, path, kind) in [
        (&["none", "dst"][..], "none", "not_found"),
        (&["src/", "/proc/x"], "/proc/x", "unsupported"),
        (&["none", "src", "dst"], "none", "not_found"),
    ] {
        let run = run(words).expect_code(1);
        let told: Vec<_> = events(&run).into_iter().filter(|event| event["type"] == "failed").collect();
        assert_eq!(told.len(), 1, "{run}");
        assert_eq!((&told[0]["path"], &told[0]["error"]["kind"]), (&path.into(), &kind.into()), "{run}");
    }
}

fn a_tilde_behind_an_equals_sign_is_the_home_directory() {
    let scene = Scene::new();
    scene.tree("src").file("file", 10);
    let run = scene.haul("copy").in_dir(scene.path()).args(["--log-file=~/log", "src/", "dst/"]);
    let _ = run.finish().expect_success();
    assert!(scene.home().join("log").exists());
}
