//! Two ends that know each other's keys, and strangers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use haul_transport::{
    ConnectionKeys, FrameReader, FrameWriter, KeyPair, LinkError, Listener, Liveness, Ports, Streams, tcp,
};
use haul_wire::{FrameKind, encode, encode_ping};

const TIMEOUT: Duration = Duration::from_secs(10);
const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

struct DirectEnd {
    listener: Listener,
    connections: Receiver<Streams>,
    /// The credentials of the other end.
    other: ConnectionKeys,
}

fn end() -> DirectEnd {
    end_for(&[])
}

/// An end that expects the other one from these addresses.
fn end_for(expected: &[IpAddr]) -> DirectEnd {
    let (a, b) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let credentials = |identity: &KeyPair, peer: &KeyPair| ConnectionKeys {
        identity: identity.clone(),
        peer: peer.public_key().clone(),
        congestion: None,
    };
    let (sender, connections) = channel();
    let sender = std::sync::Mutex::new(sender);
    let taken = Box::new(move |streams| sender.lock().unwrap().send(streams).unwrap());
    let listener = Listener::open(HERE, None, expected, credentials(&a, &b), taken).unwrap();
    DirectEnd { listener, connections, other: credentials(&b, &a) }
}

impl DirectEnd {
    fn address(&self) -> SocketAddr {
        SocketAddr::new(HERE, self.listener.port())
    }

    fn connect(&self) -> Streams {
        let socket = tcp::connect_any(&[self.address()], None, TIMEOUT).unwrap();
        self.other.connect(socket, TIMEOUT).unwrap()
    }

    fn pair(&self) -> (Streams, Streams) {
        let local = self.connect();
        (local, self.connections.recv_timeout(TIMEOUT).expect("the listener hands over who proved to be it"))
    }
}

fn reader(streams: Streams) -> (FrameReader, FrameWriter) {
    let liveness = Arc::new(Liveness::default());
    liveness.end_after(Some(Duration::from_secs(60)));
    (FrameReader::new(streams.from, liveness.clone()), FrameWriter::new(streams.to, liveness))
}

/// Sends frames of these sizes, and a ping after each.
fn send(writer: &mut FrameWriter, sizes: &[usize]) {
    for (at, size) in sizes.iter().enumerate() {
        let payload: Vec<u8> = (0..*size).map(|i| (i * 7 + at) as u8).collect();
        let head = encode(FrameKind::Request, at as u64, &"head".to_owned(), *size).unwrap();
        writer.write(&head, &payload).unwrap();
        writer.write(&encode_ping(), &[]).unwrap();
    }
}

fn check(reader: &mut FrameReader, sizes: &[usize]) {
    let pool = haul_core::BufferPool::new(0);
    for (at, size) in sizes.iter().enumerate() {
        let (header, _) = reader.head().unwrap();
        assert_eq!((header.id, header.payload_len as usize), (at as u64, *size));
        let mut content = pool.take();
        reader.content(content.grow(header.payload_len as usize).unwrap()).unwrap();
        assert!(content.bytes().iter().enumerate().all(|(i, b)| *b == (i * 7 + at) as u8));
        assert_eq!(reader.head().unwrap().0.kind, FrameKind::Ping);
    }
}

#[test]
fn frames_of_any_size_go_both_ways_at_once() {
    let sizes = [0, 1, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 256 * 1024, 1_000_003, 4 * 1024 * 1024];
    let end = end();
    let (local, remote) = end.pair();
    let ((mut local_in, mut local_out), (mut remote_in, mut remote_out)) = (reader(local), reader(remote));
    thread::scope(|scope| {
        scope.spawn(|| send(&mut local_out, &sizes));
        scope.spawn(|| send(&mut remote_out, &sizes));
        scope.spawn(|| check(&mut local_in, &sizes));
        check(&mut remote_in, &sizes);
    });
    local_out.close();
    assert!(matches!(remote_in.head(), Err(LinkError::Closed)), "an end that was said is no error");
}

#[test]
fn content_sent_together_with_the_handshake_arrives() {
    let end = end();
    for _ in 0..50 {
        // At once, so that it comes in one packet with the end of the handshake.
        let (_from, mut to) = reader(end.connect());
        send(&mut to, &[100]);
        let (mut remote_in, _to) = reader(end.connections.recv_timeout(TIMEOUT).unwrap());
        check(&mut remote_in, &[100]);
    }
}

#[test]
fn a_stranger_gets_nothing_and_stops_nothing() {
    let end = end();
    // Says nothing, in numbers; says something else; has another key; expects another one.
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(end.address()).unwrap()).collect();
    let mut rude = TcpStream::connect(end.address()).unwrap();
    rude.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let stranger = KeyPair::generate().unwrap();
    for wrong in [
        ConnectionKeys { identity: stranger.clone(), ..end.other.clone() },
        ConnectionKeys { peer: stranger.public_key().clone(), ..end.other.clone() },
    ] {
        let socket = tcp::connect_any(&[end.address()], None, TIMEOUT).unwrap();
        // A client can finish before the server has looked at its key. The connection must then carry nothing.
        if let Ok(streams) = wrong.connect(socket, TIMEOUT) {
            let (mut from, mut to) = reader(streams);
            let _ = to.write(&encode_ping(), &[]);
            assert!(from.head().is_err());
        }
    }
    assert!(end.connections.try_recv().is_err(), "nobody was let in");
    let (local, remote) = end.pair();
    let ((_, mut local_out), (mut remote_in, _)) = (reader(local), reader(remote));
    send(&mut local_out, &[10]);
    check(&mut remote_in, &[10]);
    drop(silent);
    let mut said = Vec::new();
    rude.set_read_timeout(Some(TIMEOUT)).unwrap();
    let _ = rude.read_to_end(&mut said);
    assert!(said.len() < 64, "at most an alert");
}

#[test]
fn a_damaged_record_ends_the_connection() {
    let end = end();
    let socket = TcpStream::connect(end.address()).unwrap();
    let raw = socket.try_clone().unwrap();
    let local = end.other.connect(socket, TIMEOUT).unwrap();
    let (mut remote_in, _) = reader(end.connections.recv_timeout(TIMEOUT).unwrap());
    let mut record = vec![23, 3, 3, 0, 64];
    record.extend([7; 64]);
    (&raw).write_all(&record).unwrap();
    assert!(matches!(remote_in.head(), Err(LinkError::Io(_))));
    drop(local);
}

#[test]
fn a_port_of_those_that_may_be_used() {
    let credentials = end().other;
    let taken = || Box::new(|_| {});
    let held = std::net::TcpListener::bind((HERE, 0)).unwrap();
    let first = held.local_addr().unwrap().port();
    let ports = Ports { first, last: first.saturating_add(20) };
    let listener = Listener::open(HERE, Some(ports), &[], credentials.clone(), taken()).unwrap();
    assert!(listener.port() > first && listener.port() <= ports.last);
    let full = Ports { first, last: first };
    assert!(Listener::open(HERE, Some(full), &[], credentials.clone(), taken()).is_err());
    let port = listener.port();
    drop(listener);
    let again = Ports { first: port, last: port };
    let free = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(20));
        Listener::open(HERE, Some(again), &[], credentials.clone(), taken()).is_ok()
    });
    assert!(free, "a listener that is dropped gives its port back");
}

/// Connects so many times from each of these addresses, and says nothing.
fn flood(to: SocketAddr, sources: std::ops::Range<u8>, each: usize) -> Vec<TcpStream> {
    let from = |last| Some(IpAddr::from([127, 0, 1, last]));
    let sources = sources.flat_map(|last| std::iter::repeat_n(from(last), each));
    sources.map(|from| tcp::connect_any(&[to], from, TIMEOUT).unwrap()).collect()
}

/// A proof takes two round trips. Over a distance many may come meanwhile.
#[test]
fn strangers_do_not_push_out_who_is_expected_from_where_it_comes() {
    let end = end_for(&[HERE]);
    for _ in 0..3 {
        let socket = tcp::connect_any(&[end.address()], None, TIMEOUT).unwrap();
        // As many as two floods of 550 a second bring within a proof at 60 ms, each from a place of its own.
        let held = flood(end.address(), 1..141, 1);
        let proved = end.other.connect(socket, TIMEOUT).expect("the other end may prove itself");
        let remote = end.connections.recv_timeout(TIMEOUT).expect("and is taken");
        let ((_, mut local_out), (mut remote_in, _)) = (reader(proved), reader(remote));
        send(&mut local_out, &[10]);
        check(&mut remote_in, &[10]);
        drop(held);
    }
}

#[test]
fn strangers_of_a_few_places_do_not_push_out_one_of_another() {
    let end = end();
    let socket = tcp::connect_any(&[end.address()], None, TIMEOUT).unwrap();
    let _held = flood(end.address(), 1..21, 15);
    let proved = end.other.connect(socket, TIMEOUT).expect("the other end may prove itself");
    drop(proved);
    let _ = end.connections.recv_timeout(TIMEOUT).expect("and is taken");
}
