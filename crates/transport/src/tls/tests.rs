//! Connections to other implementations: rustls as its authors use it, and OpenSSL.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::ops::DerefMut;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, DigitallySignedStruct, ServerConfig, ServerConnection,
    SideData, SignatureScheme, StreamOwned,
};

use super::*;
use crate::identity::KeyPair;
use crate::secure::handshake;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Digits, since OpenSSL takes letters for commands.
fn content(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| b'0' + ((i * i / 7 + i + seed) % 10) as u8).collect()
}

fn liveness() -> Liveness {
    let liveness = Liveness::default();
    liveness.end_after(Some(TIMEOUT));
    liveness
}

fn read_exactly(reader: &mut SecureReader, len: usize) -> Vec<u8> {
    let liveness = liveness();
    let mut content = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match reader.read(&mut content[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(reader.as_fd(), PollFlags::IN, &liveness).unwrap();
            }
            Err(error) => panic!("after {filled} bytes: {error}"),
        }
    }
    content.truncate(filled);
    content
}

fn send(writer: &mut SecureWriter, content: &[u8]) {
    writer.write(content, &liveness()).unwrap();
    writer.flush(&liveness()).unwrap();
}

fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn connected(session: TlsSession, socket: TcpStream) -> (SecureReader, SecureWriter) {
    handshake(&socket, session, TIMEOUT).unwrap().split(socket).unwrap()
}

/// The other end, with rustls: sends `content`, updates both keys, sends it again, and reads as much.
fn converse<C, S>(mut stream: StreamOwned<C, TcpStream>, content: &[u8]) -> Vec<u8>
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    stream.sock.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(content).unwrap();
    stream.conn.refresh_traffic_keys().unwrap();
    stream.write_all(content).unwrap();
    stream.flush().unwrap();
    let mut got = vec![0; 2 * content.len()];
    stream.read_exact(&mut got).unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the other end says that it ends");
    got
}

/// Our end of such a conversation. The key is updated all the time.
fn answer((mut reader, mut writer): (SecureReader, SecureWriter), content: &[u8]) -> Vec<u8> {
    writer.limit(5);
    thread::scope(|scope| {
        scope.spawn(move || {
            send(&mut writer, &content[..10]);
            // By now the other end has asked for another key, or does so later.
            send(&mut writer, &content[10..]);
            send(&mut writer, content);
            writer.close();
        });
        let got = read_exactly(&mut reader, 2 * content.len());
        assert_eq!(read_exactly(&mut reader, 1), b"", "the end of the other direction");
        got
    })
}

#[test]
fn rustls_at_the_other_end() {
    let (here, there) = (content(600_000, 1), content(600_000, 2));
    let (own, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    for connecting in [true, false] {
        let (near, far) = sockets();
        let (from_here, from_there) = thread::scope(|scope| {
            let far = scope.spawn(|| {
                if connecting {
                    let config = Arc::new(other.server_config(own.public_key()).unwrap());
                    converse(StreamOwned::new(ServerConnection::new(config).unwrap(), far), &there)
                } else {
                    let config = Arc::new(other.client_config(own.public_key()).unwrap());
                    let name = ServerName::try_from("haul").unwrap();
                    converse(StreamOwned::new(ClientConnection::new(config, name).unwrap(), far), &there)
                }
            });
            let session = if connecting {
                TlsSession::Client(own.client(other.public_key()).unwrap())
            } else {
                TlsSession::Server(own.server(other.public_key()).unwrap())
            };
            let got = answer(connected(session, near), &here);
            (far.join().unwrap(), got)
        });
        assert!(from_here == [&here[..], &here[..]].concat());
        assert!(from_there == [&there[..], &there[..]].concat());
    }
}

/// Accepts the certificate of a test.
#[derive(Debug)]
struct Any(CryptoProvider);

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

/// A process of OpenSSL at the other end of a connection.
struct OpenSsl {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl OpenSsl {
    fn start(dir: &Path, args: &[&str]) -> Self {
        let mut process = Command::new("openssl")
            .args(args)
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the test needs openssl(1)");
        let (input, output) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Self { process, input, output }
    }

    /// The port on which it listens.
    fn port(&mut self) -> u16 {
        let mut line = String::new();
        while self.output.read_line(&mut line).unwrap() > 0 {
            if let Some(address) = line.strip_prefix("ACCEPT ") {
                return address.trim().rsplit(':').next().unwrap().parse().unwrap();
            }
            line.clear();
        }
        panic!("openssl ended");
    }

    /// Sends content, or a command, and waits until it is read.
    fn say(&mut self, content: &[u8]) {
        self.input.write_all(content).unwrap();
        while rustix::io::ioctl_fionread(&self.input).unwrap() > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until it shows this received content, between messages of its own.
    fn shows(&mut self, content: &[u8]) {
        let mut shown = Vec::new();
        while !shown.windows(content.len()).any(|part| part == content) {
            let more = self.output.fill_buf().unwrap();
            assert!(!more.is_empty(), "openssl ended before it got everything");
            shown.extend_from_slice(more);
            let len = more.len();
            self.output.consume(len);
        }
    }
}

/// Content both ways, and new keys from each end.
fn talk((mut reader, mut writer): (SecureReader, SecureWriter), openssl: &mut OpenSsl) {
    let (long, short) = (content(100_000, 3), content(500, 4));
    send(&mut writer, &short);
    openssl.shows(&short);
    openssl.say(&long);
    assert!(read_exactly(&mut reader, long.len()) == long);
    // OpenSSL updates its key, then asks for ours too.
    for command in [b"k\n", b"K\n"] {
        openssl.say(command);
        openssl.say(&long);
        assert!(read_exactly(&mut reader, long.len()) == long);
        send(&mut writer, &short);
        openssl.shows(&short);
    }
    // And ours changes by itself.
    writer.limit(2);
    for seed in 0..4 {
        let short = content(500, seed);
        send(&mut writer, &short);
        openssl.shows(&short);
    }
    writer.close();
    // OpenSSL ends with our end.
    assert_eq!(read_exactly(&mut reader, 1), b"");
}

#[test]
fn openssl_at_the_other_end() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=haul", "-keyout", "key", "-out",
            "cert",
        ])
        .current_dir(dir.path())
        .output()
        .expect("the test needs openssl(1)");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let suites = [
        (cipher_suite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256"),
        (cipher_suite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384"),
        (cipher_suite::TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256"),
    ];
    for (suite, name) in suites {
        let provider = CryptoProvider { cipher_suites: vec![suite], ..default_provider() };
        let args = ["s_server", "-accept", "127.0.0.1:0", "-naccept", "1", "-cert", "cert", "-key", "key"];
        let mut server = OpenSsl::start(dir.path(), &[&args[..], &["-ciphersuites", name]].concat());
        let socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider.clone()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Any(provider.clone())))
            .with_no_client_auth();
        config.enable_secret_extraction = true;
        let session =
            UnbufferedClientConnection::new(Arc::new(config), ServerName::try_from("haul").unwrap()).unwrap();
        talk(connected(TlsSession::Client(session), socket), &mut server);

        let certificate = CertificateDer::from_pem_file(dir.path().join("cert")).unwrap();
        let key = PrivateKeyDer::from_pem_file(dir.path().join("key")).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.enable_secret_extraction = true;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut client = OpenSsl::start(dir.path(), &["s_client", "-connect", &address]);
        let socket = listener.accept().unwrap().0;
        let session = UnbufferedServerConnection::new(Arc::new(config)).unwrap();
        talk(connected(TlsSession::Server(session), socket), &mut client);
    }
}
