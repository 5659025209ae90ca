//! `haul pipe`: from a program here to a program on a host, and the other way round.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::process::{kill, signal, tagged, wait_until};
use haul_testkit::{
    ByteDirection, CommandRun, FaultPlan, Finished, LinkFault, LongLink, Need, Running, Which, content,
    write_program,
};
use rustix::process::Signal;

use crate::scene::{HAUL, REMOTE, Scene, events, summary};
use crate::{TestCase, cases};

const SLICE: u64 = 4 << 20;

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        a_stream_of_any_length_arrives,
        a_stream_arrives_over_a_long_link,
        a_producer_that_fails_is_named_and_the_consumer_sees_no_end,
        an_empty_stream_is_an_error_unless_allowed,
        a_consumer_that_fails_is_named,
        a_consumer_that_leaves_input_unread_has_failed,
        standard_error_of_both_programs_is_shown,
        a_consumer_that_reads_slowly_is_waited_for_in_bounded_memory,
        killing_haul_ends_both_programs_without_an_end_of_input,
        killing_the_remote_end_ends_both_programs_without_an_end_of_input,
        an_interrupted_pipe_ends_both_programs,
        a_cut_connection_costs_a_retry,
        a_flipped_byte_never_reaches_the_consumer,
        processes_that_outlive_the_consumer_are_left_alone,
        json_stays_json_whatever_the_programs_print,
        the_rate_is_limited_and_the_data_are_compressed,
        a_command_that_is_no_pipe_is_refused_in_one_line,
        a_login_confined_to_a_directory_runs_no_programs,
    ];
    all.extend(cases![Need::Program("b3sum"); the_digest_of_a_pipe_is_that_of_b3sum]);
    all
}

/// Where the program is that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriterPlace {
    Here,
    There,
}

const BOTH: [WriterPlace; 2] = [WriterPlace::Here, WriterPlace::There];

impl WriterPlace {
    /// The words of the command line.
    fn words(self, run: CommandRun, host: &str, producer: &str, consumer: &str) -> CommandRun {
        match self {
            Self::Here => run.args([host, "--into", consumer, "--", producer]),
            Self::There => run.args(["--from", host, producer, "--into", consumer]),
        }
    }

    /// A pipe through a shell that does no login.
    fn plain(self, scene: &Scene, producer: &str, consumer: &str) -> CommandRun {
        self.through(scene, &FaultPlan::new(scene.join("plan")), producer, consumer)
    }

    fn through(self, scene: &Scene, plan: &FaultPlan, producer: &str, consumer: &str) -> CommandRun {
        self.words(scene.haul_fault("pipe", plan), REMOTE, producer, consumer)
    }
}

fn file(scene: &Scene, name: &str, len: u64) -> Vec<u8> {
    content::write_file(&scene.join(name), len, len);
    fs::read(scene.join(name)).unwrap()
}

fn cat(path: &Path) -> String {
    format!("cat {}", path.display())
}

/// A consumer that saves its input in `got`, and makes `end` when it sees the end of its input.
fn saving(scene: &Scene) -> (String, PathBuf, PathBuf) {
    let (got, end) = (scene.join("got"), scene.join("end"));
    (format!("cat > {}; : > {}", got.display(), end.display()), got, end)
}

/// The consumer has not seen the end of its input, and no program of the scene is left.
#[track_caller]
fn no_end(scene: &Scene, end: &Path) {
    scene.assert_all_gone();
    assert!(!end.exists(), "the consumer saw the end of a stream that is not complete");
}

fn a_stream_of_any_length_arrives() {
    for from in BOTH {
        let scene = Scene::new();
        let (consumer, got, end) = saving(&scene);
        for len in [0, 1, SLICE - 1, SLICE, SLICE + 1, 2 * SLICE, 100_000_000] {
            let bytes = file(&scene, "src", len);
            let run = scene.haul_ssh("pipe").args(["--json", "--allow-empty"]);
            let run = from.words(run, scene.sshd().host(), &cat(&scene.join("src")), &consumer);
            let run = run.finish().expect_success();
            assert_eq!((summary(&run).of("copied"), summary(&run).of("copied_bytes")), (1, len), "{from:?}");
            assert!(fs::read(&got).unwrap() == bytes && end.exists(), "{from:?} {len}");
            fs::remove_file(&end).unwrap();
        }
        scene.assert_all_gone();
    }
}

fn the_digest_of_a_pipe_is_that_of_b3sum() {
    for from in BOTH {
        let scene = Scene::new();
        file(&scene, "src", 9_000_001);
        let digest = tool(std::process::Command::new("b3sum").arg("--no-names").arg(scene.join("src")));
        let run = from.plain(&scene, &cat(&scene.join("src")), "cat > /dev/null").finish().expect_success();
        assert!(run.err().contains(digest.trim()), "{run}");
    }
}

fn a_stream_arrives_over_a_long_link() {
    for from in BOTH {
        let scene = Scene::new();
        let bytes = file(&scene, "src", 60_000_000);
        let (consumer, got, _) = saving(&scene);
        let sshd = scene.sshd();
        let server = SocketAddr::new(sshd.host().parse().unwrap(), sshd.port());
        let link = LongLink::new(server, Duration::from_millis(30), 1 << 20);
        let (before, after) = (format!("-p {}", sshd.port()), format!("-p {}", link.port()));
        let alias = format!(" -o HostKeyAlias=[{}]:{}", sshd.host(), sshd.port());
        let shell = sshd.shell().replace(&before, &after) + &alias;
        let run = scene.haul("pipe").args(["-e", &shell, "--remote-haul", HAUL, "--transport", "ssh"]);
        let run = from.words(run, scene.sshd().host(), &cat(&scene.join("src")), &consumer);
        let _ = run.finish().expect_success();
        assert!(fs::read(&got).unwrap() == bytes, "{from:?}");
        assert!(link.connections() > 1, "{from:?}: one connection alone");
    }
}

fn a_producer_that_fails_is_named_and_the_consumer_sees_no_end() {
    for from in BOTH {
        for (producer, cause) in [
            ("head -c 30000000 /dev/urandom; exit 3", "exited with code 3"),
            ("exit 3", "exited with code 3"),
            ("head -c 5000000 /dev/urandom; kill -9 $$", "killed by signal 9 (SIGKILL)"),
            ("false | cat", "exited with code 1"),
            ("no-such-command-anywhere x", "exited with code 127"),
        ] {
            let scene = Scene::new();
            let (consumer, _, end) = saving(&scene);
            let run = from.plain(&scene, producer, &consumer).finish().expect_code(1);
            assert!(run.err().contains(cause) && run.err().contains("(source)"), "{from:?}: {run}");
            assert!(run.err().contains("cannot be resumed"), "{run}");
            no_end(&scene, &end);
        }
    }
}

fn an_empty_stream_is_an_error_unless_allowed() {
    for from in BOTH {
        let scene = Scene::new();
        let (consumer, got, end) = saving(&scene);
        let run = from.plain(&scene, "true", &consumer).finish().expect_code(1);
        assert!(run.err().contains("--allow-empty"), "{run}");
        no_end(&scene, &end);
        let run = scene.haul_fault("pipe", &FaultPlan::new(scene.join("plan"))).arg("--allow-empty");
        let _ = from.words(run, REMOTE, "true", &consumer).finish().expect_success();
        assert!(end.exists() && fs::read(&got).unwrap().is_empty());
    }
}

fn a_consumer_that_fails_is_named() {
    for from in BOTH {
        for (consumer, cause) in [
            ("cat > /dev/null; exit 7", "exited with code 7"),
            ("exit 7", "exited with code 7"),
            ("head -c 100 > /dev/null; kill -9 $$", "killed by signal 9 (SIGKILL)"),
            ("head -c 100 > /dev/null", "before it had read the whole stream"),
            ("exec <&-; sleep 100", "closed its standard input"),
            ("cat | false", "exited with code 1"),
        ] {
            let scene = Scene::new();
            let run = from.plain(&scene, "head -c 50000000 /dev/urandom", consumer).finish().expect_code(1);
            assert!(run.err().contains(cause) && run.err().contains("(destination)"), "{from:?}: {run}");
            scene.assert_all_gone();
        }
        // It is found dead also while the producer says nothing.
        let scene = Scene::new();
        let run = from.plain(&scene, "sleep 600", "sleep 1; exit 7").finish().expect_code(1);
        assert!(run.err().contains("exited with code 7"), "{from:?}: {run}");
        scene.assert_all_gone();
    }
}

/// Whether a run succeeds does not depend on how much fits into a pipe.
fn a_consumer_that_leaves_input_unread_has_failed() {
    for from in BOTH {
        let scene = Scene::new();
        let run = from.plain(&scene, "echo 12345", "sleep 1").finish().expect_code(1);
        assert!(run.err().contains("has not read the last 6 bytes"), "{from:?}: {run}");
        // It has ended long before its input does.
        let _ = from.plain(&scene, "echo 12345", "head -c 3 >/dev/null").finish().expect_code(1);
    }
}

fn standard_error_of_both_programs_is_shown() {
    for from in BOTH {
        let scene = Scene::new();
        let producer = "printf 'one\\033[2J\\ntwo' >&2; echo data";
        let run = from.plain(&scene, producer, "cat > /dev/null; echo three >&2").finish().expect_success();
        let (first, second) = match from {
            WriterPlace::Here => ("haul: bash: ".to_owned(), format!("haul: {REMOTE}: bash: ")),
            WriterPlace::There => (format!("haul: {REMOTE}: bash: "), "haul: bash: ".to_owned()),
        };
        let (first, second) = (first.replace("bash", "printf"), second.replace("bash", "cat"));
        for line in [format!("{first}one\\x1b[2J\n"), format!("{first}two\n"), format!("{second}three\n")] {
            assert!(run.err().contains(&line), "{from:?} {line:?}: {run}");
        }
        // All of it, also of a program that says more than a pipe holds, and fails.
        let producer = "seq 1 50000 >&2; exit 3";
        let run = from.plain(&scene, producer, "cat > /dev/null").finish().expect_code(1);
        assert!(run.err().contains(": 1\n") && run.err().contains(": 50000\n"), "{from:?}");
    }
}

fn a_consumer_that_reads_slowly_is_waited_for_in_bounded_memory() {
    for from in BOTH {
        let scene = Scene::new();
        let consumer = "sleep 6; cat > /dev/null";
        let run = scene.haul_fault("pipe", &FaultPlan::new(scene.join("plan"))).args(["--max-memory", "64M"]);
        let run = from.words(run, REMOTE, "head -c 700000000 /dev/urandom", consumer);
        let run = run.watch_memory().finish().expect_success();
        let (near, far) = (run.local_peak >> 20, run.remote_peak >> 20);
        assert!(near > 0 && far > 0 && near <= 64 + 60 && far <= 64 + 60, "{from:?}: {near} and {far} MiB");
    }
}

/// A pipe in the middle of its stream, which has reached the consumer, and whose producer waits.
fn halted(scene: &Scene, from: WriterPlace) -> (Running, PathBuf) {
    let (consumer, got, end) = saving(scene);
    let mut run = from.plain(scene, "head -c 30000000 /dev/urandom; exec sleep 600", &consumer).start();
    run.wait_until("some of it has arrived", || fs::metadata(&got).is_ok_and(|got| got.len() > 20_000_000));
    (run, end)
}

fn killing_haul_ends_both_programs_without_an_end_of_input() {
    for from in BOTH {
        let scene = Scene::new();
        let (run, end) = halted(&scene, from);
        kill(run.pid());
        let _ = run.finish();
        if from == WriterPlace::Here {
            // A program here that writes is told by its next write.
            let mut left = Vec::new();
            wait_until("only the producer is left, and writes no more", Duration::from_secs(20), || {
                left = tagged(scene.tag());
                left.len() == 1 && words_of(left[0]) == "sleep 600 "
            });
            left.into_iter().for_each(kill);
        }
        no_end(&scene, &end);
    }
}

fn words_of(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

fn killing_the_remote_end_ends_both_programs_without_an_end_of_input() {
    for from in BOTH {
        let scene = Scene::new();
        let (run, end) = halted(&scene, from);
        run.agents().into_iter().for_each(kill);
        let run = run.finish();
        assert!(run.code().is_some_and(|code| code != 0), "{from:?}: {run}");
        assert!(run.err().contains("cannot be resumed"), "{from:?}: {run}");
        no_end(&scene, &end);
    }
}

fn an_interrupted_pipe_ends_both_programs() {
    for from in BOTH {
        for which in [Signal::INT, Signal::TERM] {
            let scene = Scene::new();
            let (run, end) = halted(&scene, from);
            signal(run.pid(), which);
            let run = run.finish().expect_code(130);
            assert!(run.err().contains("cannot be resumed"), "{from:?}: {run}");
            no_end(&scene, &end);
        }
    }
}

fn a_cut_connection_costs_a_retry() {
    for (from, direction) in
        [(WriterPlace::Here, ByteDirection::Up), (WriterPlace::There, ByteDirection::Down)]
    {
        let scene = Scene::new();
        let bytes = file(&scene, "src", 60_000_000);
        let (consumer, got, end) = saving(&scene);
        let plan = [1_u32, 2, 3].into_iter().fold(FaultPlan::new(scene.join("plan")), |plan, which| {
            plan.with(Which::Only(which), direction, LinkFault::Cut(9_000_000))
        });
        let run = scene.haul_fault("pipe", &plan).args(["--compress", "none", "--streams", "2"]);
        let run = from.words(run, REMOTE, &cat(&scene.join("src")), &consumer);
        let _ = run.finish().expect_success();
        assert!(fs::read(&got).unwrap() == bytes && end.exists(), "{from:?}");
        assert!(plan.connections() > 3, "{from:?}: nothing was cut");
    }
}

fn a_flipped_byte_never_reaches_the_consumer() {
    for (from, direction) in
        [(WriterPlace::Here, ByteDirection::Up), (WriterPlace::There, ByteDirection::Down)]
    {
        let scene = Scene::new();
        let bytes = file(&scene, "src", 30_000_000);
        let (consumer, got, end) = saving(&scene);
        let run = |plan: &FaultPlan| {
            let run = scene.haul_fault("pipe", plan).args(["--compress", "none", "--streams", "2"]);
            from.words(run, REMOTE, &cat(&scene.join("src")), &consumer).finish()
        };
        let once = FaultPlan::new(scene.join("once"));
        let once = once.with(Which::Only(1), direction, LinkFault::Flip(6_000_000));
        let _ = run(&once).expect_success();
        assert!(fs::read(&got).unwrap() == bytes && end.exists() && once.flipped() > 0, "{from:?}");
        fs::remove_file(&end).unwrap();
        // Each connection damages its first slice.
        let always = FaultPlan::new(scene.join("always"));
        let run: Finished = run(&always.with(Which::All, direction, LinkFault::Flip(2_000_000)));
        let got = fs::read(&got).unwrap();
        assert!(bytes.starts_with(&got), "{from:?}: {run}");
        assert_eq!(run.code() == Some(0), end.exists() && got == bytes, "{from:?}: {run}");
    }
}

fn processes_that_outlive_the_consumer_are_left_alone() {
    for from in BOTH {
        let scene = Scene::new();
        let done = scene.join("done");
        let consumer =
            format!("cat > /dev/null; (sleep 2; : > {}) < /dev/null > /dev/null 2>&1 &", done.display());
        let run = from.plain(&scene, "echo data", &consumer).finish().expect_success();
        assert!(run.took < Duration::from_secs(15), "{run}");
        wait_until("the process that was left running ends by itself", Duration::from_secs(10), || {
            done.exists()
        });
    }
}

fn json_stays_json_whatever_the_programs_print() {
    for from in BOTH {
        let scene = Scene::new();
        let run = scene.haul_fault("pipe", &FaultPlan::new(scene.join("plan"))).arg("--json");
        let run = from.words(run, REMOTE, "echo data; echo one >&2", "cat; echo two >&2");
        let run = run.finish().expect_success();
        let notes: Vec<String> = events(&run)
            .iter()
            .filter(|event| event["type"] == "note")
            .filter_map(|event| event["text"].as_str().map(str::to_owned))
            .collect();
        for said in ["echo: one", "cat: data", "cat: two"] {
            assert!(notes.iter().any(|note| note.ends_with(said)), "{from:?} {said}: {run}");
        }
        assert_eq!(summary(&run).0["command"], "pipe");
        assert_eq!(summary(&run).of("copied_bytes"), 5);
    }
    // Otherwise the program here shares the standard output of haul.
    let scene = Scene::new();
    let run = WriterPlace::There.plain(&scene, "echo data", "cat").finish().expect_success();
    assert_eq!(run.out(), "data\n");
}

fn the_rate_is_limited_and_the_data_are_compressed() {
    for from in BOTH {
        let scene = Scene::new();
        let piped = |words: &[&str], producer: &str| {
            let run = scene.haul_fault("pipe", &FaultPlan::new(scene.join("plan"))).args(words);
            from.words(run, REMOTE, producer, "cat > /dev/null").finish().expect_success().took
        };
        let took = piped(&["--bwlimit", "5M", "--compress", "none"], "head -c 25000000 /dev/zero");
        assert!(took > Duration::from_secs(3), "{from:?}: {took:?}");
        // Zeros take no time when they are compressed.
        let took = piped(&["--bwlimit", "5M", "-z"], "head -c 100000000 /dev/zero");
        assert!(took < Duration::from_secs(8), "{from:?}: {took:?}");
    }
}

fn a_command_that_is_no_pipe_is_refused_in_one_line() {
    let scene = Scene::new();
    for (words, cause) in [
        (&["--from", "db1", "db2:", "--into", "cat"][..], "two hosts"),
        (&["--from", "db1", "db2", "--into", "cat", "--", "cat"], "two hosts"),
        (&["db2", "--into", "cat"], "missing"),
        (&["--into", "cat", "--", "cat"], "missing"),
        (&["db2:/x", "--into", "cat", "--", "cat"], "no host"),
        (&["s3://b/k", "--into", "cat", "--", "cat"], "no host"),
        (&["db2", "--", "cat"], "--into"),
    ] {
        let run = scene.haul("pipe").args(words).finish().expect_code(2);
        assert!(run.err().contains(cause), "{words:?}: {run}");
    }
    // A host without haul runs no programs for it.
    let shell = scene.sshd().shell();
    let run = scene.haul("pipe").args(["-e", &shell, "--remote-haul", "/no/haul"]);
    let run = WriterPlace::Here.words(run, scene.sshd().host(), "echo x", "cat").finish();
    assert!(run.code() == Some(4) && run.err().contains("haul"), "{run}");
}

fn a_login_confined_to_a_directory_runs_no_programs() {
    let scene = Scene::new();
    fs::create_dir(scene.join("vault")).unwrap();
    let marker = scene.join("marker");
    let remote = format!("{HAUL} agent --root {}", scene.join("vault").display());
    // A remote shell that runs the forced command, whatever is asked for.
    let shell = scene.join("shell");
    write_program(&shell, format!("#!/bin/sh\nSSH_ORIGINAL_COMMAND='haul agent' exec {remote}\n"));
    for from in BOTH {
        let run = scene.haul("pipe").args(["-e", &shell.display().to_string(), "--remote-haul", HAUL]);
        let touch = format!("cat > {}", marker.display());
        let there = format!("echo x; : > {}", marker.display());
        let run = match from {
            WriterPlace::Here => from.words(run, "host", "echo x", &touch),
            WriterPlace::There => from.words(run, "host", &there, "cat"),
        };
        let run = run.finish().expect_code(1);
        assert!(run.err().contains("runs no programs"), "{from:?}: {run}");
        assert!(!marker.exists());
    }
}
