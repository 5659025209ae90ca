//! Reaching the remote host: common ssh setups, missing programs, and the messages about them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use haul_testkit::process::{kill, signal, wait_until};
use haul_testkit::{CommandRun, Need, SshdOptions, TestTree, assert_same_tree};

use rustix::process::Signal;

use crate::scene::{HAUL, Scene, Way, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        a_missing_remote_haul_is_told_with_the_way_out,
        something_else_in_the_place_of_the_remote_haul_is_told,
        a_remote_haul_that_never_greets_is_not_waited_for,
        a_host_that_cannot_be_reached_is_exit_4,
        a_login_that_is_refused_is_exit_4,
        a_server_that_takes_one_login_at_a_time_is_enough,
        a_server_that_drops_many_logins_is_enough,
        a_forced_command_may_start_the_remote_haul,
        a_greeting_of_the_login_shell_is_told_or_stood,
        many_streams_are_used_when_asked_for,
        nothing_secret_and_no_path_is_on_a_remote_command_line,
        usage_errors_are_exit_2_and_touch_nothing,
        a_kept_login_serves_later_runs,
    ];
    all.extend(cases![Need::Root; the_remote_end_that_lost_its_network_ends_by_itself]);
    all
}

fn source(scene: &Scene) -> TestTree {
    TestTree::mixed(scene.join("src"), 20, &[9 << 20], 60)
}

/// A copy to or from the server with `program` as the remote haul.
fn copy_with(scene: &Scene, way: Way, program: &str, source: &TestTree) -> CommandRun {
    let run = scene.haul("copy").args(["-e", &scene.sshd().shell(), "--remote-haul", program]);
    let (from, to) = (slash(source.path()), scene.join("dst").into_os_string());
    if way == Way::Pull { run.arg(scene.remote(from)).arg(to) } else { run.arg(from).arg(scene.remote(to)) }
}

fn a_missing_remote_haul_is_told_with_the_way_out() {
    for way in [Way::Push, Way::Pull] {
        let scene = Scene::new();
        let source = source(&scene);
        let run = copy_with(&scene, way, "/nonexistent/haul", &source).finish().expect_code(4);
        assert!(run.err().contains("--remote-haul"), "the way out is told: {run}");
        assert!(run.err().contains("/nonexistent/haul"), "what was missing is told: {run}");
        assert!(!scene.join("dst").exists() || way == Way::Pull, "{way:?}");
    }
}

fn something_else_in_the_place_of_the_remote_haul_is_told() {
    for program in
        ["/bin/echo", "/bin/cat", "/bin/false", "/bin/true", "yes", "head -c 100000 /dev/urandom #"]
    {
        let scene = Scene::new();
        let source = source(&scene);
        let run =
            copy_with(&scene, Way::Push, program, &source).args(["--timeout", "10"]).finish().expect_code(4);
        assert!(run.err().len() < 2000 && !run.err().is_empty(), "{program}: {run}");
        assert!(!scene.join("dst").exists(), "{program}");
        scene.assert_all_gone();
    }
}

fn a_remote_haul_that_never_greets_is_not_waited_for() {
    let scene = Scene::new();
    let source = source(&scene);
    let run = copy_with(&scene, Way::Push, "sleep 15 #", &source).args(["--timeout", "1"]).finish();
    let run = run.expect_code(4);
    assert!(run.err().contains("did not answer in time"), "{run}");
    scene.assert_all_gone();
}

fn a_host_that_cannot_be_reached_is_exit_4() {
    let scene = Scene::new();
    let source = source(&scene);
    let to = |shell: &str, host: &str| {
        let run = scene.haul("copy").args(["-e", shell]).arg(slash(source.path()));
        run.arg(format!("{host}:/tmp/never-made")).finish().expect_code(4)
    };
    let run = to("ssh -F /dev/null -o BatchMode=yes -o ConnectTimeout=5 -p 1", "127.0.0.1");
    assert!(run.err().contains("127.0.0.1"), "it is named: {run}");
    let run = to("ssh -F /dev/null -o BatchMode=yes -o ConnectTimeout=5", "no-such-host.invalid");
    assert!(run.err().contains("no-such-host.invalid"), "it is named: {run}");
    let run = to("/no/such/shell", "host");
    assert!(run.err().contains("/no/such/shell"), "it is named: {run}");
    let _ = to("false", "host");
}

fn a_login_that_is_refused_is_exit_4() {
    let scene =
        Scene::with_sshd(SshdOptions { lines: vec!["PubkeyAuthentication no".into()], force_command: None });
    let source = source(&scene);
    let run = scene.copy(Way::Push, source.path(), &scene.join("dst")).finish().expect_code(4);
    assert!(run.err().contains("Permission denied"), "what ssh said is passed on: {run}");
}

fn works_with(lines: &[&str], streams: &str) -> usize {
    let lines = lines.iter().map(ToString::to_string).collect();
    let scene = Scene::with_sshd(SshdOptions { lines, force_command: None });
    let source = TestTree::mixed(scene.join("src"), 21, &[40 << 20, 30 << 20], 1500);
    let copy = scene.join("dst");
    let words = ["--transport", "ssh", "--streams", streams];
    let run = scene.copy(Way::Push, source.path(), &copy).args(words).finish();
    summary(&run.expect_success()).assert_accounted();
    assert_same_tree(source.path(), &copy);
    let _ = scene.copy(Way::Pull, source.path(), &scene.join("back")).args(words).finish();
    assert_same_tree(source.path(), &scene.join("back"));
    scene.assert_all_gone();
    scene.sshd().logins()
}

fn a_server_that_takes_one_login_at_a_time_is_enough() {
    works_with(&["MaxStartups 1"], "8");
}

fn a_server_that_drops_many_logins_is_enough() {
    works_with(&["MaxStartups 1:80:3", "MaxSessions 1"], "16");
}

fn many_streams_are_used_when_asked_for() {
    // The scan of a second run may need only one; a tree of this size keeps some busy.
    let logins = works_with(&[], "4");
    assert!(logins > 2, "{logins} logins for two runs");
}

fn a_forced_command_may_start_the_remote_haul() {
    let force_command = Some(format!("{HAUL} agent"));
    let scene = Scene::with_sshd(SshdOptions { lines: Vec::new(), force_command });
    let source = source(&scene);
    let run = scene.haul("copy").args(["-e", &scene.sshd().shell()]).arg(slash(source.path()));
    let _ = run.arg(scene.remote(scene.join("dst"))).finish().expect_success();
    assert_same_tree(source.path(), &scene.join("dst"));
}

fn a_greeting_of_the_login_shell_is_told_or_stood() {
    // A shell whose start-up file prints is common; its output comes before the first frame.
    let force_command = Some("echo Welcome to this machine; eval \"$SSH_ORIGINAL_COMMAND\"".to_owned());
    let scene = Scene::with_sshd(SshdOptions { lines: Vec::new(), force_command });
    let source = source(&scene);
    let run = scene.copy(Way::Push, source.path(), &scene.join("dst")).finish();
    match run.code() {
        Some(0) => assert_same_tree(source.path(), &scene.join("dst")),
        Some(4) => assert!(run.err().contains("Welcome"), "what came instead is told: {run}"),
        _ => panic!("{run}"),
    }
}

fn nothing_secret_and_no_path_is_on_a_remote_command_line() {
    let force_command =
        Some(r#"printf '%s\n' "$SSH_ORIGINAL_COMMAND" >>"$SEEN"; eval "$SSH_ORIGINAL_COMMAND""#.into());
    let scene = Scene::new();
    let seen = scene.join("seen");
    let lines = vec![format!("SetEnv SEEN={} TESTKIT_TAG={}", seen.display(), scene.tag())];
    let server = Scene::with_sshd(SshdOptions { lines, force_command });
    let source = source(&server);
    let _ = server.copy(Way::Push, source.path(), &server.join("dst")).finish().expect_success();
    let text = fs::read_to_string(&seen).unwrap();
    assert!(!text.is_empty());
    for line in text.lines() {
        assert_eq!(line, format!("{HAUL} agent"), "only the program is on the command line");
    }
}

fn usage_errors_are_exit_2_and_touch_nothing() {
    let scene = Scene::new();
    let source = source(&scene);
    let (from, to) = (source.path().to_str().unwrap(), scene.join("dst").display().to_string());
    let bad: [&[&str]; 14] = [
        &[],
        &["no-such-word"],
        &["copy"],
        &["copy", from],
        &["copy", "--no-such-option", from, &to],
        &["copy", "--min-size", "many", from, &to],
        &["copy", "--streams", "0", from, &to],
        &["copy", "", &to],
        &["copy", from, ""],
        &["copy", from, "s3://bucket/../key"],
        &["copy", from, ":/x"],
        &["copy", from, from],
        &["sync", from, from, &to],
        &["verify", from],
    ];
    for words in bad {
        let run = CommandRun::new(HAUL, scene.tag()).args(words).finish().expect_code(2);
        assert!(!run.err().is_empty(), "{run}");
    }
    assert!(!Path::new(&to).exists());
}

/// Nothing tells the remote end that the network is gone: its streams only fall silent.
fn the_remote_end_that_lost_its_network_ends_by_itself() {
    use haul_testkit::process::{agents, kill, signal, wait_until};
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 22, &[60 << 20], 100);
    let plan = haul_testkit::FaultPlan::new(scene.join("plan")).slow(4_000_000);
    let run = scene.fault_copy(Way::Push, &plan, source.path(), &scene.join("dst"));
    let mut run = run.args(["--streams", "2", "--timeout", "3"]).start();
    run.wait_until("it is at work", || haul_testkit::tree::allocated(&scene.join("dst")) > 4 << 20);
    // The relays are stopped, so that the pipes stay open and silent.
    let remote = agents(scene.tag());
    let relays: Vec<u32> = haul_testkit::process::tagged(scene.tag());
    let relays: Vec<u32> =
        relays.into_iter().filter(|pid| *pid != run.pid() && !remote.contains(pid)).collect();
    relays.iter().for_each(|pid| signal(*pid, rustix::process::Signal::STOP));
    let end = run.finish();
    wait_until("the remote ends are gone", std::time::Duration::from_secs(60), || {
        agents(scene.tag()).is_empty()
    });
    relays.iter().for_each(|pid| kill(*pid));
    // New connections may have been made in the place of the silent ones.
    match end.code() {
        Some(0) => assert_same_tree(source.path(), &scene.join("dst")),
        code => assert_eq!(code, Some(4), "{end}"),
    }
}

/// The control masters with a socket in this directory. ssh writes its title over the environment.
fn masters(sockets: &Path) -> Vec<u32> {
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_master = |pid: &u32| {
        let title = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        title.contains("[mux]") && title.contains(sockets.to_str().unwrap())
    };
    pids.filter(is_master).collect()
}

fn a_kept_login_serves_later_runs() {
    let scene = Scene::new();
    let source = source(&scene);
    let logins = |options: &[&str]| {
        let before = scene.sshd().logins();
        let copy = copy_with(&scene, Way::Push, HAUL, &source).args(["--streams", "1"]).args(options);
        let _ = copy.finish().expect_success();
        scene.sshd().logins() - before
    };
    let sockets = scene.home().join("haul");
    assert_eq!((logins(&[]), masters(&sockets).len()), (1, 0), "without the option nothing stays");
    assert_eq!((logins(&["--persist=20s"]), masters(&sockets).len()), (1, 1));
    assert_eq!((logins(&["--persist"]), logins(&["--persist"])), (0, 0));
    let found: Vec<_> = fs::read_dir(&sockets).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((found.len(), mode(&sockets)), (1, 0o700), "{found:?}");
    // It is dead, but its socket is there.
    masters(&sockets).into_iter().for_each(kill);
    wait_until("the master is dead", Duration::from_secs(10), || masters(&sockets).is_empty());
    assert_eq!(logins(&["--persist=20s"]), 1);
    // It does not answer any more.
    masters(&sockets).into_iter().for_each(|pid| signal(pid, Signal::STOP));
    assert_eq!(logins(&["--persist=20s", "--timeout", "5"]), 1);
    masters(&sockets).into_iter().for_each(kill);
    assert_same_tree(source.path(), &scene.join("dst"));
    let other = scene.haul("copy").args(["--persist", "-e", "/bin/sh", "x", "h:y"]).finish().expect_code(2);
    assert!(other.err().contains("the program of -e is not ssh"), "{other}");
}
