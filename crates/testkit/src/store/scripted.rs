//! A server that gives any answer that a test wants: answers that no store gives, and those of other servers.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::http::{HttpRequest, pass, read_head};
use super::listener::StoreListener;

/// How an answer is sent.
#[derive(Clone, Debug, Default)]
enum ReplyPace {
    /// At once.
    #[default]
    AtOnce,
    /// So many bytes at a time, with a pause after each.
    Drip(usize, Duration),
    /// The content again and again, without an end.
    Endless,
}

/// One answer, as it goes over the connection.
#[derive(Clone, Debug, Default)]
pub struct ScriptedReply {
    status: u16,
    headers: String,
    content: Vec<u8>,
    /// The length that is told; else that of the content.
    len: Option<u64>,
    pace: ReplyPace,
}

impl ScriptedReply {
    /// An answer with content of this kind; without one if it is empty.
    #[must_use]
    pub fn new(status: u16, kind: &str, content: impl Into<Vec<u8>>) -> Self {
        let headers = if kind.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
        Self { status, headers, content: content.into(), ..Self::default() }
    }

    /// A page for a browser, as a login page or the console of a store gives it to every question.
    #[must_use]
    pub fn html() -> Self {
        let page = "<!doctype html><html><head><title>Console</title></head><body>Log in</body></html>\n";
        Self::new(200, "text/html; charset=utf-8", page)
    }

    /// An answer in XML, in which only a store names itself.
    #[must_use]
    pub fn xml(content: impl Into<Vec<u8>>) -> Self {
        Self::new(200, "application/xml", content).header("x-amz-request-id", "1")
    }

    /// A listing of these records.
    #[must_use]
    pub fn listing(records: &str) -> Self {
        Self::xml(format!("<ListBucketResult><EncodingType>url</EncodingType>{records}</ListBucketResult>"))
    }

    /// A store's refusal.
    #[must_use]
    pub fn refusal(status: u16, code: &str, message: &str) -> Self {
        let content = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
        Self { status, ..Self::xml(content) }
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// Telling another length than it has.
    #[must_use]
    pub fn saying(mut self, len: u64) -> Self {
        self.len = Some(len);
        self
    }

    /// So many bytes at a time, head included, with a pause after each.
    #[must_use]
    pub fn dripping(mut self, bytes: usize, pause: Duration) -> Self {
        self.pace = ReplyPace::Drip(bytes, pause);
        self
    }

    /// Its content again and again, until nobody listens any more.
    #[must_use]
    pub fn endless(mut self) -> Self {
        self.pace = ReplyPace::Endless;
        self
    }

    fn send(&self, to: &mut TcpStream, method: &str) -> io::Result<()> {
        let has_content = method != "HEAD" && !matches!(self.status, 204 | 304);
        let mut bytes = format!("HTTP/1.1 {} x\r\n{}", self.status, self.headers).into_bytes();
        if matches!(self.pace, ReplyPace::Endless) && has_content {
            bytes.extend_from_slice(b"Connection: close\r\n\r\n");
            to.write_all(&bytes)?;
            loop {
                to.write_all(&self.content)?;
            }
        }
        let len = self.len.unwrap_or(self.content.len() as u64);
        bytes.extend_from_slice(format!("Content-Length: {len}\r\n\r\n").as_bytes());
        if has_content {
            bytes.extend_from_slice(&self.content);
        }
        match self.pace {
            ReplyPace::Drip(some, pause) => bytes.chunks(some.max(1)).try_for_each(|piece| {
                to.write_all(piece)?;
                thread::sleep(pause);
                Ok(())
            }),
            _ => to.write_all(&bytes),
        }
    }
}

type ReplyPlan = Box<dyn Fn(&HttpRequest, usize) -> ScriptedReply + Send + Sync>;

/// A server on a port of its own. It takes no new connections once it is dropped.
pub struct Scripted {
    listener: StoreListener,
    seen: Arc<Mutex<Vec<HttpRequest>>>,
}

impl Scripted {
    /// Starts it. `plan` is given each request, and how many came before it.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start(plan: impl Fn(&HttpRequest, usize) -> ScriptedReply + Send + Sync + 'static) -> Self {
        let seen = Arc::new(Mutex::default());
        let (plan, all): (ReplyPlan, _) = (Box::new(plan), Arc::clone(&seen));
        Self { listener: StoreListener::start(move |client| serve(client, &plan, &all)), seen }
    }

    /// As an endpoint.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.listener.endpoint()
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// All requests so far.
    #[must_use]
    pub fn seen(&self) -> Vec<HttpRequest> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(client: &TcpStream, plan: &ReplyPlan, seen: &Mutex<Vec<HttpRequest>>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let (mut requests, mut to_client) = (BufReader::new(client), client.try_clone()?);
    while let Some(head) = read_head(&mut requests)? {
        let request = head.request();
        pass(&mut requests, &mut io::sink(), head.len(), &mut |_| Ok(()))?;
        let before = {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(request.clone());
            seen.len() - 1
        };
        let reply = plan(&request, before);
        reply.send(&mut to_client, &request.method)?;
        if reply.len.is_some() {
            break;
        }
    }
    Ok(())
}
