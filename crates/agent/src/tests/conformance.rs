//! A remote end in this process, over socket pairs, held to the promises of sources and sinks.

use haul_core::Links;
use haul_remote::Transport;
use haul_testkit::conformance::{Keeps, OnDisk, Subject, TestedEnd};

use std::sync::Arc;

use super::host::{self, Notes, TestHost};

fn remote() -> TestedEnd {
    TestedEnd::new("remote", Keeps::everything(), || {
        let world = OnDisk::new();
        let host = TestHost { name: "remote", is_straight: false };
        let peer = host::connect(host, &host::config(Transport::Ssh), &Notes::default()).unwrap();
        let at = world.place();
        let (reader, from) = (Arc::clone(&peer), at.clone());
        Subject {
            world: Box::new(world),
            source: Box::new(move || reader.open_source(&from, Links::Kept).unwrap()),
            sink: Box::new(move |options| peer.open_sink(&at, options).unwrap()),
        }
    })
}

#[test]
fn source() {
    remote().check_source();
}

#[test]
fn sink() {
    remote().check_sink();
}
