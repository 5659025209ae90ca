//! Content over TLS connections beside "ssh", from either end, or over "ssh" if there is no other route.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use haul_core::{Batch, Entry, ErrorKind, Links, Offer, Outcome, Slice};
use haul_remote::{Peer, PeerConfig, Transport};
use haul_testkit::conformance::OnDisk;

use super::host::{HERE, Notes, TestHost, config, connect};
use super::mem::{bytes_of, path};
use super::{eventually, place, write};

const STRAIGHT: TestHost = TestHost { name: "db1", is_straight: true };
/// "ssh" goes through a proxy: no end knows addresses but those that the user gives.
const PROXIED: TestHost = TestHost { name: "db2", is_straight: false };

/// Sends a file there and back through the peer.
fn send(peer: &Arc<Peer>) {
    let (from, to) = (OnDisk::new(), OnDisk::new());
    let bytes = bytes_of(3 << 20, 7);
    fs::create_dir_all(from.root()).unwrap();
    fs::write(from.root().join("f"), &bytes).unwrap();
    let source = peer.open_source(&from.place(), Links::Kept).unwrap();
    let sink = peer.open_sink(&to.place(), &haul_core::SinkOptions::default()).unwrap();
    let entry = source.lookup(&[path("f")]).unwrap().remove(0).unwrap().unwrap();
    let entry: Arc<Entry> = Arc::new(entry);
    assert!(sink.offer(&[Offer { entry: entry.clone(), digest: None }]).unwrap()[0].is_ok());
    let batch = Arc::new(Batch { entries: vec![entry], slices: vec![Slice::whole(0, 0)], again: false });
    let outcomes = write(&*sink, source.read(&batch).unwrap()).recv().unwrap();
    assert!(matches!(outcomes[0], Ok(Outcome::Committed(_))), "{outcomes:?}");
    sink.finish().unwrap();
    assert_eq!(fs::read(to.root().join("f")).unwrap(), bytes);
}

/// Connects and sends a file. Returns the notes when one has `text`.
fn notes_of(host: TestHost, config: &PeerConfig, text: &str) -> Notes {
    let notes = Notes::default();
    let peer = connect(host, config, &notes).unwrap();
    send(&peer);
    eventually(&format!("a note with {text:?}"), || notes.contain(text));
    send(&peer);
    notes
}

#[test]
fn the_local_end_connects_if_it_knows_an_address() {
    for transport in [Transport::Auto, Transport::Tls] {
        let notes = notes_of(STRAIGHT, &config(transport), "of db1");
        assert!(notes.contain("TLS"), "{}", notes.all());
    }
}

#[test]
fn the_remote_end_connects_if_it_cannot_listen() {
    let config = PeerConfig { bind: Some(HERE), ..config(Transport::Tls) };
    let notes = notes_of(PROXIED, &config, "from db2 to our port");
    assert!(notes.contain("db2 cannot listen"), "{}", notes.all());
}

#[test]
fn without_a_route_content_goes_over_ssh() {
    let notes = notes_of(PROXIED, &config(Transport::Auto), "ssh");
    assert!(notes.contain("`--bind` names it"), "{}", notes.all());
}

#[test]
fn without_a_route_tls_alone_fails() {
    let peer = connect(PROXIED, &config(Transport::Tls), &Notes::default()).unwrap();
    let error = peer.open_source(&place("/"), Links::Kept).and_then(|source| {
        let entry = Arc::new(super::mem::entry("etc/passwd", 1));
        let batch = Batch { entries: vec![entry], slices: vec![Slice::whole(0, 0)], again: false };
        source.read(&Arc::new(batch)).map(drop)
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unreachable);
}

#[test]
fn operations_that_wait_for_their_limit_are_reported() {
    let at = OnDisk::new();
    fs::create_dir_all(at.root()).unwrap();
    let config = PeerConfig { iops: Some(20), ..config(Transport::Ssh) };
    let peer = connect(STRAIGHT, &config, &Notes::default()).unwrap();
    let source = peer.open_source(&at.place(), Links::Kept).unwrap();
    let paths: Vec<_> = (0..10).map(|i| path(&format!("f{i}"))).collect();
    let minute = Duration::from_secs(60);
    eventually("the limit is reported", || {
        assert!(source.lookup(&paths).unwrap().iter().all(|found| *found == Ok(None)));
        assert!(source.hung(minute).is_empty());
        source.is_held_by_iops()
    });
}
