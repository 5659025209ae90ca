//! Direct TLS connections beside ssh.

use std::collections::VecDeque;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_testkit::process::joined;
use haul_testkit::{Finished, SshdOptions, TestTree, assert_same_tree, write_program};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::scene::{HAUL, Scene, Way, events, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        content_goes_around_ssh_by_itself_and_one_login_is_enough,
        ssh_alone_where_that_is_asked_for,
        the_remote_end_connects_to_us_where_we_cannot_connect_to_it,
        without_a_port_it_goes_through_ssh_or_not_at_all,
        strangers_at_the_port_get_nothing_and_stop_nothing,
        strangers_do_not_push_out_who_takes_long_to_prove_himself,
        the_local_end_listens_where_ssh_goes_out,
        a_remote_end_that_sshd_told_nothing_listens_where_ssh_came_to,
        where_it_is_not_known_who_is_reached_nobody_listens,
        words_that_cannot_be_obeyed_are_refused,
        only_the_requested_version_of_ip_is_used,
        the_next_run_knows_the_rate_of_the_connections,
    ];
    all.extend(cases![crate::Need::Root; connections_that_are_cut_again_and_again]);
    all
}

const BOTH: [Way; 2] = [Way::Push, Way::Pull];

/// A tree of some fifty megabytes.
fn tree(scene: &Scene) -> TestTree {
    TestTree::mixed(scene.join("src"), 9, &[33 << 20, (9 << 20) + 1], 500)
}

/// The sentences of a run.
fn notes(run: &Finished) -> String {
    let notes = events(run).into_iter().filter(|event| event["type"] == "note");
    notes.filter_map(|event| event["text"].as_str().map(str::to_owned)).collect::<Vec<_>>().join("\n")
}

/// A free port that stays free of others while the returned listener lives.
fn held() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    (listener, port)
}

/// Does it while the TCP connections that `ss` finds by `filter` are cut again and again, up to four times. Gives how
/// often there were any.
pub(crate) fn while_cut<T>(filter: &str, work: impl FnOnce() -> T) -> (T, u32) {
    let words: Vec<&str> = ["-K", "-H", "-t"].into_iter().chain(filter.split(' ')).collect();
    let cut = || Command::new("ss").args(&words).output().is_ok_and(|out| !out.stdout.is_empty());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cutter = scope.spawn(|| {
            let mut cuts = 0;
            while !stop.load(Ordering::Relaxed) && cuts < 4 {
                std::thread::sleep(Duration::from_millis(700));
                cuts += u32::from(cut());
            }
            cuts
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        (done, cutter.join().unwrap())
    })
}

/// A port that nobody has for the moment.
fn free() -> String {
    held().1
}

fn content_goes_around_ssh_by_itself_and_one_login_is_enough() {
    for way in BOTH {
        let scene = Scene::new();
        let source = tree(&scene);
        let port = free();
        let words = ["--ports", &port, "--streams", "6"];
        let run = scene.copy(way, source.path(), &scene.join("dst")).args(words).finish().expect_success();
        summary(&run).assert_accounted();
        assert!(notes(&run).contains(&format!("over TLS connections to port {port} of")), "{way:?}: {run}");
        assert_same_tree(source.path(), &scene.join("dst"));
        assert_eq!(scene.sshd().logins(), 1, "{way:?}");
        scene.assert_all_gone();
    }
}

fn the_next_run_knows_the_rate_of_the_connections() {
    let scene = Scene::new();
    // Some 40 MB/s for three seconds.
    let program = "for i in $(seq 30); do head -c 4194304 /dev/urandom; sleep 0.1; done";
    let run = scene.haul_ssh("put").args(["--transport", "tls"]).arg(scene.remote(scene.join("stream")));
    let _ = run.args(["--", "sh", "-c", program]).finish().expect_success();
    let hosts: Vec<_> = fs::read_dir(scene.home().join("state/haul/hosts")).unwrap().collect();
    assert_eq!(hosts.len(), 1);
    let rate = |name: &str| {
        let line = fs::read_to_string(hosts[0].as_ref().unwrap().path()).unwrap();
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let value = words.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| pair[1].parse::<u64>());
        value.map(|value| value.unwrap())
    };
    let is_likely = |rate: Option<u64>| (1_000_000..1_000_000_000).contains(&rate.unwrap_or(0));
    assert!(is_likely(rate("bytes-per-second")), "{:?}", rate("bytes-per-second"));
    assert_eq!(rate("bytes-per-second-received"), None);
    let run = scene.haul_ssh("pipe").args(["--transport", "tls", "--from", scene.sshd().host(), program]);
    let _ = run.args(["--into", "cat > /dev/null"]).finish().expect_success();
    assert!(is_likely(rate("bytes-per-second-received")), "{:?}", rate("bytes-per-second-received"));
    assert!(is_likely(rate("bytes-per-second")), "{:?}", rate("bytes-per-second"));
}

fn ssh_alone_where_that_is_asked_for() {
    let scene = Scene::new();
    let source = tree(&scene);
    let run = scene.copy(Way::Push, source.path(), &scene.join("dst")).args(["--transport", "ssh"]).finish();
    assert_eq!(notes(&run.expect_success()), "");
    assert_same_tree(source.path(), &scene.join("dst"));
}

fn the_remote_end_connects_to_us_where_we_cannot_connect_to_it() {
    for way in BOTH {
        let scene = Scene::new();
        let source = tree(&scene);
        // Nobody can listen there on the one port that may be used; here there is another address.
        let (_taken, port) = held();
        let words = ["--ports", &port, "--bind", "127.0.0.2", "--transport", "tls", "--streams", "5"];
        let run = scene.copy(way, source.path(), &scene.join("dst")).args(words).finish().expect_success();
        assert!(notes(&run).contains(&format!("to our port {port}")), "{way:?}: {run}");
        assert_same_tree(source.path(), &scene.join("dst"));
        scene.assert_all_gone();
    }
}

fn without_a_port_it_goes_through_ssh_or_not_at_all() {
    let scene = Scene::new();
    let source = tree(&scene);
    let (_taken, port) = held();
    let run = |how: &str, to: &str| {
        let words = ["--ports", &port, "--bind", "127.0.0.1", "--transport", how];
        scene.copy(Way::Push, source.path(), &scene.join(to)).args(words).finish()
    };
    let through = run("auto", "dst").expect_success();
    let said = notes(&through);
    let plain = |line: &str| {
        line.starts_with("content goes through ssh: no direct connection to") && !line.contains('(')
    };
    assert!(said.lines().any(plain) && said.contains("cannot listen: "), "{through}");
    assert_same_tree(source.path(), &scene.join("dst"));
    let none = run("tls", "none").expect_code(4);
    assert!(none.out().contains("--transport tls"), "the way out is told: {none}");
    assert_eq!(summary(&none).of("sent_bytes"), 0);
}

fn strangers_at_the_port_get_nothing_and_stop_nothing() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 9, &[60 << 20], 500);
    let port = free();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut strangers = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                if let Ok(mut stranger) = TcpStream::connect(format!("127.0.0.1:{port}")) {
                    let _ = stranger.write_all(b"GET / HTTP/1.0\r\n\r\n");
                    strangers.push(stranger);
                    strangers.truncate(200);
                }
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        let words = ["--ports", &port, "--transport", "tls", "--bwlimit", "30M"];
        let run = scene.copy(Way::Push, source.path(), &scene.join("dst")).args(words).finish();
        stop.store(true, Ordering::Relaxed);
        summary(&run.expect_success()).assert_accounted();
    });
    assert_same_tree(source.path(), &scene.join("dst"));
    scene.assert_all_gone();
}

/// Connects from 200 addresses in turn, some 2,000 times a second, and keeps the newest.
fn flood(to: SocketAddrV4, stop: &AtomicBool) {
    let mut strangers = VecDeque::new();
    for number in (0..10).cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        for more in 0..20 {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
            let from = Ipv4Addr::new(127, 0, 1, number * 20 + more + 1);
            let _ = bind(&socket, &SocketAddrV4::new(from, 0));
            let _ = connect(&socket, &to);
            strangers.push_back(socket);
        }
        strangers.drain(..strangers.len().saturating_sub(300));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Relays connections to another address until `stop`. The first two blocks each way take 60 ms more: proofs of
/// identity come late, and content does not.
fn relay(from: &TcpListener, to: SocketAddrV4, stop: &AtomicBool) {
    from.set_nonblocking(true).unwrap();
    let pump = |mut from: TcpStream, mut to: TcpStream| {
        std::thread::spawn(move || {
            let mut block = [0; 64 * 1024];
            for number in 0.. {
                let Ok(len @ 1..) = from.read(&mut block) else { break };
                if number < 2 {
                    std::thread::sleep(Duration::from_millis(60));
                }
                if to.write_all(&block[..len]).is_err() {
                    break;
                }
            }
            let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
        })
    };
    let mut pumps = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let Ok((here, _)) = from.accept() else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let Ok(there) = TcpStream::connect(to) else { continue };
        here.set_nonblocking(false).unwrap();
        pumps.push(pump(here.try_clone().unwrap(), there.try_clone().unwrap()));
        pumps.push(pump(there, here));
    }
    pumps.into_iter().for_each(|pump| pump.join().unwrap());
}

/// A way that takes as long as one over a distance: the remote end connects back through a relay, which is where it
/// takes ssh to have come from.
fn strangers_do_not_push_out_who_takes_long_to_prove_himself() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 9, &[9 << 20], 100);
    // The remote end cannot listen.
    let taken = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let program = format!("env 'SSH_CONNECTION=127.0.0.3 1 127.0.0.2 22' {HAUL}");
    let gate = TcpListener::bind(("127.0.0.3", port)).unwrap();
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| flood(to, &stop));
        scope.spawn(|| relay(&gate, to, &stop));
        let words = ["--remote-haul", &program, "--ports", &port.to_string(), "--transport", "tls"];
        let run = || scene.copy(Way::Push, source.path(), &scene.join("dst")).args(words).finish();
        // A way is looked for during a second. On a busy machine that may be too short.
        let mut last = run();
        for _ in 0..2 {
            if last.code() == Some(4) {
                last = run();
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(notes(&last.expect_success()).contains(&format!("to our port {port}")));
    });
    assert_same_tree(source.path(), &scene.join("dst"));
    scene.assert_all_gone();
}

/// A tree of some ten megabytes.
fn small_tree(scene: &Scene) -> TestTree {
    TestTree::mixed(scene.join("src"), 9, &[9 << 20], 50)
}

fn the_local_end_listens_where_ssh_goes_out() {
    let lines = vec!["ListenAddress 127.0.0.2".to_owned()];
    let scene = Scene::with_sshd(SshdOptions { lines, ..SshdOptions::default() });
    let source = small_tree(&scene);
    // The remote end cannot listen where it was reached, and nobody can listen on all addresses.
    let taken = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let alias = format!("{} -o HostKeyAlias=[127.0.0.1]:{}", scene.sshd().shell(), scene.sshd().port());
    let run = scene.haul("copy").args(["-e", &alias, "--remote-haul", HAUL, "--json"]);
    let run = run.args(["--ports", &port, "--transport", "tls"]).arg(slash(source.path()));
    let run =
        run.arg(joined(&[b"127.0.0.2:", slash(&scene.join("dst")).as_bytes()])).finish().expect_success();
    assert!(notes(&run).contains(&format!("to our port {port}")), "{run}");
    assert_same_tree(source.path(), &scene.join("dst"));
    scene.assert_all_gone();
}

fn a_remote_end_that_sshd_told_nothing_listens_where_ssh_came_to() {
    let scene = Scene::new();
    let source = small_tree(&scene);
    // Nobody can listen on all addresses.
    let taken = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    // As under sudo.
    let program = format!("env -u SSH_CONNECTION {HAUL}");
    let words = ["--remote-haul", &program, "--ports", &port, "--transport", "tls"];
    let run = scene.copy(Way::Push, source.path(), &scene.join("dst")).args(words).finish().expect_success();
    assert!(notes(&run).contains(&format!("over TLS connections to port {port} of")), "{run}");
    assert_same_tree(source.path(), &scene.join("dst"));
    scene.assert_all_gone();
}

fn where_it_is_not_known_who_is_reached_nobody_listens() {
    let scene = Scene::new();
    let source = small_tree(&scene);
    let program = format!("env -u SSH_CONNECTION {HAUL}");
    // Another machine carries ssh, so that this end does not know the addresses either.
    let config = scene.sshd().client_config("gate");
    let text = fs::read_to_string(&config).unwrap();
    let jump = scene.join("jump");
    fs::write(&jump, text.replace("Host gate", "Host jump")).unwrap();
    fs::write(&config, format!("{text}  ProxyCommand ssh -F {} -W %h:%p jump\n", jump.display())).unwrap();
    for (how, code) in [("auto", 0), ("tls", 4)] {
        let run = scene.haul("copy").args(["-e", &format!("ssh -F {}", config.display()), "--json"]);
        let run = run.args(["--remote-haul", &program, "--transport", how]).arg(slash(source.path()));
        let run =
            run.arg(joined(&[b"gate:", slash(&scene.join("dst")).as_bytes()])).finish().expect_code(code);
        let said = if code == 0 { notes(&run) } else { run.out().clone() };
        assert!(said.contains("it is not known which of its addresses ssh came to"), "{run}");
        assert!(said.contains("which address ssh goes out from is not known"), "{run}");
    }
    assert_same_tree(source.path(), &scene.join("dst"));
    scene.assert_all_gone();
}

fn connections_that_are_cut_again_and_again() {
    for way in BOTH {
        let scene = Scene::new();
        let source = tree(&scene);
        let port = free();
        let words = ["--ports", &port, "--streams", "4", "--bwlimit", "12M"];
        let run = scene.copy(way, source.path(), &scene.join("dst")).args(words);
        let (run, cuts) = while_cut(&format!("dport = :{port} or sport = :{port}"), || run.finish());
        summary(&run.expect_success()).assert_accounted();
        assert!(cuts > 0, "{way:?}: nothing was cut");
        assert_same_tree(source.path(), &scene.join("dst"));
        scene.assert_all_gone();
    }
}

fn only_the_requested_version_of_ip_is_used() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("f", 5 << 20);
    // An ssh that notes its words. haul knows it by its name.
    let (ssh, log) = (scene.join("ssh"), scene.join("log"));
    write_program(&ssh, format!("#!/bin/sh\necho \"$*\" >>{}\nexec /usr/bin/ssh \"$@\"\n", log.display()));
    let shell = scene.sshd().shell().replacen("ssh", &ssh.display().to_string(), 1);
    let run = |words: &[&str]| {
        let run = scene.haul("copy").args(["--json", "-e", &shell, "--remote-haul", HAUL]).args(words);
        run.arg(slash(source.path())).arg(scene.remote(slash(&scene.join("dst")))).finish()
    };
    let four = run(&["-6", "-4", "--transport", "tls"]).expect_success();
    assert!(notes(&four).contains("over TLS"), "{four}");
    let said = fs::read_to_string(&log).unwrap();
    let logins: Vec<&str> = said.lines().filter(|line| line.contains(" agent")).collect();
    assert!(!logins.is_empty() && logins.iter().all(|line| line.contains(" -4 ")), "{said}");
    assert!(!said.contains(" -6 "), "the last of the two counts: {said}");
    // The host is an IPv4 address: neither ssh nor a store is reached over IPv6.
    let six = run(&["--ipv6"]).expect_code(4);
    assert!(fs::read_to_string(&log).unwrap().contains(" -6 "), "{six}");
    let (store, port) = held();
    store.set_nonblocking(true).unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let words = ["-6", "--no-sign-request", "--store-timeout=2s", "--endpoint", &url, "s3://bucket/"];
    let _ = scene.haul("copy").args(words).arg(scene.join("none/")).finish().expect_code(4);
    assert!(store.accept().is_err(), "somebody has connected");
    let refused = run(&["-6", "--bind", "127.0.0.1"]).expect_code(2);
    assert!(refused.said().contains("--bind"), "{refused}");
}

fn words_that_cannot_be_obeyed_are_refused() {
    let scene = Scene::new();
    let source = tree(&scene);
    for words in [["--ports", "9-1"], ["--transport", "pigeon"], ["--bind", "here"], ["--congestion", "none"]]
    {
        let run =
            scene.copy(Way::Push, source.path(), &scene.join("dst")).args(words).finish().expect_code(2);
        assert!(run.err().contains(words[1]), "{words:?}: {run}");
    }
    assert!(!scene.join("dst").exists());
}
