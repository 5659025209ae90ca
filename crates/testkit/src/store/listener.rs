//! Connections to a port of a test's own, each served by a thread.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

/// Takes connections until it is dropped; those that it has then go on.
pub(super) struct StoreListener {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
}

impl StoreListener {
    /// Hands each connection to `serve`, and closes it afterwards. It ignores errors of `serve`.
    ///
    /// # Panics
    /// If no port is free.
    pub(super) fn start(serve: impl Fn(&TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let (serve, over) = (Arc::new(serve), Arc::clone(&ended));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let serve = Arc::clone(&serve);
                thread::spawn(move || {
                    let _ = serve(&client);
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        Self { address, ended }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for StoreListener {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}
