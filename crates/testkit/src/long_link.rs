//! A long link in front of a TCP server: each direction of each connection takes its time, and has a window.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const BLOCK: usize = 32 * 1024;

/// Listens on a free port until it is dropped, and passes connections on.
pub struct LongLink {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    listener: Option<JoinHandle<()>>,
}

impl LongLink {
    /// A link to `server` with this time in each direction, and at most `window` bytes on their way in a direction of a
    /// connection: so one connection carries `window / delay` bytes in a second.
    #[must_use]
    pub fn new(server: SocketAddr, delay: Duration, window: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let accept = move || {
            for client in listener.incoming() {
                // The listener and nobody else holds both.
                if Arc::strong_count(&counted) == 1 {
                    break;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { continue };
                counted.fetch_add(1, Ordering::Relaxed);
                for (from, to) in [(&client, &server), (&server, &client)] {
                    pass(from.try_clone().unwrap(), to.try_clone().unwrap(), delay, window);
                }
            }
        };
        Self { address, connections, listener: Some(thread::spawn(accept)) }
    }

    /// The port at 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for LongLink {
    fn drop(&mut self) {
        self.connections = Arc::default();
        // Wakes the listener. If it has failed, it has ended.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

/// Passes one direction on, in two threads that end with the connection.
fn pass(from: TcpStream, to: TcpStream, delay: Duration, window: usize) {
    let (sender, receiver) = sync_channel(window.div_ceil(BLOCK));
    thread::spawn(move || read(from, &sender));
    thread::spawn(move || write(to, &receiver, delay));
}

fn read(mut from: TcpStream, to: &SyncSender<(Instant, Vec<u8>)>) {
    let mut block = vec![0; BLOCK];
    while let Ok(len @ 1..) = from.read(&mut block) {
        if to.send((Instant::now(), block[..len].to_vec())).is_err() {
            // The other side has gone: the sender learns of it.
            let _ = from.shutdown(Shutdown::Both);
            return;
        }
    }
}

fn write(mut to: TcpStream, from: &Receiver<(Instant, Vec<u8>)>, delay: Duration) {
    while let Ok((sent, block)) = from.recv() {
        thread::sleep((sent + delay).saturating_duration_since(Instant::now()));
        if to.write_all(&block).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_in_order_and_late() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let delay = Duration::from_millis(40);
        let link = LongLink::new(server.local_addr().unwrap(), delay, 4 * BLOCK);
        let begun = Instant::now();
        let mut client = TcpStream::connect(("127.0.0.1", link.port())).unwrap();
        let sent: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
        let echo = thread::spawn(move || {
            let (mut peer, _) = server.accept().unwrap();
            let mut received = Vec::new();
            peer.read_to_end(&mut received).unwrap();
            peer.write_all(&received).unwrap();
        });
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        echo.join().unwrap();
        assert!(received == sent);
        assert!(begun.elapsed() >= 2 * delay);
        assert_eq!(link.connections(), 1);
        let port = link.port();
        drop(link);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "nobody listens any more");
    }
}
