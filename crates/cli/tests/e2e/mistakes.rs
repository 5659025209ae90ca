//! Common mistakes: one line that names the cause, the right exit code, and nothing changed.

use haul_testkit::compare::fingerprint;
use haul_testkit::{Finished, SshdOptions};

use crate::scene::{Scene, Way, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        a_missing_source_is_one_line_without_advice_to_go_on,
        a_directory_is_not_copied_to_where_a_file_is,
        sync_takes_one_source,
        bad_values_are_one_line_and_exit_2,
        a_file_that_an_option_names_and_is_not_there_is_exit_2,
        an_agent_that_nobody_talks_to_says_so,
        a_file_that_is_no_key_or_certificate_is_refused_before_the_run,
        notations_of_other_tools_are_exit_2,
        a_program_that_is_not_there_is_named,
        words_of_cp_take_no_location,
        an_empty_list_is_told,
        a_destination_in_the_place_of_a_source_gets_the_option,
        no_advice_to_resume_after_a_mistyped_link_dest,
        missing_credentials_are_a_failed_login,
        a_missing_link_dest_is_always_told,
        names_of_buckets_against_the_rules_are_exit_2,
        a_put_to_a_directory_or_below_a_file_starts_nothing,
        a_shell_that_runs_no_commands_is_named,
    ]
}

/// The one line that haul says.
fn line(run: &Finished) -> String {
    let lines: Vec<String> =
        run.err().lines().filter(|line| !line.contains("goes directly")).map(str::to_owned).collect();
    assert_eq!(lines.len(), 1, "{run}");
    lines.concat()
}

fn a_missing_source_is_one_line_without_advice_to_go_on() {
    let scene = Scene::new();
    for (way, word) in [(Way::Local, "copy"), (Way::Local, "sync"), (Way::Pull, "copy")] {
        let run = if way == Way::Local { scene.haul(word) } else { scene.haul_ssh(word) };
        let source = scene.join("nosuch");
        let source = if way == Way::Pull { scene.remote(&source) } else { source.into() };
        let run = run.arg(source).arg(scene.join("dst")).finish().expect_code(1);
        let said = line(&run);
        assert!(said.contains("nosuch") && !said.contains("again"), "{said}");
        assert!(!scene.join("dst").exists());
    }
    // Of several the others are copied.
    let there = scene.tree("there");
    there.file("file", 10);
    let run = scene.haul("copy").arg(scene.join("nosuch")).arg(there.path()).arg(scene.join("dst"));
    let run = run.finish().expect_code(1);
    assert!(run.err().contains("nosuch") && scene.join("dst/there/file").exists(), "{run}");
}

fn a_directory_is_not_copied_to_where_a_file_is() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("one"));
    source.many("files", 10, 0..100);
    copy.file("file", 10);
    let before = fingerprint(copy.path());
    for word in ["copy", "sync"] {
        for from in [slash(source.path()), source.path().into()] {
            for to in [copy.join("file").into(), slash(&copy.join("file"))] {
                let run = scene.haul(word).args(["--force-delete"].iter().filter(|_| word == "sync"));
                let run = run.arg(&from).arg(to).finish().expect_code(2);
                let said = line(&run);
                assert!(said.contains("it is a file") && said.contains("is a directory"), "{said}");
            }
        }
    }
    let run = scene.haul("copy").arg(source.join("files")).arg(source.path()).arg(copy.join("file"));
    assert!(line(&run.finish().expect_code(2)).contains("it is a file"));
    assert!(fingerprint(copy.path()) == before);
}

fn sync_takes_one_source() {
    let scene = Scene::new();
    let run = scene.haul("sync").args(["a", "b", "dst"]).finish().expect_code(2);
    assert!(line(&run).contains("it takes one source"), "{run}");
    let run = scene.haul("sync").arg("a").finish().expect_code(2);
    assert!(line(&run).contains("the destination is missing"), "{run}");
}

fn bad_values_are_one_line_and_exit_2() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("file", 10);
    for (word, option, value, taken) in [
        ("copy", "--modify-window", "x", "seconds from -1 to 1000000000"),
        ("sync", "--max-delete", "x", "entries from 0 to 1000000000000"),
        ("copy", "--streams", "-1", "connections from 1 to 512"),
        ("copy", "--bwlimit", "10Mb", "write 10MB or 10Mbit"),
        ("copy", "--min-size", "", "sizes are like"),
        ("copy", "--max-memory", "1M", "less than 32MiB"),
        ("copy", "--on-full", "pause:5x", "times are like 30, 90s"),
        ("copy", "--delta", "maybe", "auto, on, off"),
    ] {
        let run = scene.haul(word).args([option, value]).arg(slash(source.path())).arg(scene.join("dst"));
        let run = run.finish().expect_code(2);
        let said = line(&run);
        assert!(said.starts_with(&format!("haul: {option}")) && said.contains(taken), "{said}");
        assert!(run.out().is_empty() && !scene.join("dst").exists(), "nothing is done: {run}");
    }
}

fn a_file_that_an_option_names_and_is_not_there_is_exit_2() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("file", 10);
    let (from, to) = (source.path().display().to_string(), scene.join("dst").display().to_string());
    let gone = scene.join("gone/file").display().to_string();
    for words in [
        ["copy", "--exclude-from", &gone, &from, &to].as_slice(),
        &["copy", "--files-from", &gone, &from, &to],
        &["copy", "--failed", &gone, &from, &to],
        &["verify", "--manifest", &gone, &from],
        &["plan", "--probe", &gone, &from],
        &["plan", "--target-kind", "smb", "--unfit", &gone, &from],
        &["plan", "--parts", "2", "--lists", &gone, &from],
        &["get", "--identity", &gone, "s3://bucket/key"],
        &["put", "--encrypt-file", &gone, "s3://bucket/key"],
        &["agent", "--root", &gone],
    ] {
        let run = scene.haul(words[0]).args(&words[1..]).finish().expect_code(2);
        let said = line(&run);
        assert!(said.contains("gone") && said.contains("No such file"), "{said}");
        assert!(!scene.join("dst").exists());
    }
}

fn an_agent_that_nobody_talks_to_says_so() {
    let scene = Scene::new();
    for words in [[].as_slice(), &["--root", "/tmp"]] {
        let run = scene.haul("agent").args(words).input("").finish().expect_code(4);
        assert!(line(&run).contains("standard input ended before haul"), "{run}");
    }
}

fn a_file_that_is_no_key_or_certificate_is_refused_before_the_run() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("file", "no key");
    let text = source.join("file").display().to_string();
    let manifest = scene.join("manifest").display().to_string();
    let to = scene.join("dst").display().to_string();
    let run = scene.haul("copy").args(["--manifest", &manifest, "--sign", &text, &text, &to]);
    let run = run.finish().expect_code(2);
    assert!(line(&run).ends_with("it is no key of ssh") && !scene.join("dst").exists(), "{run}");
    let run = scene.haul("ls").args(["--ca-cert", &text, "s3://bucket/"]).finish().expect_code(2);
    assert!(line(&run).ends_with("it has no certificate in the format PEM"), "{run}");
    assert!(line(&run).contains(&format!("--ca-cert: {text}")), "{run}");
}

fn notations_of_other_tools_are_exit_2() {
    let scene = Scene::new();
    for (words, way_out) in [
        (["du", "s3://"], "name one bucket, as in s3://BUCKET/"),
        (["stat", "s3://"], "the bucket is missing behind `//`"),
        (["ls", "https://b.s3.amazonaws.com/x"], "write s3://b/x"),
        (["ls", "arn:aws:s3:::b/x"], "write s3://b/x"),
        (["ls", "s3:/b/x"], "write s3://b/x"),
        (["ls", "s3//b/x"], "write s3://b/x"),
        (["find", "/tmp"], "haul ls -r LOCATION"),
        (["mount", "/tmp"], "haul mounts nothing"),
        (["hash", "--check"], "use `haul verify --manifest FILE DIR`"),
        (["hash", "-c"], "use `haul verify --manifest FILE DIR`"),
        (["mv", "-f"], "`haul mv [OPTIONS] SRC... DST`"),
    ] {
        let run = scene.haul(words[0]).args(&words[1..]).finish().expect_code(2);
        assert!(line(&run).contains(way_out), "{words:?}: {run}");
    }
    let run = scene.haul("rm").args(["-r", "s3://bucket/"]).finish().expect_code(2);
    assert!(run.err().contains("`haul rb --force s3://bucket` removes"), "{run}");
}

fn a_program_that_is_not_there_is_named() {
    let scene = Scene::new();
    let file = scene.join("stream");
    let run = scene.haul("put").arg(&file).args(["--", "no-such-program", "-x"]).finish().expect_code(1);
    let said =
        "haul: failed to run `no-such-program -x` (source): there is no program no-such-program in PATH";
    assert_eq!(line(&run), said);
    assert!(!file.exists());
}

fn words_of_cp_take_no_location() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("file", 10);
    let to = scene.join("dst");
    for word in ["cp", "mv"] {
        let run = scene.haul(word).args(["-f", "-aviq"]).arg(slash(source.path())).arg(slash(&to)).finish();
        let run = run.expect_success();
        assert!(run.said().is_empty() && to.join("file").exists(), "-q is the last one: {run}");
    }
    assert!(!source.join("file").exists());
}

fn an_empty_list_is_told() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("file", 10);
    let copy = scene.tree("dst");
    for word in ["copy", "verify"] {
        let run = scene.haul(word).args(["--files-from", "-"]).arg(slash(source.path()));
        let run = run.arg(slash(copy.path())).input("# nothing\n").finish().expect_success();
        assert!(run.err().contains("the list of --files-from has no paths: `-`"), "{run}");
    }
}

fn a_destination_in_the_place_of_a_source_gets_the_option() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("file", 10);
    let second = scene.remote(scene.join("second"));
    let run = scene.haul_ssh("copy").arg(source.path()).arg(second).arg(scene.join("third"));
    let run = run.finish().expect_code(1);
    assert!(run.err().contains("to copy ") && run.err().contains("use --all-destinations"), "{run}");
}

fn no_advice_to_resume_after_a_mistyped_link_dest() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("file", 10);
    let run = scene.haul("copy").args(["--strict", "--link-dest", "gone"]).arg(slash(source.path()));
    let run = run.arg(scene.join("dst")).finish().expect_code(1);
    assert!(run.err().contains("gone does not exist") && !run.err().contains("again"), "{run}");
}

fn missing_credentials_are_a_failed_login() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("file", 10);
    for (at, way_out) in [
        ("s3://bucket/key", "AWS_ACCESS_KEY_ID"),
        ("gs://bucket/key", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://container/key", "AZURE_STORAGE_ACCOUNT"),
        ("smb://127.0.0.1:1/share/path", "--smb-credentials"),
    ] {
        for words in [vec!["ls"], vec!["get"], vec!["rm"], vec!["copy", "src/"]] {
            let run = scene.haul(words[0]).in_dir(scene.path()).args(&words[1..]).arg(at);
            let run = run.env("HOME", scene.home()).env("AWS_EC2_METADATA_DISABLED", "true");
            let run = run.env("GCE_METADATA_HOST", "127.0.0.1:9").env("USER", "").finish().expect_code(4);
            let hint = run.err().lines().nth(1).unwrap_or_default().to_owned();
            assert!(hint.starts_with("hint: ") && hint.contains(way_out), "{words:?} {at}: {run}");
            assert_eq!(run.err().lines().count(), 2, "{words:?} {at}: {run}");
        }
    }
}

fn a_missing_link_dest_is_always_told() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("file", 10);
    for (option, word) in [("--link-dest", "copy"), ("--compare-dest", "sync")] {
        for (more, on) in [("-v", " on 1 entry"), ("-v", ""), ("-q", "")] {
            let _ = std::fs::remove_dir_all(scene.join("dst"));
            if on.is_empty() {
                let _ = scene
                    .haul(word)
                    .arg(slash(source.path()))
                    .arg(scene.join("dst"))
                    .finish()
                    .expect_success();
            }
            let run = scene.haul(word).args([more, option, "../gone"]).arg(slash(source.path()));
            let run = run.arg(slash(&scene.join("dst"))).finish().expect_success();
            let begins = format!("haul: {option} had no effect{on}: ");
            let told = run.err().lines().filter(|line| line.starts_with(&begins)).count();
            assert!(told == 1 && run.err().contains("/gone does not exist"), "{run}");
        }
    }
}

fn names_of_buckets_against_the_rules_are_exit_2() {
    let scene = Scene::new();
    for (at, rule) in [
        ("s3://b", "3 to 63 lower-case letters, digits, `-` and `.`"),
        ("s3://Bucket", "begins and ends with a letter or a digit"),
        ("s3://my_bucket", "lower-case letters, digits, `-` and `.`"),
        ("s3://bucket-", "begins and ends with a letter or a digit"),
        ("gs://B", "`_` and `.`"),
        ("az://my.container", "3 to 63 lower-case letters, digits and `-`"),
    ] {
        let run = scene.haul("mb").arg(at).finish().expect_code(2);
        assert!(line(&run).contains(at) && line(&run).contains(rule), "{run}");
    }
}

fn a_put_to_a_directory_or_below_a_file_starts_nothing() {
    let scene = Scene::new();
    let one = scene.tree("one");
    one.file("file", 10);
    one.file("dir/file", 10);
    let before = fingerprint(one.path());
    for (at, cause, hint) in [
        ("one/dir", "it is a directory", "hint: add the name of the file"),
        ("one/file/x", "`one/file` is a file, not a directory", ""),
        ("one/file/y/x", "`one/file` is a file, not a directory", ""),
    ] {
        let run = scene.haul("put").in_dir(scene.path()).args([at, "--", "touch", "started"]).finish();
        let run = run.expect_code(2);
        let mut lines = run.err().lines().map(str::to_owned).collect::<Vec<_>>().into_iter();
        assert!(lines.next().is_some_and(|line| line.contains(cause)), "{run}");
        assert_eq!(lines.next().unwrap_or_default(), hint, "{run}");
        assert!(lines.next().is_none() && !scene.join("started").exists(), "{run}");
    }
    assert!(fingerprint(one.path()) == before);
}

fn a_shell_that_runs_no_commands_is_named() {
    for (command, cause, hint) in [
        ("echo This account is currently not available.; exit 1", "not available", "nologin: log in as"),
        ("/bin/false", "ended with status 1", "as false does"),
    ] {
        let options = SshdOptions { force_command: Some(command.to_owned()), ..SshdOptions::default() };
        let scene = Scene::with_sshd(options);
        scene.tree("src").file("file", 10);
        for to in [scene.remote("/x"), "sftp://127.0.0.1/x".into()] {
            let run = scene.haul_ssh("copy").arg(scene.join("src")).arg(to).finish().expect_code(4);
            assert!(run.err().contains(cause) && run.err().contains(hint), "{run}");
            assert!(!run.err().contains("bashrc") && run.err().lines().count() == 2, "{run}");
        }
    }
}
