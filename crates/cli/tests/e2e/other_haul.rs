//! Remote hosts of another architecture, or with another version of haul: `--bootstrap` sends the program that fits.

use std::fs;
use std::path::{Path, PathBuf};

use haul_testkit::lying_haul::welcome_of;
use haul_testkit::process::joined;
use haul_testkit::tree::list;
use haul_testkit::{CommandRun, FaultPlan, assert_same_tree, write_program};
use std::os::unix::ffi::OsStrExt;

use crate::no_haul::PUT;
use crate::scene::{HAUL, REMOTE, Scene, copy_haul, fault_shell, slash};
use crate::sftp::plain;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        bootstrap_sends_the_program_of_the_remote_architecture,
        bootstrap_sends_nothing_to_an_architecture_that_it_has_no_program_for,
        bootstrap_sends_only_programs_with_a_recorded_digest,
        bootstrap_sends_the_program_of_a_release_where_this_one_does_not_run,
        bootstrap_keeps_no_program_of_another_version,
        bootstrap_bridges_a_remote_haul_of_another_version,
    ]
}

/// A program that is a script.
fn program(place: &Path, script: &str) {
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    write_program(place, format!("#!/bin/sh\n{script}\n"));
}

/// An installed haul, in a directory as packages have it, and the place of its program for a PDP-11.
fn installed(scene: &Scene) -> (PathBuf, PathBuf) {
    let haul = scene.join("usr/bin/haul");
    fs::create_dir_all(scene.join("usr/bin")).unwrap();
    fs::create_dir_all(scene.join("usr/lib/haul")).unwrap();
    copy_haul(&haul);
    (haul, scene.join("usr/lib/haul/haul-pdp11"))
}

/// Records the digest of a program, as beside the programs of a release.
fn record(program: &Path) {
    let name = program.file_name().unwrap();
    let dir = program.parent().unwrap();
    let sums = std::process::Command::new("sha256sum").arg(name).current_dir(dir).output().unwrap();
    fs::write(dir.join("SHA256SUMS"), sums.stdout).unwrap();
}

/// A copy with `--bootstrap` by the program `haul` to a host that reports that it is a PDP-11.
fn to_pdp11(scene: &Scene, haul: &Path, source: &Path, copy: &Path) -> CommandRun {
    program(&scene.join("tools/uname"), "echo Linux pdp11");
    to_host(scene, haul, source, copy)
}

/// A copy with `--bootstrap` by the program `haul` to a host with the programs in `tools`.
fn to_host(scene: &Scene, haul: &Path, source: &Path, copy: &Path) -> CommandRun {
    let tools = scene.join("tools");
    let plan = FaultPlan::new(scene.join("plan"));
    CommandRun::new(haul, scene.tag())
        .env("HOME", scene.home())
        .env("XDG_STATE_HOME", scene.home().join("state"))
        .env("PATH", joined(&[tools.as_os_str().as_bytes(), b":/usr/bin:/bin"]))
        .args(["copy", "-e", &fault_shell(&plan), "--bootstrap"])
        .arg(slash(source))
        .arg(joined(&[REMOTE.as_bytes(), b":", slash(copy).as_bytes()]))
}

fn bootstrap_sends_the_program_of_the_remote_architecture() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[9 << 20], 50);
    let (haul, theirs) = installed(&scene);
    // The PDP-11 is this machine: its program runs here, and has more bytes than this one.
    let content = [&fs::read(HAUL).unwrap()[..], b"for a PDP-11"].concat();
    fs::write(&theirs, &content).unwrap();
    record(&theirs);
    let run = to_pdp11(&scene, &haul, source.path(), &scene.join("dst")).finish().expect_success();
    assert!(run.err().contains(PUT), "{run}");
    assert_same_tree(source.path(), &scene.join("dst"));
    let cache = scene.home().join(".cache/haul");
    let there = list(&cache);
    assert_eq!(there.len(), 1, "{there:?}");
    assert!(fs::read(cache.join(&there[0])).unwrap() == content, "the program for a PDP-11");
    // The program beside the running one comes first.
    let beside = [&content[..], b", another"].concat();
    fs::write(scene.join("usr/bin/haul-pdp11"), &beside).unwrap();
    record(&scene.join("usr/bin/haul-pdp11"));
    let run = to_pdp11(&scene, &haul, source.path(), &scene.join("again")).finish().expect_success();
    assert!(run.err().contains(PUT), "{run}");
    assert!(list(&cache).iter().any(|name| fs::read(cache.join(name)).unwrap() == beside));
    scene.assert_all_gone();
}

fn bootstrap_sends_nothing_to_an_architecture_that_it_has_no_program_for() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[], 20);
    let (haul, theirs) = installed(&scene);
    let run = to_pdp11(&scene, &haul, source.path(), &scene.join("dst")).finish().expect_code(4);
    assert!(run.err().contains("`Linux pdp11` there") && !run.err().contains(PUT), "{run}");
    assert!(run.err().contains(&theirs.display().to_string()), "it says where it looked: {run}");
    assert!(!scene.home().join(".cache/haul").exists() && !scene.join("dst").exists());
    scene.assert_all_gone();
}

fn bootstrap_sends_only_programs_with_a_recorded_digest() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[], 20);
    let (haul, theirs) = installed(&scene);
    let canary = scene.join("canary");
    program(&theirs, &format!("touch {}", canary.display()));
    let refused = |words: &str| {
        let run = to_pdp11(&scene, &haul, source.path(), &scene.join("dst")).finish().expect_code(4);
        assert!(run.err().contains(words) && run.err().contains(&theirs.display().to_string()), "{run}");
        assert!(!canary.exists(), "it was run: {run}");
        assert!(!scene.home().join(".cache/haul").exists() && !scene.join("dst").exists());
    };
    refused("its digest is unknown");
    record(&theirs);
    program(&theirs, &format!("touch {}; exit 1", canary.display()));
    refused("it differs from the record");
    scene.assert_all_gone();
}

fn bootstrap_sends_the_program_of_a_release_where_this_one_does_not_run() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[], 20);
    let (haul, _) = installed(&scene);
    // A host where the running program does not run: the uploaded program is changed as it gets its mode.
    let tools = scene.join("tools");
    let other = b"for the other C library";
    program(
        &tools.join("chmod"),
        &format!(
            "for last; do :; done\n\
             case \"$last\" in *.part) grep -q '{}' \"$last\" || echo 'echo it lacks its library; exit 127' >\"$last\";; esac\n\
             exec /bin/chmod \"$@\"",
            String::from_utf8_lossy(other)
        ),
    );
    let run = to_host(&scene, &haul, source.path(), &scene.join("dst")).finish().expect_code(4);
    let machine = std::env::consts::ARCH;
    for words in [
        "does not run there (it lacks its library)",
        &format!("copy haul-{machine} and SHA256SUMS of this release"),
    ] {
        assert!(run.err().contains(words), "{words}: {run}");
    }
    assert_eq!(list(&scene.home().join(".cache/haul")), [""; 0].map(PathBuf::from), "nothing is left");
    let release = scene.join(format!("usr/lib/haul/haul-{machine}"));
    fs::write(&release, [&fs::read(HAUL).unwrap()[..], other].concat()).unwrap();
    record(&release);
    let run = to_host(&scene, &haul, source.path(), &scene.join("dst")).finish().expect_success();
    assert!(run.err().contains(PUT), "{run}");
    assert_same_tree(source.path(), &scene.join("dst"));
    scene.assert_all_gone();
}

fn bootstrap_keeps_no_program_of_another_version() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[], 20);
    let (haul, theirs) = installed(&scene);
    program(&theirs, "echo haul 0.0.1");
    record(&theirs);
    let run = to_pdp11(&scene, &haul, source.path(), &scene.join("dst")).finish().expect_code(4);
    let told = format!("{} is `haul 0.0.1`", theirs.display());
    assert!(run.err().contains(&told) && run.err().contains("SHA256SUMS of this release"), "{run}");
    assert_eq!(list(&scene.home().join(".cache/haul")), [""; 0].map(PathBuf::from), "nothing is left");
    assert!(!scene.join("dst").exists());
    scene.assert_all_gone();
}

fn bootstrap_bridges_a_remote_haul_of_another_version() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[9 << 20], 50);
    let welcome = scene.join("welcome");
    fs::write(&welcome, welcome_of(9999, "9.8.7")).unwrap();
    let old = scene.join("old/haul");
    program(&old, &format!("cat {}; cat >/dev/null", welcome.display()));
    let plan = FaultPlan::new(scene.join("plan"));
    let run = |word: &[&str], to: &Path| {
        let run = scene.haul("copy").args(["-e", &fault_shell(&plan), "--remote-haul"]).arg(&old).args(word);
        run.arg(slash(source.path())).arg(joined(&[REMOTE.as_bytes(), b":", slash(to).as_bytes()])).finish()
    };
    let told = run(&[], &scene.join("dst")).expect_code(4);
    for words in ["haul 9.8.7 there speaks protocol 9999", "--bootstrap"] {
        assert!(told.err().contains(words), "{words}: {told}");
    }
    assert!(!scene.join("dst").exists());
    let bridged = run(&["--bootstrap"], &scene.join("dst")).expect_success();
    assert!(bridged.err().contains(PUT) && bridged.err().contains("haul 9.8.7"), "{bridged}");
    assert_same_tree(source.path(), &scene.join("dst"));
    assert!(fs::read_to_string(&old).unwrap().starts_with("#!/bin/sh"), "an installed haul is not replaced");
    let again = run(&["--bootstrap"], &scene.join("again")).expect_success();
    assert!(!again.err().contains(PUT), "it is there already: {again}");
    scene.assert_all_gone();
}
