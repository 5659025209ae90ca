//! Streams into files and out of them: here, on a host with haul, and on an SFTP server.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::process::{joined, kill};
use haul_testkit::{
    ByteDirection, CommandRun, FaultPlan, FileSystem, LinkFault, Need, TestMount, Which, content,
};

use rustix::process::Signal;

use crate::scene::{REMOTE, Scene, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        a_stream_of_any_length_comes_back,
        a_producer_that_fails_makes_and_replaces_nothing,
        a_killed_put_goes_on_from_the_staged_file,
        an_interrupt_keeps_the_slices_of_a_resumed_put,
        a_resumed_put_of_another_stream_is_that_stream,
        a_killed_remote_end_is_started_again,
        a_cut_connection_heals,
        a_flipped_byte_never_gets_a_name,
        two_puts_of_one_name_do_not_mix,
        a_reader_that_has_enough_ends_it_quietly,
        a_get_into_a_file_goes_on_where_it_was,
        a_file_that_changes_is_an_error,
        the_mode_is_that_of_a_redirection,
        several_destinations_get_one_stream,
        requests_that_cannot_be_meant_are_refused_in_one_line,
    ];
    all.extend(cases![Need::Program("b3sum"); the_digest_is_that_of_b3sum]);
    all.extend(cases![Need::Tmpfs; a_full_destination_is_exit_5_and_leaves_nothing]);
    all
}

/// Where the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamPlace {
    Local,
    Host,
    Sftp,
}

pub(crate) const EVERYWHERE: [StreamPlace; 3] = [StreamPlace::Local, StreamPlace::Host, StreamPlace::Sftp];

impl StreamPlace {
    pub(crate) fn haul(self, scene: &Scene, word: &str) -> CommandRun {
        match self {
            Self::Local => scene.haul(word),
            Self::Host | Self::Sftp => scene.haul_fault(word, &plan(scene)),
        }
    }

    pub(crate) fn of(self, path: &Path) -> OsString {
        match self {
            Self::Local => path.as_os_str().to_owned(),
            Self::Host => joined(&[REMOTE.as_bytes(), b":", path.as_os_str().as_bytes()]),
            Self::Sftp => joined(&[b"sftp://", REMOTE.as_bytes(), path.as_os_str().as_bytes()]),
        }
    }
}

/// A remote shell without faults: no test here depends on how the login is done.
pub(crate) fn plan(scene: &Scene) -> FaultPlan {
    FaultPlan::new(scene.join("plan"))
}

/// A file with pseudo-random content.
pub(crate) fn file(scene: &Scene, name: &str, len: u64) -> Vec<u8> {
    content::write_file(&scene.join(name), len, len);
    fs::read(scene.join(name)).unwrap()
}

/// The names in the directory, those of staged files included.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn a_stream_of_any_length_comes_back() {
    const SLICE: u64 = 4 << 20;
    for at in EVERYWHERE {
        let scene = Scene::new();
        let dir = scene.join("dst");
        fs::create_dir(&dir).unwrap();
        for len in [0, 1, SLICE - 1, SLICE, SLICE + 1, 2 * SLICE, 100_000_000] {
            let bytes = file(&scene, "src", len);
            let to = at.of(&dir.join("copy"));
            let run = at.haul(&scene, "put").args(["--json", "--allow-empty"]).arg(&to).args(["--", "cat"]);
            let run = run.arg(scene.join("src")).finish().expect_success();
            assert_eq!((summary(&run).of("copied"), summary(&run).of("copied_bytes")), (1, len), "{at:?}");
            assert!(fs::read(dir.join("copy")).unwrap() == bytes, "{at:?} {len}");
            assert_eq!(names(&dir), ["copy"], "{at:?} {len}");
            let back = at.haul(&scene, "get").arg(&to).finish().expect_success();
            assert!(back.stdout == bytes, "{at:?} {len}");
        }
        let refused = at.haul(&scene, "put").arg(at.of(&dir.join("empty"))).input("").finish();
        assert!(refused.expect_code(1).err().contains("--allow-empty"));
        assert_eq!(names(&dir), ["copy"]);
        scene.assert_all_gone();
    }
}

fn the_digest_is_that_of_b3sum() {
    for at in EVERYWHERE {
        let scene = Scene::new();
        file(&scene, "src", 9_000_001);
        let digest = tool(std::process::Command::new("b3sum").arg("--no-names").arg(scene.join("src")));
        let said = |run: haul_testkit::Finished| {
            summary(&run.expect_success()).0["blake3"].as_str().map(str::to_owned)
        };
        let to = at.of(&scene.join("copy"));
        let put = at.haul(&scene, "put").args(["--json"]).arg(&to).args(["--", "cat"]);
        assert_eq!(said(put.arg(scene.join("src")).finish()).as_deref(), Some(digest.trim()));
        let get = at.haul(&scene, "get").args(["--json"]).arg(&to).arg(scene.join("back")).finish();
        assert_eq!(said(get).as_deref(), Some(digest.trim()));
        assert!(fs::read(scene.join("back")).unwrap() == fs::read(scene.join("src")).unwrap());
    }
}

fn a_producer_that_fails_makes_and_replaces_nothing() {
    for at in EVERYWHERE {
        let scene = Scene::new();
        let dir = scene.join("dst");
        fs::create_dir(&dir).unwrap();
        let to = at.of(&dir.join("copy"));
        let fails = || {
            let run = at.haul(&scene, "put").arg(&to).arg("--");
            run.arg("head -c 30000000 /dev/zero; exit 3").finish().expect_code(1)
        };
        assert!(fails().err().contains("exited with code 3"), "{at:?}");
        assert_eq!(names(&dir), [""; 0], "{at:?}");
        fs::write(dir.join("copy"), "old").unwrap();
        fails();
        assert_eq!(names(&dir), ["copy"], "{at:?}");
        assert_eq!(fs::read(dir.join("copy")).unwrap(), b"old", "{at:?}");
    }
}

/// A producer that stops in the middle until it is told to go on.
fn halting(source: &Path, bytes: u64) -> OsString {
    let source = source.display();
    OsString::from(format!("head -c {bytes} {source}; sleep 600; tail -c +{} {source}", bytes + 1))
}

/// Kills a put in the middle of its stream.
fn killed(scene: &Scene, at: StreamPlace, to: &Path, source: &Path) {
    let part = || {
        let is_part = |name: &String| name.starts_with(".haul-") && name.ends_with(".journal");
        names(to.parent().unwrap()).iter().any(is_part)
    };
    let run = at.haul(scene, "put").arg(at.of(to)).arg("--").arg(halting(source, 60 << 20));
    let mut run = run.start();
    run.wait_until("some of it is stored", part);
    std::thread::sleep(Duration::from_secs(2));
    let others = haul_testkit::process::tagged(scene.tag());
    kill(run.pid());
    others.into_iter().for_each(kill);
    let _ = run.finish();
    scene.assert_all_gone();
    assert!(!to.exists(), "{at:?}");
}

fn a_killed_put_goes_on_from_the_staged_file() {
    for at in EVERYWHERE {
        let scene = Scene::new();
        let bytes = file(&scene, "src", 100_000_000);
        fs::create_dir(scene.join("dst")).unwrap();
        let to = scene.join("dst/copy");
        killed(&scene, at, &to, &scene.join("src"));
        let run = at.haul(&scene, "put").args(["--json", "--resume"]).arg(at.of(&to)).args(["--", "cat"]);
        let run = run.arg(scene.join("src")).finish().expect_success();
        assert!(summary(&run).of("resumed_bytes") >= 40 << 20, "{at:?}: {run}");
        assert!(summary(&run).of("sent_bytes") <= 60_000_000, "{at:?}: {run}");
        assert!(fs::read(&to).unwrap() == bytes, "{at:?}");
        assert_eq!(names(&scene.join("dst")), ["copy"], "{at:?}");
    }
}

fn an_interrupt_keeps_the_slices_of_a_resumed_put() {
    for at in EVERYWHERE {
        let scene = Scene::new();
        let bytes = file(&scene, "src", 60_000_000);
        fs::create_dir(scene.join("dst")).unwrap();
        let to = at.of(&scene.join("dst/copy"));
        let put = || at.haul(&scene, "put").args(["--json", "--resume"]).arg(&to).arg("--");
        let mut run = put().arg(halting(&scene.join("src"), 40 << 20)).start();
        let is_part = |name: &String| name.starts_with(".haul-") && name.ends_with(".journal");
        run.wait_until("some of it is stored", || names(&scene.join("dst")).iter().any(is_part));
        run.signal(Signal::INT);
        let run = run.finish().expect_code(130);
        assert!(run.said().contains("with --resume goes on from them"), "{at:?}: {run}");
        let run = put().arg("cat").arg(scene.join("src")).finish().expect_success();
        assert!(summary(&run).of("resumed_bytes") > 0, "{at:?}: {run}");
        assert!(fs::read(scene.join("dst/copy")).unwrap() == bytes, "{at:?}");
        assert_eq!(names(&scene.join("dst")), ["copy"], "{at:?}");
    }
}

fn a_resumed_put_of_another_stream_is_that_stream() {
    for at in EVERYWHERE {
        let scene = Scene::new();
        let mut bytes = file(&scene, "src", 100_000_000);
        fs::create_dir(scene.join("dst")).unwrap();
        let to = scene.join("dst/copy");
        killed(&scene, at, &to, &scene.join("src"));
        for place in [0, 9_000_000, 50_000_000] {
            bytes[place] ^= 1;
        }
        bytes.truncate(80_000_000);
        fs::write(scene.join("other"), &bytes).unwrap();
        let run = at.haul(&scene, "put").args(["--json", "--resume"]).arg(at.of(&to)).args(["--", "cat"]);
        let run = run.arg(scene.join("other")).finish().expect_success();
        assert!(summary(&run).of("resumed_bytes") >= 20 << 20, "{at:?}: {run}");
        assert!(fs::read(&to).unwrap() == bytes, "{at:?}");
    }
}

fn a_killed_remote_end_is_started_again() {
    let scene = Scene::new();
    let bytes = file(&scene, "src", 100_000_000);
    fs::create_dir(scene.join("dst")).unwrap();
    let (to, go) = (scene.join("dst/copy"), scene.join("go"));
    let (source, wait) = (scene.join("src"), go.display().to_string());
    let source = source.display();
    let command = format!(
        "head -c 50000000 {source}; until [ -e {wait} ]; do sleep 0.1; done; tail -c +50000001 {source}"
    );
    let mut run = StreamPlace::Host
        .haul(&scene, "put")
        .arg("--json")
        .arg(StreamPlace::Host.of(&to))
        .arg("--")
        .arg(command)
        .start();
    let journal = || names(&scene.join("dst")).iter().any(|name| name.ends_with(".journal"));
    run.wait_until("some of it is stored", journal);
    std::thread::sleep(Duration::from_secs(1));
    run.agents().into_iter().for_each(kill);
    fs::write(&go, "").unwrap();
    let end = run.finish().expect_success();
    assert_eq!(summary(&end).of("copied_bytes"), bytes.len() as u64);
    assert!(fs::read(&to).unwrap() == bytes);
    assert_eq!(names(&scene.join("dst")), ["copy"]);
}

/// Puts the file through a shell that damages its bytes.
fn through(scene: &Scene, plan: &FaultPlan, to: &Path) -> CommandRun {
    let to = joined(&[REMOTE.as_bytes(), b":", to.as_os_str().as_bytes()]);
    let run = scene.haul_fault("put", plan).args(["--json", "--compress", "none", "--streams", "2"]);
    run.arg(to).args(["--", "cat"]).arg(scene.join("src"))
}

fn a_cut_connection_heals() {
    let scene = Scene::new();
    let bytes = file(&scene, "src", 60_000_000);
    let plan = [1_u32, 2].into_iter().fold(FaultPlan::new(scene.join("plan")), |plan, which| {
        plan.with(Which::Only(which), ByteDirection::Up, LinkFault::Cut(9_000_000))
    });
    let _ = through(&scene, &plan, &scene.join("copy")).finish().expect_success();
    assert!(fs::read(scene.join("copy")).unwrap() == bytes);
    plan.restart();
    let get = scene.haul_fault("get", &plan).arg("--quiet");
    let from = joined(&[REMOTE.as_bytes(), b":", scene.join("copy").as_os_str().as_bytes()]);
    assert!(get.arg(from).finish().expect_success().stdout == bytes);
}

fn a_flipped_byte_never_gets_a_name() {
    let scene = Scene::new();
    let bytes = file(&scene, "src", 30_000_000);
    let flip = |at| LinkFault::Flip(at);
    let once = FaultPlan::new(scene.join("once")).with(Which::Only(1), ByteDirection::Up, flip(6_000_000));
    let _ = through(&scene, &once, &scene.join("copy")).finish().expect_success();
    assert!(fs::read(scene.join("copy")).unwrap() == bytes);
    fs::remove_file(scene.join("copy")).unwrap();
    // Each connection damages its first slice.
    let always = FaultPlan::new(scene.join("always")).with(Which::All, ByteDirection::Up, flip(2_000_000));
    let run = through(&scene, &always, &scene.join("copy")).finish();
    assert!(run.code() != Some(0) || fs::read(scene.join("copy")).unwrap() == bytes, "{run}");
    assert!(run.code() == Some(0) || !scene.join("copy").exists(), "{run}");
}

fn two_puts_of_one_name_do_not_mix() {
    for at in [StreamPlace::Local, StreamPlace::Host] {
        let scene = Scene::new();
        let (one, other) = (file(&scene, "one", 60_000_000), file(&scene, "other", 70_000_000));
        let to = scene.join("copy");
        let put = |source: &str| {
            let run = at.haul(&scene, "put").arg(at.of(&to)).args(["--", "cat"]);
            run.arg(scene.join(source)).start()
        };
        let runs = [put("one"), put("other")].map(haul_testkit::Running::finish);
        assert!(runs.iter().any(|run| run.code() == Some(0)), "{runs:?}");
        for run in &runs {
            assert!(run.code() == Some(0) || run.err().contains("another haul"), "{run}");
        }
        let found = fs::read(&to).unwrap();
        assert!(found == one || found == other, "{at:?}");
    }
}

fn a_reader_that_has_enough_ends_it_quietly() {
    for at in EVERYWHERE {
        let scene = Scene::new();
        let bytes = file(&scene, "src", 60_000_000);
        let from = at.of(&scene.join("src"));
        let shell =
            if at == StreamPlace::Local { String::new() } else { crate::scene::fault_shell(&plan(&scene)) };
        let line = "set -o pipefail; if [ -n \"$2\" ]; then set -- \"$1\" \"$2\" \"$3\" -e \"$2\" --remote-haul \"$1\"; \
            else set -- \"$1\" \"\" \"$3\"; fi; h=$1 from=$3; shift 3; \"$h\" get --quiet \"$@\" \"$from\" | head -c 100";
        let run = CommandRun::new("bash", scene.tag()).env("HOME", scene.home()).args(["-c", line, "bash"]);
        let run = run.arg(crate::scene::HAUL).arg(shell).arg(from).finish();
        assert_eq!(run.err(), "", "{at:?}: {run}");
        assert!(run.stdout == bytes[..100], "{at:?}");
    }
}

fn a_get_into_a_file_goes_on_where_it_was() {
    for at in [StreamPlace::Local, StreamPlace::Host] {
        let scene = Scene::new();
        let bytes = file(&scene, "src", 60_000_000);
        fs::create_dir(scene.join("dst")).unwrap();
        let from = at.of(&scene.join("src"));
        let get = || at.haul(&scene, "get").arg("--json").arg(&from).arg(scene.join("dst/back"));
        let mut run = get().start();
        run.wait_until("it has begun", || {
            let begun =
                |name: &String| fs::metadata(scene.join("dst").join(name)).is_ok_and(|f| f.len() > 9 << 20);
            names(&scene.join("dst")).iter().any(begun)
        });
        kill(run.pid());
        let _ = run.finish();
        let end = get().finish().expect_success();
        assert_eq!(summary(&end).of("copied"), 1);
        assert!(fs::read(scene.join("dst/back")).unwrap() == bytes, "{at:?}");
        assert_eq!(names(&scene.join("dst")), ["back"], "{at:?}");
    }
}

fn a_file_that_changes_is_an_error() {
    for at in EVERYWHERE {
        let scene = Scene::new();
        file(&scene, "src", 200_000_000);
        let from = at.of(&scene.join("src"));
        tool(std::process::Command::new("mkfifo").arg(scene.join("pipe")));
        let mut reader = CommandRun::new("bash", scene.tag())
            .args([
                "-c",
                "exec 3<\"$1\"; head -c 1000000 <&3 >/dev/null; touch \"$1.read\"; sleep 2; cat <&3 >/dev/null",
                "bash",
            ])
            .arg(scene.join("pipe"))
            .start();
        let line = format!("exec > {}; exec \"$@\"", scene.join("pipe").display());
        let shell = if at == StreamPlace::Local {
            Vec::new()
        } else {
            vec!["-e".into(), crate::scene::fault_shell(&plan(&scene))]
        };
        let get = CommandRun::new("bash", scene.tag()).env("HOME", scene.home()).args(["-c", &line, "bash"]);
        let mut get = get.arg(crate::scene::HAUL).arg("get").args(shell);
        if at != StreamPlace::Local {
            get = get.args(["--remote-haul", crate::scene::HAUL]);
        }
        let get = get.arg(&from).start();
        reader.wait_until("it is read", || scene.join("pipe.read").exists());
        let source = fs::File::options().write(true).open(scene.join("src")).unwrap();
        source.set_len(150_000_000).unwrap();
        let run = get.finish().expect_code(1);
        assert!(run.err().contains("changed"), "{at:?}: {run}");
        let _ = reader.is_running();
        let _ = reader.finish();
    }
}

fn the_mode_is_that_of_a_redirection() {
    for at in EVERYWHERE {
        let scene = Scene::new();
        let to = scene.join("copy");
        let mode = || fs::metadata(&to).unwrap().permissions().mode() & 0o7777;
        for len in [10, 5 << 20] {
            let bytes = file(&scene, "src", len);
            let put = || {
                let run = at.haul(&scene, "put").arg(at.of(&to)).args(["--", "cat"]);
                run.arg(scene.join("src")).finish().expect_success()
            };
            let _ = put();
            assert_eq!(mode(), 0o644, "{at:?} {len}: what the umask leaves");
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
            let _ = put();
            assert_eq!(mode(), 0o600, "{at:?} {len}: that of the file that is replaced");
            assert!(fs::read(&to).unwrap() == bytes);
            fs::remove_file(&to).unwrap();
        }
    }
}

fn several_destinations_get_one_stream() {
    let scene = Scene::new();
    let bytes = file(&scene, "src", 30_000_000);
    // Through a server, where content goes around ssh.
    let host = scene.sshd().host().to_owned();
    let at_host = |name: &str| joined(&[host.as_bytes(), b":", scene.join(name).as_os_str().as_bytes()]);
    let at_sftp = joined(&[b"sftp://", host.as_bytes(), scene.join("copy-Sftp").as_os_str().as_bytes()]);
    let to = [scene.join("copy-Local").into_os_string(), at_host("copy-Host"), at_sftp];
    let put = |targets: &[OsString]| {
        scene.haul_ssh("put").arg("--json").args(targets).args(["--", "cat"]).arg(scene.join("src")).finish()
    };
    assert_eq!(summary(&put(&to).expect_success()).of("copied"), 3);
    for at in EVERYWHERE {
        assert!(fs::read(scene.join(format!("copy-{at:?}"))).unwrap() == bytes, "{at:?}");
    }
    // One that cannot be written costs the others nothing.
    fs::create_dir(scene.join("directory")).unwrap();
    let both = [scene.join("directory").into_os_string(), scene.join("again").into_os_string()];
    let run = put(&both).expect_code(1);
    assert_eq!((summary(&run).of("copied"), summary(&run).of("failed")), (1, 1));
    assert!(fs::read(scene.join("again")).unwrap() == bytes);
}

fn requests_that_cannot_be_meant_are_refused_in_one_line() {
    let scene = Scene::new();
    fs::create_dir(scene.join("directory")).unwrap();
    fs::write(scene.join("file"), "x").unwrap();
    let [file, directory, missing] =
        ["file", "directory", "missing/file"].map(|name| scene.join(name).display().to_string());
    let slash = format!("{directory}/");
    let cases: [(&[&str], i32, &str); 25] = [
        (&["put", &directory], 2, "it is a directory"),
        (&["put", &slash], 2, "the name of the file is missing"),
        (&["put", &missing], 1, "does not exist"),
        (&["put", "-"], 2, "./-"),
        (&["copy", &file, "-"], 2, "`haul get SRC` writes a stream"),
        (&["copy", "-", &directory], 2, "`haul put DST` reads a stream"),
        (&["put", "/tmp/*.xb"], 2, "pattern"),
        (&["put", "--no-clobber", &file], 1, "it is there already"),
        (&["put", "--encrypt", "age1x", &file], 2, "age -r"),
        (&["put", "--compress", "zstd", &file], 2, "zstd"),
        (&["put", "-n", "--length", "5", &file], 2, "-n counts"),
        (&["put", "--tag", "a=b", &file], 2, "it is for object stores"),
        (&["put", "--endpoint", "http://x", &file], 2, "it is for object stores"),
        (&["put", &file, &file], 2, "given twice"),
        (&["put", &file, "s3://b/k"], 2, "to copy it: haul copy"),
        (&["put", &file, "db2:/x"], 2, "name it last"),
        (&["put", "s3://b/k", "cat", "x"], 2, "haul put s3://b/k -- cat x"),
        (&["put", "s3://b/k", "Cargo.toml"], 2, "as ./Cargo.toml"),
        (&["get", "--raw", &file], 2, "it is for object stores"),
        (&["get", &directory], 2, "haul copy"),
        (&["get", &missing], 1, "No such file"),
        (&["get", "/tmp/*.xb"], 1, "write out its name"),
        (&["get", "-"], 1, "no standard input"),
        (&["get", &file, "s3://b/k"], 2, "haul copy"),
        (&["get", &file, "db2:/x"], 2, "haul copy"),
    ];
    for (words, code, said) in cases {
        let run = scene.haul(words[0]).args(&words[1..]).input("x").finish();
        assert_eq!(run.code(), Some(code), "{words:?} {run}");
        assert!(run.err().contains(said) && run.stdout.is_empty(), "{words:?} {run}");
        assert!(run.err().lines().count() <= 2, "{words:?} {run}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"x");
    let run = scene.haul("get").args([&file, "-"]).in_dir(scene.path()).finish().expect_success();
    assert!(run.stdout == b"x" && !scene.join("-").exists(), "{run}");
    let unreachable = scene.haul("put").args(["-e", "false", "nobody.invalid:x"]).input("x").finish();
    let _ = unreachable.expect_code(4);
}

fn a_full_destination_is_exit_5_and_leaves_nothing() {
    for at in [StreamPlace::Local, StreamPlace::Host] {
        let scene = Scene::new();
        file(&scene, "src", 60_000_000);
        let disk = TestMount::new(FileSystem::Tmpfs, 24 << 20);
        let run = at.haul(&scene, "put").arg(at.of(&disk.join("copy"))).args(["--", "cat"]);
        let run = run.arg(scene.join("src")).finish().expect_code(5);
        assert!(run.err().contains("No space left"), "{run}");
        assert_eq!(names(&disk.join("")), [""; 0], "{at:?}");
    }
}
