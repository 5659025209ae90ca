//! A relay in front of an SMB server: it counts frames, looks for words in them, and flips a byte.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// The frame in which a byte flips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlippedFrame {
    /// The frame with this number: its last byte.
    Number(Flow, usize),
    /// The first frame of the client with so many bytes: the byte in the middle.
    Long(usize),
}

/// The settings of the relay, and its counts.
#[derive(Debug, Default)]
struct SharedRelay {
    flips: Option<FlippedFrame>,
    flipped: AtomicBool,
    /// Words to look for.
    words: Vec<u8>,
    seen: AtomicBool,
    up: AtomicUsize,
    down: AtomicUsize,
    is_over: AtomicBool,
}

/// A relay on a free port of 127.0.0.1. It takes no new connections once it is dropped.
#[derive(Debug)]
pub struct SmbRelay {
    address: SocketAddr,
    shared: Arc<SharedRelay>,
}

impl SmbRelay {
    /// A relay to the server at `port`. It flips a byte of the frame `flips`, and looks for `words` in the frames of
    /// the client.
    #[must_use]
    pub fn start(port: u16, flips: Option<FlippedFrame>, words: &str) -> Self {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), port, flips, words)
    }

    /// A relay for a client that knows no other port than that of SMB: at an address of its own, which starts with 127.
    #[must_use]
    pub fn at_usual_port(port: u16) -> Self {
        let [high, low] = port.to_be_bytes();
        Self::start_at(SocketAddr::from((Ipv4Addr::new(127, 77, high, low), 445)), port, None, "")
    }

    fn start_at(at: SocketAddr, port: u16, flips: Option<FlippedFrame>, words: &str) -> Self {
        let listener = TcpListener::bind(at).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(SharedRelay { flips, words: words.into(), ..SharedRelay::default() });
        let all = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                if all.is_over.load(Ordering::Relaxed) {
                    break;
                }
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
                let (Ok(client), Ok(server)) = (client, server) else { continue };
                for (flow, from, to) in [(Flow::Up, &client, &server), (Flow::Down, &server, &client)] {
                    let (from, to, all) =
                        (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(&all));
                    thread::spawn(move || {
                        let _ended = pass(flow, &from, &to, &all);
                        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                    });
                }
            }
        });
        Self { address, shared }
    }

    /// The address without the port.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.ip().to_string()
    }

    /// The port at 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The frames that clients have sent.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.shared.up.load(Ordering::Relaxed)
    }

    /// Whether a byte was flipped.
    #[must_use]
    pub fn has_flipped(&self) -> bool {
        self.shared.flipped.load(Ordering::Relaxed)
    }

    /// Whether a client has sent the words.
    #[must_use]
    pub fn has_seen_words(&self) -> bool {
        self.shared.seen.load(Ordering::Relaxed)
    }
}

impl Drop for SmbRelay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let _wakes = TcpStream::connect(self.address);
    }
}

fn pass(flow: Flow, mut from: &TcpStream, mut to: &TcpStream, shared: &SharedRelay) -> io::Result<()> {
    loop {
        let mut head = [0; 4];
        from.read_exact(&mut head)?;
        let mut frame = vec![0; u32::from_be_bytes(head) as usize];
        from.read_exact(&mut frame)?;
        let counter = if flow == Flow::Up { &shared.up } else { &shared.down };
        let number = counter.fetch_add(1, Ordering::Relaxed) + 1;
        let place = match shared.flips {
            Some(FlippedFrame::Number(of, nth)) if (of, nth) == (flow, number) => frame.len().checked_sub(1),
            Some(FlippedFrame::Long(len)) if flow == Flow::Up && frame.len() >= len => Some(frame.len() / 2),
            _ => None,
        };
        if let Some(byte) = place.and_then(|place| frame.get_mut(place))
            && !shared.flipped.swap(true, Ordering::Relaxed)
        {
            *byte ^= 1;
        }
        let words = &shared.words[..];
        if flow == Flow::Up && !words.is_empty() && frame.windows(words.len()).any(|some| some == words) {
            shared.seen.store(true, Ordering::Relaxed);
        }
        to.write_all(&[&head[..], &frame].concat())?;
    }
}
