//! A remote end in this process, over socket pairs, held to the promises of sources and sinks.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use haul_core::BufferPool;
use haul_remote::Peer;
use haul_ssh::dial::{Dial, Link, Refused, Way};
use haul_testkit::conformance::{End, Keeps, OnDisk, Subject};
use haul_transport::Streams;

use crate::LocalEnds;

/// Opens connections to threads that serve the local file system.
struct InProcess;

impl Dial for InProcess {
    fn dial(&self, _: Way) -> Result<Link, Refused> {
        let (local, remote) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            let input = OwnedFd::from(remote.try_clone().unwrap());
            let _ = crate::serve(input, remote.into(), Box::new(LocalEnds::default()));
        });
        let from = OwnedFd::from(local.try_clone().unwrap());
        Ok(Link { streams: Streams::plain(from, local.into()).unwrap(), helper: None })
    }

    fn name(&self) -> String {
        "remote".to_owned()
    }
}

fn remote() -> End {
    End::new("remote", Keeps::everything(), || {
        let world = OnDisk::new();
        let config = super::config(2);
        let pool = BufferPool::new(64 << 20);
        let peer = Peer::over(Box::new(InProcess), &config, &pool, Arc::new(|_| {})).unwrap();
        let at = world.place();
        let (reader, from) = (Arc::clone(&peer), at.clone());
        Subject {
            world: Box::new(world),
            source: Box::new(move || reader.open_source(&from, haul_core::Links::Kept).unwrap()),
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
