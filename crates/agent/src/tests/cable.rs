//! Connections over socket pairs, with somebody's hands on them.

use haul_core::sync::{Condvar, Mutex};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use haul_core::{Error, ErrorKind, Side};
use haul_ssh::dial::{AfterRefusal, Dial, DialPurpose, DialRefused, DialedLink};
use haul_transport::Streams;

use super::mem::{MemEnds, RemoteFiles};

/// One connection, seen from outside.
#[derive(Default)]
pub(super) struct Cable {
    ends: Mutex<Vec<UnixStream>>,
    stalled: Mutex<bool>,
    moved: Condvar,
    /// The byte that is damaged on its way to the remote end, counted from the next one.
    flip: Mutex<Option<usize>>,
    pub(super) up: AtomicU32,
}

impl Cable {
    pub(super) fn cut(&self) {
        for end in self.ends.lock().iter() {
            let _ = end.shutdown(Shutdown::Both);
        }
        self.stall(false);
    }

    pub(super) fn stall(&self, stalled: bool) {
        *self.stalled.lock() = stalled;
        self.moved.notify_all();
    }

    pub(super) fn flip(&self, after: usize) {
        *self.flip.lock() = Some(after);
    }

    fn carry(&self, mut from: UnixStream, mut to: UnixStream, up: bool) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(n) = from.read(&mut bytes) {
            if n == 0 {
                break;
            }
            drop(self.moved.wait_while(self.stalled.lock(), |stalled| *stalled));
            if up {
                self.up.fetch_add(n as u32, Ordering::Relaxed);
                let mut flip = self.flip.lock();
                if let Some(after) = *flip {
                    if after < n {
                        bytes[after] ^= 4;
                        *flip = None;
                    } else {
                        *flip = Some(after - n);
                    }
                }
            }
            if to.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    }
}

/// Opens connections to remote ends that are threads of this process.
#[derive(Clone)]
pub(super) struct Cables {
    pub(super) world: Arc<RemoteFiles>,
    pub(super) cables: Arc<Mutex<Vec<Arc<Cable>>>>,
    /// No connections from now on.
    pub(super) refuse: Arc<AtomicBool>,
    pub(super) dialed: Arc<AtomicU32>,
    /// The bytes that a remote end sends instead of a greeting.
    pub(super) says: Option<Vec<u8>>,
}

impl Cables {
    pub(super) fn new() -> Self {
        Self {
            world: Arc::default(),
            cables: Arc::default(),
            refuse: Arc::default(),
            dialed: Arc::default(),
            says: None,
        }
    }

    pub(super) fn cable(&self, at: usize) -> Arc<Cable> {
        self.cables.lock()[at].clone()
    }

    pub(super) fn count(&self) -> usize {
        self.cables.lock().len()
    }
}

impl Dial for Cables {
    fn dial(&self, _: DialPurpose) -> Result<DialedLink, DialRefused> {
        self.dialed.fetch_add(1, Ordering::Relaxed);
        if self.refuse.load(Ordering::Relaxed) {
            let error = Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", "no route to host");
            return Err(DialRefused { trouble: AfterRefusal::Later, error });
        }
        let ((local, a), (b, remote)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let cable = Arc::new(Cable::default());
        cable.ends.lock().extend([a.try_clone().unwrap(), b.try_clone().unwrap()]);
        for (from, to, up) in [(a.try_clone().unwrap(), b.try_clone().unwrap(), true), (b, a, false)] {
            let cable = cable.clone();
            thread::spawn(move || cable.carry(from, to, up));
        }
        self.cables.lock().push(cable);
        let world = self.world.clone();
        let says = self.says.clone();
        thread::spawn(move || match says {
            Some(says) => {
                let mut remote = remote;
                remote.write_all(&says).unwrap();
                let _ = remote.read(&mut [0; 1024]);
            }
            None => {
                let input = OwnedFd::from(remote.try_clone().unwrap());
                let _ = crate::serve(input, remote.into(), Box::new(MemEnds(world)));
            }
        });
        let from = OwnedFd::from(local.try_clone().unwrap());
        Ok(DialedLink { streams: Streams::plain(from, local.into()).unwrap(), helper: None })
    }

    fn name(&self) -> String {
        "far".to_owned()
    }
}
