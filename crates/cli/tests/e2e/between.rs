//! Two remote hosts: data goes directly from one to the other if they can reach each other.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_testkit::process::kill;
use haul_testkit::tree::allocated;
use haul_testkit::{
    CommandRun, Finished, Sshd, SshdOptions, TestTree, assert_no_half_files, assert_same_tree,
};

use crate::direct::while_cut;
use crate::scene::{HAUL, Scene, events, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        content_goes_from_one_remote_end_to_the_other,
        the_end_of_the_source_connects_where_the_other_cannot,
        where_they_cannot_reach_each_other_it_is_relayed,
        a_copy_within_one_machine_does_not_leave_it,
        strangers_between_two_remote_ends_get_nothing,
        killed_at_either_end_it_goes_on,
    ];
    all.extend(cases![crate::Need::Root; connections_between_two_remote_ends_are_cut]);
    all
}

/// Two servers with an address each, and how they are reached: as `a` and as `b`.
struct Two {
    // Dropped first, as in the scene.
    b: Sshd,
    scene: Scene,
}

/// The address of each.
const ADDRESS: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

impl Two {
    fn new() -> Self {
        let scene = Scene::new();
        let there = format!("ListenAddress {}", ADDRESS[1]);
        let b = Sshd::start(scene.tag(), &SshdOptions { lines: vec![there], ..SshdOptions::default() });
        let mut config = String::new();
        for (sshd, alias, address) in [(scene.sshd(), "a", ADDRESS[0]), (&b, "b", ADDRESS[1])] {
            let text = fs::read_to_string(sshd.client_config(alias)).unwrap();
            let port = text.lines().find_map(|line| line.trim().strip_prefix("Port ")).unwrap().to_owned();
            config += &text.replace("HostName 127.0.0.1", &format!("HostName {address}"));
            config += &format!("  HostKeyAlias [127.0.0.1]:{port}\n  LogLevel ERROR\n");
        }
        fs::write(scene.join("ssh_config"), config).unwrap();
        Self { b, scene }
    }

    /// `WORD a:SRC/ b:DST/`.
    fn run(&self, word: &str, from: &Path, to: &Path) -> CommandRun {
        let shell = format!("ssh -F {}", self.scene.join("ssh_config").display());
        let at = |host: &str, path: &Path| {
            let mut end = std::ffi::OsString::from(host);
            end.push(slash(path));
            end
        };
        let run = self.scene.haul(word).args(["-e", &shell, "--remote-haul", HAUL, "--json"]);
        run.arg(at("a:", from)).arg(at("b:", to))
    }
}

/// A tree of some fifty megabytes.
fn tree(scene: &Scene) -> TestTree {
    TestTree::mixed(scene.join("src"), 9, &[33 << 20, (9 << 20) + 1], 500)
}

fn notes(run: &Finished) -> String {
    let notes = events(run).into_iter().filter(|event| event["type"] == "note");
    notes.filter_map(|event| event["text"].as_str().map(str::to_owned)).collect::<Vec<_>>().join("\n")
}

/// So many free ports in a row at both addresses, and the listeners that hold them.
fn held(count: u16) -> ([Vec<TcpListener>; 2], u16) {
    'search: loop {
        let first = TcpListener::bind((ADDRESS[0], 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        let mut all = [vec![first], Vec::new()];
        for (at, address) in ADDRESS.iter().enumerate() {
            for more in 0..count {
                if (at, more) == (0, 0) {
                    continue;
                }
                let Some(Ok(held)) = port.checked_add(more).map(|port| TcpListener::bind((*address, port)))
                else {
                    continue 'search;
                };
                all[at].push(held);
            }
        }
        return (all, port);
    }
}

fn content_goes_from_one_remote_end_to_the_other() {
    let two = Two::new();
    let source = tree(&two.scene);
    for (how, word, transport) in [("none", "copy", "tls"), ("zstd", "sync", "tls"), ("auto", "copy", "auto")]
    {
        let copy = two.scene.join(how);
        let words = ["--compress", how, "--transport", transport];
        let again = || two.run(word, source.path(), &copy).args(words).finish();
        let run = again().expect_success();
        assert!(
            notes(&run).contains("content goes from a to b directly, over TLS connections to port"),
            "{run}"
        );
        assert_eq!(notes(&run).lines().count(), 1, "one line says it: {run}");
        let counts = summary(&run);
        counts.assert_accounted();
        // On a busy machine the first content may be relayed, until the two have found each other.
        assert!(counts.of("relayed_bytes") == 0 || transport == "auto", "{run}");
        let (wire, sent) = (counts.of("wire_bytes"), counts.of("sent_bytes"));
        assert!(
            wire > 0 && (transport == "auto" || wire <= sent) && (how != "none" || wire > sent / 2),
            "{how}: {wire} of {sent}"
        );
        assert_same_tree(source.path(), &copy);
        let last = summary(&again().expect_success());
        assert_eq!((last.of("same"), last.of("wire_bytes")), (last.of("found"), 0), "{last:?}");
        two.scene.assert_all_gone();
    }
    assert_eq!((two.scene.sshd().logins(), two.b.logins()), (6, 6), "one login each is enough");
}

fn the_end_of_the_source_connects_where_the_other_cannot() {
    let two = Two::new();
    let source = tree(&two.scene);
    // One port for the local end, one for the other remote end.
    let ([_here, there], port) = held(2);
    drop(there);
    let ports = format!("{port}-{}", port + 1);
    let words = ["--ports", &ports, "--transport", "tls"];
    let run = two.run("copy", source.path(), &two.scene.join("dst")).args(words).finish().expect_success();
    let said = notes(&run);
    assert!(said.contains(&format!("to port {} of b", port + 1)), "{run}");
    assert!(said.contains("a cannot listen: "), "{run}");
    assert_eq!(summary(&run).of("relayed_bytes"), 0, "{run}");
    assert_same_tree(source.path(), &two.scene.join("dst"));
    two.scene.assert_all_gone();
}

fn where_they_cannot_reach_each_other_it_is_relayed() {
    let two = Two::new();
    let source = tree(&two.scene);
    let (_held, port) = held(1);
    for (transport, code) in [("auto", 0), ("ssh", 0), ("tls", 4)] {
        let copy = two.scene.join(transport);
        let words = ["--ports", &port.to_string(), "--bind", "127.0.0.1", "--transport", transport];
        let run = two.run("copy", source.path(), &copy).args(words).finish().expect_code(code);
        let said = notes(&run);
        assert_eq!(said.matches("content from a to b passes through this machine").count(), 1, "{run}");
        let counts = summary(&run);
        if code == 0 {
            assert_eq!(counts.of("relayed_bytes") * 2, counts.of("wire_bytes"), "{run}");
            assert!(counts.of("relayed_bytes") > 0, "{run}");
            assert_same_tree(source.path(), &copy);
        } else {
            assert_eq!(counts.of("sent_bytes"), 0, "{run}");
        }
        two.scene.assert_all_gone();
    }
}

fn a_copy_within_one_machine_does_not_leave_it() {
    let scene = Scene::new();
    let source = tree(&scene);
    let from = scene.remote(slash(source.path()));
    let to = scene.remote(slash(&scene.join("dst")));
    let run = scene.haul_ssh("copy").arg("--json").arg(from).arg(to).finish().expect_success();
    assert!(notes(&run).contains("content stays there"), "{run}");
    let counts = summary(&run);
    counts.assert_accounted();
    assert_eq!((counts.of("wire_bytes"), counts.of("relayed_bytes")), (0, 0), "{run}");
    assert_same_tree(source.path(), &scene.join("dst"));
    scene.assert_all_gone();
}

fn strangers_between_two_remote_ends_get_nothing() {
    let two = Two::new();
    let source = tree(&two.scene);
    let (listeners, port) = held(6);
    drop(listeners);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut strangers = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                for (address, more) in
                    ADDRESS.iter().flat_map(|address| (0..6).map(move |more| (address, more)))
                {
                    if let Ok(mut stranger) = TcpStream::connect((*address, port + more)) {
                        let _ = stranger.write_all(b"GET / HTTP/1.0\r\n\r\n");
                        strangers.push(stranger);
                        strangers.truncate(200);
                    }
                }
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        let ports = format!("{port}-{}", port + 5);
        let words = ["--ports", &ports, "--transport", "tls", "--bwlimit", "30M"];
        let run = two.run("copy", source.path(), &two.scene.join("dst")).args(words).finish();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(summary(&run.expect_success()).of("relayed_bytes"), 0);
    });
    assert_same_tree(source.path(), &two.scene.join("dst"));
    two.scene.assert_all_gone();
}

fn connections_between_two_remote_ends_are_cut() {
    let two = Two::new();
    let source = tree(&two.scene);
    let (listeners, port) = held(6);
    drop(listeners);
    let last = port + 5;
    let range =
        format!("( sport >= :{port} and sport <= :{last} ) or ( dport >= :{port} and dport <= :{last} )");
    let ports = format!("{port}-{last}");
    let words = ["--ports", &ports, "--streams", "4", "--bwlimit", "12M"];
    let run = two.run("copy", source.path(), &two.scene.join("dst")).args(words);
    let (run, cuts) = while_cut(&range, || run.finish());
    summary(&run.expect_success()).assert_accounted();
    assert!(cuts > 0, "nothing was cut");
    assert_same_tree(source.path(), &two.scene.join("dst"));
    two.scene.assert_all_gone();
}

/// Who is killed.
#[derive(Clone, Copy, Debug)]
enum KilledEnd {
    Local,
    Source,
    Destination,
    BothRemote,
}

fn killed_at_either_end_it_goes_on() {
    let two = Two::new();
    let source = tree(&two.scene);
    let len = haul_testkit::tree::content_len(source.path());
    for victim in [KilledEnd::Local, KilledEnd::Source, KilledEnd::Destination, KilledEnd::BothRemote] {
        let copy = two.scene.join("dst");
        let slow = || two.run("copy", source.path(), &copy).args(["--bwlimit", "12M"]);
        let mut run = slow().start();
        run.wait_until("some of it has arrived", || allocated(&copy) > len / 4);
        let mut agents = run.agents();
        assert!(agents.len() >= 2, "{victim:?}: a process at each end: {agents:?}");
        match victim {
            KilledEnd::Local => kill(run.pid()),
            KilledEnd::BothRemote => agents.into_iter().for_each(kill),
            // In the order in which they were started.
            KilledEnd::Source => kill(agents.swap_remove(0)),
            KilledEnd::Destination => kill(agents.swap_remove(1)),
        }
        assert_no_half_files(source.path(), &copy);
        let end = run.finish();
        assert!(end.was_killed() || matches!(end.code(), Some(0 | 4)), "{victim:?}: {end}");
        two.scene.assert_all_gone();
        assert_no_half_files(source.path(), &copy);
        if end.code() != Some(0) {
            let again = summary(&two.run("copy", source.path(), &copy).finish().expect_success());
            let kept = again.of("resumed_bytes") + again.of("same_bytes");
            assert!(kept > 0 || !end.was_killed(), "{victim:?}: {again:?}");
        }
        assert_same_tree(source.path(), &copy);
        fs::remove_dir_all(&copy).unwrap();
        two.scene.assert_all_gone();
    }
}
