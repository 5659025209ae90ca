//! The main use: a database directory over ssh, killed in the middle, and a server started on the copy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::process::{kill, signal, wait_until};
use haul_testkit::tree::allocated;
use haul_testkit::{FaultPlan, Need, Scratch, assert_same_tree};

use crate::kills::durable;
use crate::scene::{Scene, Way, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Program("mariadbd"), Need::Program("mariadb-install-db");
        a_server_starts_on_a_copy_of_its_data_that_was_killed_and_finished,
    ]
}

/// A MariaDB server on a socket of its own. Ended in order by [`MariaDbServer::stop`], else killed on drop.
pub(crate) struct MariaDbServer {
    child: Child,
    pub(crate) socket: PathBuf,
    // The path of a socket must be short.
    run: Scratch,
}

impl MariaDbServer {
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    /// With further options.
    pub(crate) fn start_with(data: &Path, options: &[&str]) -> Self {
        let run = Scratch::new();
        let socket = run.join("s");
        let path = |option: &str, path: &Path| format!("--{option}={}", path.display());
        let log = fs::File::create(run.join("log")).unwrap();
        let child = Command::new(program("mariadbd"))
            .arg("--no-defaults")
            .arg(path("datadir", data))
            .arg(path("socket", &socket))
            .arg(path("pid-file", &run.join("pid")))
            // A server that starts removes the temporary tables of others.
            .arg(path("tmpdir", run.path()))
            .args([
                "--skip-networking",
                "--skip-grant-tables",
                "--user=root",
                "--innodb-buffer-pool-size=96M",
            ])
            .args(["--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--innodb-log-file-size=32M"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Self { child, socket, run };
        wait_until("the server answers", Duration::from_secs(60), || {
            let log = || fs::read_to_string(server.run.join("log")).unwrap_or_default();
            assert!(matches!(server.child.try_wait(), Ok(None)), "the server ended: {}", log());
            server.client().arg("-e").arg("select 1").output().is_ok_and(|output| output.status.success())
        });
        server
    }

    fn client(&self) -> Command {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "-N", "-B", "--socket"]).arg(&self.socket).stdin(Stdio::null());
        client
    }

    pub(crate) fn query(&self, text: &str) -> String {
        tool(self.client().arg("-e").arg(text))
    }

    /// Ends it in order, so that its files are whole.
    pub(crate) fn stop(mut self) {
        signal(self.child.id(), rustix::process::Signal::TERM);
        wait_until("the server has ended", Duration::from_secs(120), || {
            !matches!(self.child.try_wait(), Ok(None))
        });
    }
}

impl Drop for MariaDbServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(name: &str) -> PathBuf {
    let sbin = Path::new("/usr/sbin").join(name);
    if sbin.exists() { sbin } else { PathBuf::from(name) }
}

/// Tables and their rows.
pub(crate) type Tables = [(&'static str, u32)];

const TABLES: &Tables = &[("huge", 260_000), ("middle", 60_000), ("small", 2_000), ("tiny", 3)];

/// Makes an empty data directory.
pub(crate) fn install(data: &Path) {
    let temporary = Scratch::new();
    let installed = Command::new("mariadb-install-db")
        .env("TMPDIR", temporary.path())
        .args(["--no-defaults", "--user=root", "--skip-test-db", "--auth-root-authentication-method=normal"])
        .arg(format!("--datadir={}", data.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    fs::set_permissions(data, fs::Permissions::from_mode(0o700)).unwrap();
}

/// Makes a data directory and tells the checksums of its tables: with [`TABLES`], of some 250 MB.
pub(crate) fn fill(data: &Path, tables: &Tables) -> String {
    install(data);
    let server = MariaDbServer::start(data);
    server.query("create database shop");
    for (table, rows) in tables {
        server.query(&format!(
            "use shop; create table {table} (id int primary key, digest char(64), filler varchar(800), key (digest)) \
             engine=InnoDB; \
             insert into {table} select seq, sha2(seq, 256), repeat(md5(seq * 7), 22) from seq_1_to_{rows}"
        ));
    }
    let checksums = checksums(&server, tables);
    server.stop();
    checksums
}

pub(crate) fn checksums(server: &MariaDbServer, tables: &Tables) -> String {
    let names: Vec<String> = tables.iter().map(|(table, _)| format!("shop.{table}")).collect();
    let text = server.query(&format!("checksum table {} extended", names.join(", ")));
    assert_eq!(text.lines().count(), tables.len());
    assert!(!text.contains("NULL"), "{text}");
    text
}

fn a_server_starts_on_a_copy_of_its_data_that_was_killed_and_finished() {
    let scene = Scene::new();
    let data = scene.join("mysql");
    let before = fill(&data, TABLES);
    let copy = scene.join("restored");
    // Over the real server, held back so that the kill lands in the middle.
    let plan = FaultPlan::new(scene.join("plan")).slow(25_000_000).through(scene.sshd().shell());
    let mut run = scene
        .fault_copy(Way::Pull, &plan, &data, &copy)
        .args(["--streams", "4", "--transport", "ssh", "--compress", "none"])
        .start();
    // Small files come first: half of all bytes can be there before the large table has begun.
    run.wait_until("half of it has arrived", || allocated(&copy) > 120_000_000 && durable(&copy) > 16 << 20);
    kill(run.pid());
    assert!(run.finish().was_killed());
    scene.assert_all_gone();

    let again = summary(&scene.copy(Way::Pull, &data, &copy).finish().expect_success());
    again.assert_accounted();
    assert!(again.of("resumed_bytes") > 0, "it went on where it was: {again:?}");
    let _ = scene
        .by(Way::Pull, "verify", crate::scene::slash(&data), crate::scene::slash(&copy))
        .finish()
        .expect_success();
    assert_same_tree(&data, &copy);

    let restored = MariaDbServer::start(&copy);
    assert_eq!(checksums(&restored, TABLES), before);
    for (table, _) in TABLES {
        let said = restored.query(&format!("check table shop.{table} extended"));
        assert!(said.trim_end().ends_with("OK"), "{said}");
    }
    restored.stop();
}
