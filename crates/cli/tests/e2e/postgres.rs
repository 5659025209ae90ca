//! A PostgreSQL backup as a stream: upload it to an object store, and start a server on the restored files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use haul_testkit::needs::{is_root, postgres_bin, tool};
use haul_testkit::process::{signal, wait_until};
use haul_testkit::store::endpoint;
use haul_testkit::{Need, Proxy, ProxyTrouble, Scratch};

use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Postgres, Need::Program("weed"), Need::Program("rclone");
        a_server_starts_on_a_backup_as_tar_that_went_through_an_object_store,
    ]
}

/// A program of the server's. It does not run as root, for which Debian has a user.
pub(crate) fn program(name: &str) -> Command {
    let path = postgres_bin().expect("it was asked for").join(name);
    if !is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path);
    // It looks at where it is, which it may not.
    command.current_dir("/");
    command
}

/// Gives a directory and all in it to who runs the server.
pub(crate) fn hand_over(path: &Path) {
    if is_root() {
        tool(Command::new("chown").args(["-R", "postgres:postgres"]).arg(path));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
}

/// A server on a socket of its own. Ended in order by [`PostgresServer::stop`], else killed on drop.
struct PostgresServer {
    child: Child,
    // The path of a socket must be short.
    run: Scratch,
}

impl PostgresServer {
    fn start(data: &Path) -> Self {
        let run = Scratch::new();
        fs::set_permissions(run.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let log = fs::File::create(run.join("log")).unwrap();
        let sockets = format!("unix_socket_directories={}", run.path().display());
        let child = program("postgres")
            .arg("-D")
            .arg(data)
            .args(["-c", &sockets, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=32MB"])
            .args(["-c", "max_wal_senders=4"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Self { child, run };
        wait_until("the server answers", Duration::from_secs(60), || {
            let log = || fs::read_to_string(server.run.join("log")).unwrap_or_default();
            assert!(matches!(server.child.try_wait(), Ok(None)), "the server ended: {}", log());
            server.client().args(["-c", "select 1"]).output().is_ok_and(|output| output.status.success())
        });
        server
    }

    fn client(&self) -> Command {
        let mut client = Command::new(postgres_bin().unwrap().join("psql"));
        client.args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h"]);
        client.arg(self.run.path()).stdin(Stdio::null());
        client
    }

    fn query(&self, text: &str) -> String {
        tool(self.client().args(["-c", text]))
    }

    /// A short form of the content of the tables.
    fn checksums(&self) -> String {
        let of = |table: &str| {
            self.query(&format!("select count(*), md5(string_agg(t::text, ',' order by id)) from {table} t"))
        };
        ["huge", "small"].map(of).concat()
    }

    /// Checks each table and index, as pg_amcheck(1) does.
    fn check(&self) {
        let mut check = Command::new(postgres_bin().unwrap().join("pg_amcheck"));
        check.args(["-U", "postgres", "-d", "postgres", "--install-missing", "--heapallindexed", "-h"]);
        tool(check.arg(self.run.path()));
    }

    fn stop(mut self) {
        signal(self.child.id(), rustix::process::Signal::INT);
        wait_until("the server has ended", Duration::from_secs(60), || {
            !matches!(self.child.try_wait(), Ok(None))
        });
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // Its processes end when it does: at once, not in order.
        if matches!(self.child.try_wait(), Ok(None)) {
            signal(self.child.id(), rustix::process::Signal::QUIT);
            let _ = self.child.wait();
        }
    }
}

/// A directory in the scene for a server's data.
fn directory(bucket: &TestBucket, name: &str) -> PathBuf {
    let path = bucket.scene.join(name);
    fs::create_dir(&path).unwrap();
    path
}

fn a_server_starts_on_a_backup_as_tar_that_went_through_an_object_store() {
    let bucket = TestBucket::new();
    let data = directory(&bucket, "data");
    hand_over(&data);
    tool(program("initdb").args(["--no-sync", "-A", "trust", "-U", "postgres", "-D"]).arg(&data));
    let server = PostgresServer::start(&data);
    server.query(
        "create table huge as select g as id, md5(g::text) as digest, repeat(md5((g * 7)::text), 10) as filler \
         from generate_series(1, 100000) g",
    );
    server.query("create table small as select g as id, g::text as name from generate_series(1, 500) g");
    server.query("alter table huge add primary key (id); create index on huge (digest)");
    let before = server.checksums();
    let backup = format!(
        "{} -D - -Ft -X fetch -c fast -U postgres -h {}",
        postgres_bin().unwrap().join("pg_basebackup").display(),
        server.run.path().display(),
    );

    // The producer is killed when 20 MB have passed: there is no object.
    let pid = bucket.scene.join("pid");
    let pid = pid.display();
    let killed = format!(
        "{{ echo $BASHPID >{pid}; exec {backup}; }} | {{ head -c 20000000; kill -9 $(cat {pid}); cat; }}"
    );
    let run = bucket.haul("put").args([&bucket.at("pg.tar"), "--", &killed]).finish().expect_code(1);
    assert!(run.err().contains("it exited with code 137"), "{run}");
    assert!(bucket.names().is_empty() && bucket.incomplete().is_empty());

    // The network is cut once for each part, and it goes on.
    let cut = Proxy::start(endpoint(), |request, before| {
        (request.part().is_some() && before == 0).then_some(ProxyTrouble::CutContent(500_000))
    });
    let run = bucket.through(&cut, "put").args([&bucket.at("pg.tar"), "--", &backup]).finish();
    let run = run.expect_success();
    assert!(cut.count(|request| request.part().is_some()) >= 12, "{run}");
    // From the one program to the other, over ssh.
    let piped = directory(&bucket, "piped");
    let extract = format!("tar -x -C {}", piped.display());
    let pipe =
        bucket.scene.haul_ssh("pipe").args([bucket.scene.sshd().host(), "--into", extract.as_str(), "--"]);
    let _ = pipe.args(["bash", "-c", &backup]).finish().expect_success();
    server.stop();

    let restored = directory(&bucket, "restored");
    let line = format!(
        "set -o pipefail; '{}' get {} | tar -x -C '{}'",
        crate::scene::HAUL,
        bucket.at("pg.tar"),
        restored.display()
    );
    let _ = bucket.program("bash").args(["-c", &line]).finish().expect_success();
    // Unpacked in parallel, it is the same.
    let unpacked = directory(&bucket, "unpacked");
    let run = bucket.haul("get").args([&bucket.at("pg.tar"), "--unpack"]).arg(&unpacked).finish();
    assert!(!run.expect_success().err().contains("had to be read"));
    tool(Command::new("diff").arg("-r").arg(&restored).arg(&unpacked));
    // One file alone, by its path.
    let run = bucket.haul("get").args([&bucket.at("pg.tar"), "--member", "backup_manifest"]).finish();
    assert!(run.expect_success().stdout == fs::read(unpacked.join("backup_manifest")).unwrap());
    for copy in [&unpacked, &piped] {
        tool(Command::new(postgres_bin().unwrap().join("pg_verifybackup")).arg(copy));
        hand_over(copy);
        let server = PostgresServer::start(copy);
        assert_eq!(server.checksums(), before);
        server.check();
        server.stop();
    }
}
