//! A database backup as a stream: upload it to an object store, and start a server on the restored files.

use std::fs;
use std::process::{Command, Stdio};

use haul_testkit::needs::tool;
use haul_testkit::store::endpoint;
use haul_testkit::{Need, Proxy, ProxyTrouble};

use crate::databases::{MariaDbServer, Tables, checksums, fill};
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Program("mariadbd"), Need::Program("mariadb-install-db"), Need::Program("mariadb-backup"),
        Need::Program("weed"), Need::Program("rclone");
        a_server_starts_on_a_backup_that_went_through_an_object_store,
    ]
}

const TABLES: &Tables = &[("middle", 30_000), ("small", 500)];

fn a_server_starts_on_a_backup_that_went_through_an_object_store() {
    let bucket = TestBucket::new();
    let data = bucket.scene.join("mysql");
    let before = fill(&data, TABLES);
    let server = MariaDbServer::start(&data);
    // The backup asks for its rights, of a server that was started without looking at rights.
    server.query("flush privileges");
    let target = bucket.scene.join("target");
    let backup = format!(
        "mariadb-backup --no-defaults --backup --stream=xbstream --user=root --socket={} --datadir={} --target-dir={}",
        server.socket.display(),
        data.display(),
        target.display(),
    );
    // The producer is killed when 20 MB have passed: there is no object.
    let pid = bucket.scene.join("pid");
    let pid = pid.display();
    let killed = format!(
        "{{ echo $BASHPID >{pid}; exec {backup}; }} | {{ head -c 20000000; kill -9 $(cat {pid}); cat; }}"
    );
    let run = bucket.haul("put").args([&bucket.at("db.xb"), "--", &killed]).finish().expect_code(1);
    assert!(run.err().contains("it exited with code 137"), "{run}");
    assert!(bucket.names().is_empty() && bucket.incomplete().is_empty());

    // The network is cut once for each part, and it goes on.
    let cut = Proxy::start(endpoint(), |request, before| {
        (request.part().is_some() && before == 0).then_some(ProxyTrouble::CutContent(500_000))
    });
    let run =
        bucket.through(&cut, "put").args([&bucket.at("db.xb"), "--", &backup]).finish().expect_success();
    assert!(cut.count(|request| request.part().is_some()) >= 6, "{run}");
    server.stop();

    let restored = bucket.scene.join("restored");
    fs::create_dir(&restored).unwrap();
    let stream = bucket.scene.join("stream");
    let run = bucket.haul("get").arg(bucket.at("db.xb")).finish().expect_success();
    fs::write(&stream, run.stdout).unwrap();
    let extract = Command::new("mbstream")
        .args(["-x", "-C"])
        .arg(&restored)
        .stdin(fs::File::open(&stream).unwrap())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(extract.success());
    let directory = format!("--target-dir={}", restored.display());
    tool(Command::new("mariadb-backup").args(["--no-defaults", "--prepare", &directory]));
    let server = MariaDbServer::start(&restored);
    assert_eq!(checksums(&server, TABLES), before);
    server.stop();
}
