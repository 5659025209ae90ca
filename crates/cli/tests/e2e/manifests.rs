//! `--manifest` of `copy` and `sync`: it proves the copy without another read of the source.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::tree::set_time;
use haul_testkit::{CommandRun, Need, TestTree};
use rustix::process::Signal;

use crate::scene::{Scene, WAYS, slash};
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        an_interrupted_run_leaves_the_older_manifest,
        a_failed_file_is_not_in_the_manifest_and_nothing_is_signed,
        a_signed_manifest_is_verified_with_the_allowed_signers,
        a_manifest_that_cannot_be_written_is_refused_before_the_copy,
    ];
    all.extend(cases![
        Need::Program("b3sum");
        the_manifest_has_every_file_of_the_copy,
        a_file_that_differs_with_size_and_time_alike_is_copied_again,
        names_from_several_sources_are_those_at_the_destination,
    ]);
    all.extend(cases![
        Need::Program("weed"), Need::Program("b3sum");
        a_bucket_has_the_content_of_the_manifest,
        each_end_is_checked_by_manifests_of_both_formats,
        a_stream_has_a_line_under_its_name,
    ]);
    all.extend(cases![
        Need::Program("sha256sum");
        sha256sum_accepts_files_resumed_updated_and_left_alone,
    ]);
    all
}

/// Small and large files, further names, and names that a list must escape.
fn source(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    for len in [0, 1, 1 << 20, 4 << 20, (4 << 20) + 1, (13 << 20) + 7] {
        tree.file(format!("sizes/{len}"), len);
    }
    let data = 9 << 20..(9 << 20) + 1000;
    tree.sparse("sparse", 30 << 20, &[data]);
    tree.file("new\nline", 10);
    tree.many("many", 300, 0..5000);
    tree.link("link", "sparse");
    for name in ["a further name", "sizes/z"] {
        fs::hard_link(tree.join("sizes/1048576"), tree.join(name)).unwrap();
    }
    tree
}

/// The lines that b3sum prints for every file below the directory, as haul sorts them.
fn by_b3sum(dir: &Path) -> String {
    let find = "find . -type f -print0 | sed -z 's|^[.]/||' | LC_ALL=C sort -z | xargs -0 b3sum --";
    tool(Command::new("sh").arg("-c").arg(find).current_dir(dir))
}

fn with_manifest(run: CommandRun, file: &Path) -> CommandRun {
    run.arg("--manifest").arg(file)
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap()
}

fn the_manifest_has_every_file_of_the_copy() {
    for way in WAYS {
        let scene = Scene::new();
        let (source, copy, file) = (source(&scene), scene.join("dst"), scene.join("m"));
        let run = || with_manifest(scene.by(way, "copy", slash(source.path()), slash(&copy)), &file);
        let _ = run().finish().expect_success();
        assert_eq!(read(&file), by_b3sum(source.path()), "{way:?}");
        let first = read(&file);
        fs::remove_file(&file).unwrap();
        let again = run().finish().expect_success();
        assert_eq!(read(&file), first, "{way:?}: files that are up to date are in it too");
        let last = crate::scene::events(&again).pop().unwrap();
        assert_eq!(last["totals"]["copied"], 0, "{way:?}: {last}");
        assert_eq!(last["manifest"]["files"], first.lines().count(), "{way:?}: {last}");
        assert_eq!(last["manifest"]["without_digest"], 0, "{way:?}: {last}");
        let verify = scene.haul("verify").arg("--manifest").arg(&file).arg(slash(&copy));
        let _ = verify.finish().expect_success();
    }
}

fn a_file_that_differs_with_size_and_time_alike_is_copied_again() {
    let scene = Scene::new();
    let (source, copy, file) = (scene.tree("src"), scene.join("dst"), scene.join("m"));
    source.text("f", "right");
    let run = || scene.haul("copy").arg(slash(source.path())).arg(&copy);
    let _ = run().finish().expect_success();
    fs::write(copy.join("f"), "wrong").unwrap();
    set_time(&copy.join("f"), time(&source.join("f")), 0);
    set_time(&source.join("f"), time(&source.join("f")), 0);
    let _ = with_manifest(run(), &file).finish().expect_success();
    assert_eq!(read(&copy.join("f")), "right");
    assert_eq!(read(&file), by_b3sum(&copy));
}

fn time(path: &Path) -> i64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).unwrap().mtime()
}

fn names_from_several_sources_are_those_at_the_destination() {
    let scene = Scene::new();
    let (one, two, file) = (scene.tree("one"), scene.tree("two"), scene.join("m"));
    one.text("f", "first");
    one.text("only", "x");
    two.text("f", "second");
    let copy = scene.join("dst");
    let sources = [one.path().as_os_str().to_owned(), two.path().as_os_str().to_owned()];
    let run = scene.haul("copy").args(&sources).arg(slash(&copy));
    let _ = with_manifest(run, &file).finish().expect_success();
    assert_eq!(read(&file), by_b3sum(&copy));
    let run = scene.haul("copy").args([slash(one.path()), slash(two.path())]).arg(slash(&scene.join("both")));
    let _ = with_manifest(run, &file).finish().expect_success();
    assert_eq!(read(&file), by_b3sum(&scene.join("both")), "of files with one name, the one that is there");
    let run = scene.haul("copy").arg(one.join("f")).arg(scene.join("alone"));
    let _ = with_manifest(run, &file).finish().expect_success();
    let verify = scene.haul("verify").arg("--manifest").arg(&file).arg(scene.join("alone")).finish();
    let _ = verify.expect_success();
}

fn a_bucket_has_the_content_of_the_manifest() {
    let bucket = TestBucket::new();
    let source = source(&bucket.scene);
    let file = bucket.scene.join("m");
    let copy = |from: &std::ffi::OsStr, to: &std::ffi::OsStr| {
        fs::remove_file(&file).unwrap_or_default();
        let run = with_manifest(bucket.haul("copy"), &file).arg("--no-progress").arg(from).arg(to);
        let _ = run.finish().expect_success();
        assert_eq!(read(&file), by_b3sum(source.path()));
    };
    let (first, second) = (bucket.at("first/"), bucket.at("second/"));
    copy(&slash(source.path()), first.as_ref());
    // Up to date.
    copy(&slash(source.path()), first.as_ref());
    // Objects of another client have no recorded digest: the store must not copy them itself.
    bucket.rclone_copy(true, source.path(), "foreign");
    let foreign =
        with_manifest(bucket.haul("copy"), &file).arg(bucket.at("foreign/")).arg(bucket.at("third/"));
    let _ = foreign.finish().expect_success();
    assert_eq!(read(&file), by_b3sum(source.path()));
    copy(first.as_ref(), second.as_ref());
    let verify = bucket.haul("verify").arg("--manifest").arg(&file).arg(&second);
    let _ = verify.finish().expect_success();
    copy(second.as_ref(), &slash(&bucket.scene.join("back")));
}

/// The lines that sha256sum prints for every file below the directory, as haul sorts them.
fn by_sha256sum(dir: &Path) -> Vec<u8> {
    let find = "find . -type f -print0 | sed -z 's|^[.]/||' | LC_ALL=C sort -z | xargs -0 sha256sum --";
    Command::new("sh").arg("-c").arg(find).current_dir(dir).output().unwrap().stdout
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// A directory, a host, an SFTP server and a bucket: manifests are written for them and from them, and checked there.
fn each_end_is_checked_by_manifests_of_both_formats() {
    let bucket = TestBucket::new();
    let scene = &bucket.scene;
    let source = source(scene);
    let expected = [by_b3sum(source.path()), String::from_utf8(by_sha256sum(source.path())).unwrap()];
    let (file, copy) = (scene.join("m"), scene.join("copy"));
    let shell = scene.sshd().shell();
    let run = |word: &str, is_sftp: bool| {
        let run = bucket.haul(word).args(["-e", &shell]);
        if is_sftp { run } else { run.args(["--remote-haul", crate::scene::HAUL]) }
    };
    let ends = [
        slash(&copy),
        scene.remote(slash(&scene.join("far"))),
        crate::sftp::sftp(&scene.join("by-sftp")),
        bucket.at("t/").into(),
    ];
    for end in &ends {
        let is_sftp = end.to_string_lossy().starts_with("sftp:");
        for (format, expected) in FORMATS.into_iter().zip(&expected) {
            let format = ["--manifest-format", format];
            let copy = run("copy", is_sftp).args(["-q", "--no-progress"]).args(format);
            let _ = with_manifest(copy, &file).arg(slash(source.path())).arg(end).finish().expect_success();
            assert_eq!(read(&file), *expected, "{end:?}");
            let verify = with_manifest(run("verify", is_sftp), &file).args(format).arg(end);
            let verify = verify.finish().expect_success();
            assert!(verify.out().is_empty(), "{verify}");
            let hash = run("hash", is_sftp).args(["-q", "--format", format[1]]).arg(end).finish();
            assert_eq!(sorted(&hash.expect_success().out()), sorted(expected), "{end:?}");
            let back = scene.join("back");
            let copy = run("copy", is_sftp).args(["-q", "--no-progress"]).args(format);
            let _ = with_manifest(copy, &file).arg(end).arg(slash(&back)).finish().expect_success();
            assert_eq!(read(&file), *expected, "from {end:?}");
            fs::remove_dir_all(&back).unwrap();
        }
    }
    let other = "x".repeat(1 << 20);
    for dir in ["copy", "far", "by-sftp"] {
        fs::write(scene.join(dir).join("sizes/1048576"), &other).unwrap();
    }
    let _ = bucket.put("t/sizes/1048576", other.as_bytes());
    for end in &ends {
        for (format, expected) in ["blake3", "sha256"].into_iter().zip(&expected) {
            fs::write(&file, expected).unwrap();
            let verify = run("verify", end.to_string_lossy().starts_with("sftp:"));
            let verify = with_manifest(verify, &file).args(["--manifest-format", format]).arg(end);
            let verify = verify.finish().expect_code(3);
            assert!(verify.out().contains("differs  sizes/1048576: digest "), "{verify}");
        }
    }
}

const FORMATS: [&str; 2] = ["blake3", "sha256"];

fn a_stream_has_a_line_under_its_name() {
    let bucket = TestBucket::new();
    let scene = &bucket.scene;
    let (source, file) = (scene.tree("src"), scene.join("m"));
    source.file("db.xb", 9_000_001);
    let lines = [by_b3sum(source.path()), String::from_utf8(by_sha256sum(source.path())).unwrap()];
    let shell = scene.sshd().shell();
    // The manifest, which is replaced by another one for the next run.
    let written = || {
        let text = read(&file);
        fs::write(&file, "old").unwrap();
        text
    };
    for dir in ["copy", "far"] {
        fs::create_dir(scene.join(dir)).unwrap();
    }
    let ends = [slash(&scene.join("copy")), scene.remote(slash(&scene.join("far"))), bucket.at("t/").into()];
    for end in &ends {
        for (format, line) in FORMATS.iter().zip(&lines) {
            let run = |word: &str| {
                let run = bucket.haul(word).args(["-q", "-e", &shell, "--remote-haul", crate::scene::HAUL]);
                with_manifest(run.args(["--manifest-format", format]), &file)
            };
            let at = haul_testkit::process::joined(&[end.as_bytes(), b"db.xb"]);
            let put = run("put").arg(&at).args(["--", "cat"]).arg(source.join("db.xb"));
            let _ = put.finish().expect_success();
            assert_eq!(read(&file), *line, "{end:?}");
            let _ = run("verify").arg(end).finish().expect_success();
            let _ = run("get").arg(&at).finish().expect_success();
            assert_eq!(written(), *line, "{end:?}");
            let _ = run("get").arg(&at).arg(scene.join("back")).finish().expect_success();
            assert_eq!(written(), line.replace("db.xb", "back"), "{end:?}");
            // A producer that fails leaves the older manifest.
            let _ = run("put").arg(&at).args(["--", "false"]).finish().expect_code(1);
            assert!(!read(&file).contains("db.xb"), "{end:?}");
        }
    }
    // The stored object differs from the stream.
    let packed = bucket.at("packed/db.xb");
    for (format, line) in FORMATS.iter().zip(&lines) {
        let run = |word: &str| with_manifest(bucket.haul(word).args(["--manifest-format", format]), &file);
        let put = run("put").args(["--compress", "zstd"]).arg(&packed);
        let put = put.args(["--", "cat"]).arg(source.join("db.xb")).finish().expect_success();
        assert!(put.said().contains("not in the manifest") && written().is_empty(), "{put}");
        let _ = run("get").arg(&packed).finish().expect_success();
        assert_eq!(written(), *line);
    }
}

fn sha256sum_accepts_files_resumed_updated_and_left_alone() {
    let scene = Scene::new();
    let (source, copy, file) = (scene.tree("src"), scene.join("dst"), scene.join("m"));
    for name in ["big", "other"] {
        source.file(name, (64 << 20) + 7);
    }
    source.many("many", 50, 0..3000);
    source.file("of\nname\\", 10);
    source.file(std::ffi::OsStr::from_bytes(b"of\xffbytes"), 10);
    let run = || {
        let run =
            scene.haul_ssh("copy").args(["--manifest-format", "sha256", "--delta", "on", "--no-progress"]);
        with_manifest(run, &file).arg(slash(source.path())).arg(scene.remote(slash(&copy)))
    };
    let running = run().args(["--bwlimit", "20M"]).start();
    std::thread::sleep(Duration::from_millis(2500));
    running.signal(Signal::KILL);
    drop(running.finish());
    let check = || {
        tool(
            Command::new("sha256sum").args(["--check", "--strict", "--quiet"]).arg(&file).current_dir(&copy),
        );
        assert!(fs::read(&file).unwrap() == by_sha256sum(source.path()));
    };
    let resumed = run().finish().expect_success();
    assert!(resumed.said().contains("resumed: "), "{resumed}");
    check();
    // A few pages of a large file, and nothing else.
    let mut bytes = fs::read(source.join("big")).unwrap();
    bytes[9 << 20] ^= 1;
    fs::write(source.join("big"), bytes).unwrap();
    let updated = run().finish().expect_success();
    assert!(updated.said().contains("unchanged blocks, not sent: "), "{updated}");
    check();
}

fn an_interrupted_run_leaves_the_older_manifest() {
    let scene = Scene::new();
    let (source, file) = (source(&scene), scene.join("m"));
    fs::write(&file, "older\n").unwrap();
    let run = scene.haul("copy").args(["--bwlimit", "1M"]).arg(slash(source.path())).arg(scene.join("dst"));
    let running = with_manifest(run, &file).start();
    std::thread::sleep(Duration::from_millis(1500));
    running.signal(Signal::INT);
    let run = running.finish().expect_code(130);
    assert!(run.said().contains("failed to write the manifest: the run did not come to its end"), "{run}");
    assert_eq!(read(&file), "older\n");
    let left: Vec<PathBuf> = fs::read_dir(scene.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let is_temporary = |path: &PathBuf| path.file_name().unwrap().as_bytes().starts_with(b".haul");
    assert!(!left.iter().any(is_temporary), "{left:?}");
}

/// A key of ssh in `name`, and the list that allows it to sign.
fn key(scene: &Scene, name: &str) -> (PathBuf, PathBuf) {
    let (key, list) = (scene.join(name), scene.join(format!("{name}.allowed")));
    tool(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key));
    fs::write(&list, format!("{name}@example {}", read(&key.with_extension("pub")))).unwrap();
    (key, list)
}

fn a_failed_file_is_not_in_the_manifest_and_nothing_is_signed() {
    let scene = Scene::new();
    let (source, copy, file) = (scene.tree("src"), scene.tree("dst"), scene.join("m"));
    let (key, _) = key(&scene, "ops");
    source.text("good", "x");
    source.text("bad", "x");
    copy.text("bad/in the way", "x");
    let run = scene.haul("copy").arg("--sign").arg(&key).arg(slash(source.path())).arg(slash(copy.path()));
    let run = with_manifest(run, &file).finish().expect_code(1);
    assert!(run.said().contains("manifest: 1 file in"), "{run}");
    assert!(read(&file).ends_with("  good\n") && read(&file).lines().count() == 1, "{run}");
    assert!(!scene.join("m.sig").exists());
}

fn a_signed_manifest_is_verified_with_the_allowed_signers() {
    let scene = Scene::new();
    let (source, copy, file) = (source(&scene), scene.join("dst"), scene.join("m"));
    let ((good, allowed), (_, others)) = (key(&scene, "ops"), key(&scene, "eve"));
    let run = scene.haul("copy").arg("--sign").arg(&good).arg(slash(source.path())).arg(slash(&copy));
    let run = with_manifest(run, &file).finish().expect_success();
    assert!(run.said().contains(", signed"), "{run}");
    let verify = |signers: &Path| {
        let run = scene.haul("verify").arg("--manifest").arg(&file).arg("--allowed-signers").arg(signers);
        run.arg(slash(&copy)).finish()
    };
    assert!(verify(&allowed).expect_success().said().contains("is signed by ops@example"));
    // ssh-keygen says the same.
    let check = ["-Y", "verify", "-n", "file", "-I", "ops@example", "-s"];
    let check = Command::new("ssh-keygen")
        .args(check)
        .arg(scene.join("m.sig"))
        .arg("-f")
        .arg(&allowed)
        .stdin(fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    let run = verify(&others).expect_code(3);
    assert!(run.said().contains("No principal matched") && !run.said().contains("of 0 entries"), "{run}");
    fs::write(&file, read(&file).replacen("many", "mony", 1)).unwrap();
    assert!(verify(&allowed).expect_code(3).said().contains("incorrect signature"));
}

fn a_manifest_that_cannot_be_written_is_refused_before_the_copy() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("f", "x");
    let copy = || scene.haul("copy").arg(slash(source.path())).arg(scene.join("dst"));
    for file in [scene.join("none/m"), scene.path().to_owned(), PathBuf::from("/dev/null")] {
        let run = with_manifest(copy(), &file).finish().expect_code(2);
        assert!(run.said().contains("write the manifest"), "{run}");
    }
    let run = with_manifest(copy(), &scene.join("m")).arg("--sign").arg(scene.join("none")).finish();
    assert!(run.expect_code(2).said().contains("--sign"));
    for with in ["-n", "--size-only"] {
        let _ = with_manifest(copy(), &scene.join("m")).arg(with).finish().expect_code(2);
    }
    assert!(!scene.join("dst").exists() && !scene.join("m").exists());
}
