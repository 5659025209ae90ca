//! A host in this process: its remote ends serve the local file system to threads.

use haul_core::sync::Mutex;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use haul_core::{BufferPool, Note, Result};
use haul_remote::{Peer, PeerConfig, Transport};
use haul_ssh::dial::{Dial, DialPurpose, DialRefused, DialedLink};
use haul_transport::Streams;

use crate::LocalEnds;

/// Where direct connections in this process go.
pub(super) const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Opens connections to threads that serve the local file system.
#[derive(Clone, Copy)]
pub(super) struct TestHost {
    pub(super) name: &'static str,
    /// "ssh" uses no proxy: both ends know each other's addresses.
    pub(super) is_straight: bool,
}

impl Dial for TestHost {
    fn dial(&self, _: DialPurpose) -> std::result::Result<DialedLink, DialRefused> {
        let (local, remote) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            let input = OwnedFd::from(remote.try_clone().unwrap());
            let _ = crate::serve(input, remote.into(), Box::new(LocalEnds::default()));
        });
        let from = OwnedFd::from(local.try_clone().unwrap());
        Ok(DialedLink { streams: Streams::plain(from, local.into()).unwrap(), helper: None })
    }

    fn hosts(&self) -> Vec<String> {
        vec![HERE.to_string()]
    }

    fn is_straight(&self) -> bool {
        self.is_straight
    }

    fn name(&self) -> String {
        self.name.to_owned()
    }
}

/// Keeps the notes for the user.
#[derive(Clone, Default)]
pub(super) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(super) fn note(&self) -> Note {
        let notes = self.0.clone();
        Arc::new(move |text: &str| notes.lock().push(text.to_owned()))
    }

    pub(super) fn contain(&self, text: &str) -> bool {
        self.0.lock().iter().any(|note| note.contains(text))
    }

    pub(super) fn all(&self) -> String {
        self.0.lock().join("\n")
    }
}

/// A configuration that explains why a route is not used.
pub(super) fn config(transport: Transport) -> PeerConfig {
    PeerConfig { transport, explains: true, ..super::config(2) }
}

pub(super) fn connect(host: TestHost, config: &PeerConfig, notes: &Notes) -> Result<Arc<Peer>> {
    Peer::over(Box::new(host), config, &BufferPool::new(64 << 20), notes.note())
}
