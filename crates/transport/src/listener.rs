//! Waiting for the other end on a port that anybody can connect to.

use haul_core::sync::{Condvar, Mutex};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::admission::{Admission, Admitted, PLACES};
use crate::secure::ConnectionKeys;
use crate::stream::Streams;

/// How long the handshake of a connection may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Threads for connections in their handshake, and a few for connections that were just evicted.
const THREADS: usize = 2 * PLACES + 32;

/// Ports from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// Gets each connection from the other end, on a thread of its own.
pub type OnConnection = Box<dyn Fn(Streams) + Send + Sync>;

/// A port that is listened on until this is dropped.
pub struct Listener {
    socket: Arc<TcpListener>,
    address: SocketAddr,
}

impl Listener {
    /// Listens on `address`, on a free port of `ports` or on any port. `taken` gets the connections that prove the key
    /// of the other end; all others are dropped. Connections from an address of `expected` have slots of their own.
    ///
    /// # Errors
    /// If no port is free.
    pub fn open(
        address: IpAddr,
        ports: Option<Ports>,
        expected: &[IpAddr],
        credentials: ConnectionKeys,
        taken: OnConnection,
    ) -> io::Result<Self> {
        let socket = Arc::new(bind(address, ports)?);
        let own = Self { address: socket.local_addr()?, socket: socket.clone() };
        let guard = Arc::new(SharedListener {
            credentials,
            taken,
            guests: Mutex::new(Guests::new(expected)),
            ended: Condvar::new(),
        });
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

fn bind(address: IpAddr, ports: Option<Ports>) -> io::Result<TcpListener> {
    let ports = ports.unwrap_or(Ports { first: 0, last: 0 });
    let mut last = io::Error::new(io::ErrorKind::AddrInUse, "there is no such port");
    for port in ports.first..=ports.last {
        match TcpListener::bind(SocketAddr::new(address, port)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

struct SharedListener {
    credentials: ConnectionKeys,
    taken: OnConnection,
    guests: Mutex<Guests>,
    /// The thread of a connection has finished with it.
    ended: Condvar,
}

struct Guests {
    admission: Admission<Arc<TcpStream>>,
    threads: usize,
}

impl Guests {
    fn new(expected: &[IpAddr]) -> Self {
        Self { admission: Admission::new(expected), threads: 0 }
    }
}

fn accept(listener: &TcpListener, guard: &Arc<SharedListener>) {
    loop {
        match listener.accept() {
            Ok((socket, from)) => guard.meet(socket, from.ip()),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // Out of descriptors, mostly; it passes.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

impl SharedListener {
    fn meet(self: &Arc<Self>, socket: TcpStream, from: IpAddr) {
        let socket = Arc::new(socket);
        let mut guests = self.guests.lock();
        let Admitted::In(number, loser) = guests.admission.enter(from, socket.clone(), Instant::now()) else {
            return;
        };
        if let Some(loser) = loser {
            // Its thread sees the end of the stream.
            let _ = loser.shutdown(Shutdown::Both);
        }
        // Only such threads are beyond the number of places.
        let mut guests = self.ended.wait_while(guests, |guests| guests.threads >= THREADS);
        guests.threads += 1;
        drop(guests);
        let guard = self.clone();
        let spawned = thread::Builder::new().name("haul-guest".to_owned()).spawn(move || {
            let place = GuestPlace { guard: &guard, number };
            let proved = guard.credentials.prove(&socket, TIMEOUT);
            drop(place);
            // Another thread holds the socket: the connection was just evicted.
            let Some(socket) = Arc::into_inner(socket) else { return };
            if let Ok(streams) = proved.and_then(|proved| proved.on(socket)) {
                (guard.taken)(streams);
            }
        });
        if spawned.is_err() {
            drop(GuestPlace { guard: self, number });
        }
    }
}

/// The place of a guest, given back on drop.
struct GuestPlace<'a> {
    guard: &'a SharedListener,
    number: u64,
}

impl Drop for GuestPlace<'_> {
    fn drop(&mut self) {
        let mut guests = self.guard.guests.lock();
        guests.admission.leave(self.number);
        guests.threads -= 1;
        drop(guests);
        self.guard.ended.notify_one();
    }
}
