//! Content from one remote end to another.

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use haul_core::digest::slice_count;
use haul_core::{Batch, Delta, Entry, Links, Offer, Outcome, SLICE_LEN, Sink, SinkOptions, Slice, Source};
use haul_remote::{Broker, Peer, PeerConfig, Transport};
use haul_testkit::conformance::OnDisk;

use super::eventually;
use super::host::{Notes, TestHost, config, connect};
use super::mem::{bytes_of, path};
use super::write;

/// Two hosts and a copy between them.
struct HostPair {
    from: OnDisk,
    to: OnDisk,
    source: Arc<dyn Source>,
    sink: Arc<dyn Sink>,
    notes: Notes,
    _broker: Broker,
}

impl HostPair {
    fn new(from_straight: bool, to_straight: bool, transport: Transport) -> Self {
        let notes = Notes::default();
        let config = PeerConfig { defer: true, ..config(transport) };
        let from = TestHost { name: "db1", is_straight: from_straight };
        let to = TestHost { name: "db2", is_straight: to_straight };
        let [reader, writer] = [from, to].map(|host| connect(host, &config, &notes).unwrap());
        Self::over(&reader, &writer, &config, notes)
    }

    fn over(reader: &Arc<Peer>, writer: &Arc<Peer>, config: &PeerConfig, notes: Notes) -> Self {
        let (from, to) = (OnDisk::new(), OnDisk::new());
        fs::create_dir_all(from.root()).unwrap();
        let broker = Broker::introduce(7, reader, writer, config, notes.note()).unwrap();
        let source = reader.open_source(&from.place(), Links::Kept).unwrap();
        let at = (&from.place(), Links::Kept.into());
        let options = SinkOptions { delta: Delta::Always, ..SinkOptions::default() };
        let sink = writer.open_sink_of(&to.place(), &options, &broker, at).unwrap();
        Self { from, to, source, sink, notes, _broker: broker }
    }

    /// Copies a file. Returns how many of its slices the destination fetched itself.
    fn copy(&self, name: &str, bytes: &[u8]) -> usize {
        fs::write(self.from.root().join(name), bytes).unwrap();
        let entry: Arc<Entry> =
            Arc::new(self.source.lookup(&[path(name)]).unwrap().remove(0).unwrap().unwrap());
        let answers = self.sink.offer(&[Offer { entry: entry.clone(), digest: None }]).unwrap();
        assert!(answers[0].is_ok(), "{answers:?}");
        let (mut fetched, mut committed) = (0, false);
        for index in 0..slice_count(entry.len) {
            let slices = vec![Slice::whole(0, index)];
            let batch = Arc::new(Batch { entries: vec![entry.clone()], slices, again: false });
            let (sender, receiver) = channel();
            let relayed = self.sink.fetch(&batch, Box::new(move |outcomes| drop(sender.send(outcomes))));
            let outcomes = if relayed.is_some() {
                write(&*self.sink, self.source.read(&batch).unwrap()).recv().unwrap()
            } else {
                fetched += 1;
                receiver.recv().unwrap()
            };
            committed |= matches!(outcomes[0], Ok(Outcome::Committed(_)));
            assert!(outcomes[0].is_ok(), "{outcomes:?}");
        }
        assert!(committed);
        assert_eq!(fs::read(self.to.root().join(name)).unwrap(), bytes);
        fetched
    }

    fn eventually_notes(&self, text: &str) {
        eventually(&format!("a note with {text:?}"), || self.notes.contain(text));
    }
}

fn large() -> Vec<u8> {
    bytes_of(SLICE_LEN as usize + 70_000, 5)
}

#[test]
fn the_destination_fetches_from_the_source() {
    let pair = HostPair::new(true, true, Transport::Tls);
    assert_eq!(pair.copy("small", b"content"), 1);
    assert_eq!(pair.copy("large", &large()), 2);
    pair.eventually_notes("content goes from db1 to db2 directly, over TLS connections to port");
    assert!(pair.notes.contain("of db1"), "{}", pair.notes.all());
    assert!(pair.sink.streams() > 0);
    assert!(pair.sink.traffic().wire_bytes > SLICE_LEN);
    assert!(pair.sink.hung(Duration::from_secs(60)).is_empty());
    assert!(!pair.sink.is_held_by_iops());
}

#[test]
fn a_changed_file_is_compared_at_the_destination() {
    let pair = HostPair::new(true, true, Transport::Tls);
    let mut bytes = large();
    let _ = pair.copy("large", &bytes);
    let before = pair.sink.traffic();
    bytes[5_000..5_010].fill(0);
    // Another time, so that the content is compared.
    thread::sleep(Duration::from_millis(20));
    assert_eq!(pair.copy("large", &bytes), 2);
    let after = pair.sink.traffic();
    assert!(after.matched_bytes > before.matched_bytes + SLICE_LEN / 2, "{after:?}");
    assert!(after.wire_bytes - before.wire_bytes < SLICE_LEN / 4, "{before:?} {after:?}");
}

#[test]
fn the_source_connects_if_it_cannot_listen() {
    let pair = HostPair::new(false, true, Transport::Tls);
    assert_eq!(pair.copy("large", &large()), 2);
    pair.eventually_notes("directly, over TLS connections to port");
    assert!(pair.notes.contain("of db2"), "{}", pair.notes.all());
    assert!(pair.notes.contain("db1 cannot listen"), "{}", pair.notes.all());
}

#[test]
fn content_is_relayed_if_neither_reaches_the_other() {
    let pair = HostPair::new(false, false, Transport::Auto);
    assert_eq!(pair.copy("large", &large()), 0);
    pair.eventually_notes("passes through this machine: they cannot connect to each other");
    assert!(pair.notes.contain("db2 cannot listen"), "{}", pair.notes.all());
}

#[test]
fn content_is_relayed_if_ssh_was_asked_for() {
    let pair = HostPair::new(true, true, Transport::Ssh);
    assert_eq!(pair.copy("small", b"content"), 0);
    assert!(pair.notes.contain("passes through this machine: ssh was asked for"), "{}", pair.notes.all());
}

#[test]
fn content_stays_at_a_host_that_has_both_ends() {
    let (notes, config) = (Notes::default(), config(Transport::Ssh));
    let peer = connect(TestHost { name: "db1", is_straight: true }, &config, &notes).unwrap();
    let pair = HostPair::over(&peer, &peer, &config, notes);
    assert_eq!(pair.copy("large", &large()), 2);
    assert!(pair.notes.contain("content stays there"), "{}", pair.notes.all());
}
