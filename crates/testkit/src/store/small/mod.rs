//! A small object store inside the process: for what a real one cannot be made to do, and for streams that are longer
//! than any disk.
//!
//! It is honest: what it is sent it counts and checks as S3 does, and refuses what S3 refuses. It does not look at who
//! asks. What it forgets (see [`Habits`]) it has checked before.

mod answer;
mod held;
mod list;

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::http::{Request, read_head};
use super::listener::Listener;
use held::{Content, Object, Upload};

/// What is kept in any case, in bytes: what is noted beside an object.
const SMALL: u64 = 64 << 10;

/// How a store is.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Content is counted and checked, and only small objects are kept.
    pub forgets: bool,
    /// It knows CRC-64/NVME; else it takes no notice of it.
    pub crc64: bool,
    /// Marks are MD5s; else they only look so, as where a key service encrypts.
    pub md5: bool,
    /// Parts that an object may have.
    pub max_parts: u32,
    /// How long it thinks about each request.
    pub delay: Duration,
}

impl Default for Habits {
    fn default() -> Self {
        Self { forgets: false, crc64: true, md5: true, max_parts: 10_000, delay: Duration::ZERO }
    }
}

/// A store on a port of its own. It takes no new connections once it is dropped.
pub struct SmallStore {
    listener: Listener,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct State {
    /// By `/BUCKET/KEY`.
    objects: BTreeMap<String, Object>,
    /// By id.
    uploads: BTreeMap<String, Upload>,
    begun: u64,
}

struct Shared {
    habits: Habits,
    state: Mutex<State>,
}

impl SmallStore {
    /// Starts it.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start(habits: Habits) -> Self {
        let shared = Arc::new(Shared { habits, state: Mutex::default() });
        let each = Arc::clone(&shared);
        Self { listener: Listener::start(move |client| each.serve(client)), shared }
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
        let object = Object::whole(Content::of(bytes), headers.collect());
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut requests = BufReader::with_capacity(256 << 10, client);
        let mut to_client = client;
        while let Some(head) = read_head(&mut requests)? {
            let request = head.request();
            let len = head.len().ok_or_else(|| io::Error::other("content in chunks is not understood"))?;
            let keep = !self.habits.forgets || len <= SMALL || request.method == "POST";
            let with_md5 = self.habits.md5 || request.header("content-md5").is_some();
            let content = Content::read(&mut requests, len, keep, with_md5)?;
            thread::sleep(self.habits.delay);
            let answer = answer::to(self, &request, content);
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
}
