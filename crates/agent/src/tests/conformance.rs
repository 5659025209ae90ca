//! A remote end in this process, over socket pairs, held to the promises of sources and sinks.

use haul_core::Links;
use haul_remote::Transport;
use haul_testkit::conformance::{End, Keeps, OnDisk, Subject};

use std::sync::Arc;

use super::host::{self, Host, Notes};

fn remote() -> End {
    End::new("remote", Keeps::everything(), || {
        let world = OnDisk::new();
        let host = Host { name: "remote", is_straight: false };
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
