//! The store on its port, and the lookups of tests in it.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;

use super::super::http::read_head;
use super::super::listener::StoreListener;
use super::answer;
use super::habits::Habits;
use super::held::{HeldObject, ReceivedContent};
use super::state::SharedStore;

/// A store that forgets keeps contents of up to this many bytes, such as sidecars.
const SMALL: u64 = 64 << 10;

/// A store on a port of its own. It takes no new connections once it is dropped.
pub struct SmallStore {
    listener: StoreListener,
    shared: Arc<SharedStore>,
}

impl SmallStore {
    /// Starts it.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start(habits: Habits) -> Self {
        let shared = Arc::new(SharedStore::new(habits));
        let each = Arc::clone(&shared);
        Self { listener: StoreListener::start(move |client| serve(&each, client)), shared }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// As an endpoint.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.listener.endpoint()
    }

    /// The length of the object at `/BUCKET/KEY`, and the parts that it was made of.
    #[must_use]
    pub fn object(&self, path: &str) -> Option<(u64, usize)> {
        self.shared.lock().objects.get(path).map(|object| (object.content.len, object.parts))
    }

    /// The content of the object at `/BUCKET/KEY`, if it is there and was kept.
    #[must_use]
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        self.shared.lock().objects.get(path).and_then(|object| object.content.bytes.as_deref().cloned())
    }

    /// A note of the object at `/BUCKET/KEY`.
    #[must_use]
    pub fn note(&self, path: &str, name: &str) -> Option<String> {
        let state = self.shared.lock();
        let headers = &state.objects.get(path)?.headers;
        let header = format!("x-amz-meta-{name}");
        headers.iter().find(|(other, _)| *other == header).map(|(_, value)| value.clone())
    }

    /// Puts an object there, as another client does, with notes.
    pub fn put(&self, path: &str, bytes: &[u8], notes: &[(&str, &str)]) {
        let headers = notes.iter().map(|(name, value)| (format!("x-amz-meta-{name}"), (*value).to_owned()));
        let object = HeldObject::whole(ReceivedContent::of(bytes), headers.collect());
        self.shared.lock().objects.insert(path.to_owned(), object);
    }

    /// Parts of uploads that are not complete.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.shared.lock().uploads.values().map(|upload| upload.parts.len()).sum()
    }

    /// Uploads that are not complete.
    #[must_use]
    pub fn incomplete(&self) -> usize {
        self.shared.lock().uploads.len()
    }
}

/// Answers the requests of one connection, until it ends.
fn serve(shared: &SharedStore, client: &TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut requests = BufReader::with_capacity(256 << 10, client);
    let mut to_client = client;
    while let Some(head) = read_head(&mut requests)? {
        let request = head.request();
        let len = head.len().ok_or_else(|| io::Error::other("content in chunks is not understood"))?;
        let keep = !shared.habits.forgets || len <= SMALL || request.method == "POST";
        let with_md5 = shared.habits.md5 || request.header("content-md5").is_some();
        let content = ReceivedContent::read(&mut requests, len, keep, with_md5)?;
        thread::sleep(shared.habits.delay);
        let answer = answer::to(shared, &request, content);
        to_client.write_all(&answer.head(&request.method))?;
        if request.method != "HEAD" {
            to_client.write_all(&answer.content)?;
        }
        if head.closes() {
            break;
        }
    }
    Ok(())
}
