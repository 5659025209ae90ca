//! Waiting for the other end on a port that anybody can connect to.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::secure::Credentials;
use crate::stream::Streams;

/// How long somebody may take to prove who they are.
const PATIENCE: Duration = Duration::from_secs(10);
/// Strangers at the door at most. When there is one more, who has been there longest has to go: the other end proves
/// itself within two round trips.
const STRANGERS: usize = 64;

/// Ports from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// What is done with a connection from the other end, on a thread of its own.
pub type Taken = Box<dyn Fn(Streams) + Send + Sync>;

/// A port that is listened on until this is dropped.
pub struct Listener {
    socket: Arc<TcpListener>,
    address: SocketAddr,
}

impl Listener {
    /// Listens on `address` (every one of this machine if `None`), on a free port of `ports` or on any. Who proves
    /// to be the other end is handed to `taken`; others get nothing.
    ///
    /// # Errors
    /// If no port can be had.
    pub fn open(
        address: Option<IpAddr>,
        ports: Option<Ports>,
        credentials: Credentials,
        taken: Taken,
    ) -> io::Result<Self> {
        let socket = Arc::new(bind(address, ports)?);
        let own = Self { address: socket.local_addr()?, socket: socket.clone() };
        let guard = Arc::new(Guard { credentials, taken, strangers: Mutex::default() });
        thread::Builder::new().name("haul-listen".to_owned()).spawn(move || accept(&socket, &guard))?;
        Ok(own)
    }

    /// The port that was taken.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Ends the thread's wait, and with the thread the port.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

fn bind(address: Option<IpAddr>, ports: Option<Ports>) -> io::Result<TcpListener> {
    let addresses = match address {
        Some(address) => vec![address],
        // The second where the machine has no IPv6.
        None => vec![IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
    };
    let ports = ports.unwrap_or(Ports { first: 0, last: 0 });
    let mut last = io::Error::new(io::ErrorKind::AddrInUse, "there is no such port");
    for port in ports.first..=ports.last {
        for address in &addresses {
            match TcpListener::bind(SocketAddr::new(*address, port)) {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
    }
    Err(last)
}

struct Guard {
    credentials: Credentials,
    taken: Taken,
    strangers: Mutex<VecDeque<Arc<TcpStream>>>,
}

fn accept(listener: &TcpListener, guard: &Arc<Guard>) {
    loop {
        match listener.accept() {
            Ok((socket, _)) => guard.meet(socket),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // Out of descriptors, mostly; it passes.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

impl Guard {
    fn meet(self: &Arc<Self>, socket: TcpStream) {
        let Ok(watched) = socket.try_clone().map(Arc::new) else { return };
        let oldest = {
            let mut strangers = self.lock();
            strangers.push_back(watched.clone());
            if strangers.len() > STRANGERS { strangers.pop_front() } else { None }
        };
        if let Some(oldest) = oldest {
            // Its thread sees the end of the stream.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let guard = self.clone();
        let spawned = thread::Builder::new().name("haul-guest".to_owned()).spawn(move || {
            let proved = guard.credentials.accept(socket, PATIENCE);
            guard.lock().retain(|stranger| !Arc::ptr_eq(stranger, &watched));
            drop(watched);
            if let Ok(streams) = proved {
                (guard.taken)(streams);
            }
        });
        if spawned.is_err() {
            self.lock().pop_back();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<TcpStream>>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
