//! A proxy between haul and a store: it passes requests on, and makes the trouble that a test wants.

use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::google::{from_s3, to_s3};
use super::http::{HttpRequest, pass, read_head};
use super::listener::StoreListener;

/// The trouble that one request has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyTrouble {
    /// It is answered with this status, headers and code instead of being handed on.
    Refuse(u16, &'static str, &'static str),
    /// It is answered with this content instead of being handed on.
    Answer(String),
    /// The connection ends after so many bytes of its content.
    CutContent(u64),
    /// The connection ends after so many bytes of the content of the answer.
    CutAnswer(u64),
    /// The byte of the answer at this place is another one.
    FlipAnswer(u64),
    /// A byte of its content is another one.
    FlipContent(u64),
    /// It is done, and the answer is lost.
    LoseAnswer,
    /// The answer comes after so long.
    Late(Duration),
    /// A header of the answer says something else.
    Lie(&'static str, &'static str),
    /// Its content goes on at so many bytes per second.
    Slow(u64),
}

type ProxyPlan = Box<dyn Fn(&HttpRequest, usize) -> Option<ProxyTrouble> + Send + Sync>;

struct SharedProxy {
    upstream: SocketAddr,
    /// The client speaks as to Google, the store as S3.
    google: bool,
    plan: ProxyPlan,
    seen: Mutex<Vec<HttpRequest>>,
    done: Mutex<Vec<HttpRequest>>,
}

/// A proxy on a port of its own. It takes no new connections once it is dropped.
pub struct Proxy {
    listener: StoreListener,
    shared: Arc<SharedProxy>,
}

impl Proxy {
    /// Starts a proxy in front of `upstream`. `plan` chooses the trouble of a request: its arguments are the request,
    /// and the number of requests before it with the same method, path, query and range.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start(
        upstream: SocketAddr,
        plan: impl Fn(&HttpRequest, usize) -> Option<ProxyTrouble> + Send + Sync + 'static,
    ) -> Self {
        Self::between(upstream, false, plan)
    }

    /// The same for a client that speaks as to Google: `upstream` is asked for the same as S3 does.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn google(
        upstream: SocketAddr,
        plan: impl Fn(&HttpRequest, usize) -> Option<ProxyTrouble> + Send + Sync + 'static,
    ) -> Self {
        Self::between(upstream, true, plan)
    }

    fn between(
        upstream: SocketAddr,
        google: bool,
        plan: impl Fn(&HttpRequest, usize) -> Option<ProxyTrouble> + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(SharedProxy {
            upstream,
            google,
            plan: Box::new(plan),
            seen: Mutex::default(),
            done: Mutex::default(),
        });
        let each = Arc::clone(&shared);
        Self { listener: StoreListener::start(move |client| each.serve(client)), shared }
    }

    /// As an endpoint.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.listener.endpoint()
    }

    /// All requests so far, in the order in which their heads came.
    #[must_use]
    pub fn seen(&self) -> Vec<HttpRequest> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many requests, of which `which` says yes, the store has done, and its answer was handed on.
    #[must_use]
    pub fn done(&self, which: impl Fn(&HttpRequest) -> bool) -> usize {
        let done = self.shared.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.iter().filter(|request| which(request)).count()
    }

    /// How many requests there were of which `which` says yes.
    #[must_use]
    pub fn count(&self, which: impl Fn(&HttpRequest) -> bool) -> usize {
        self.seen().iter().filter(|request| which(request)).count()
    }
}

impl SharedProxy {
    fn serve(&self, client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let store = TcpStream::connect(self.upstream)?;
        store.set_nodelay(true)?;
        let result = self.exchange(client, &store);
        let _ = store.shutdown(Shutdown::Both);
        result
    }

    fn exchange(&self, client: &TcpStream, store: &TcpStream) -> io::Result<()> {
        let (mut requests, mut answers) = (BufReader::new(client), BufReader::new(store));
        let (mut to_client, mut to_store) = (client, store);
        while let Some(head) = read_head(&mut requests)? {
            let request = head.request();
            let before = {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                let same = |other: &&HttpRequest| {
                    (&other.method, &other.path, &other.query, other.header("range"))
                        == (&request.method, &request.path, &request.query, request.header("range"))
                };
                let before = seen.iter().filter(same).count();
                seen.push(request.clone());
                before
            };
            let trouble = (self.plan)(&request, before);
            if let Some(ProxyTrouble::Refuse(status, header, code)) = trouble {
                pass(&mut requests, &mut io::sink(), head.len(), &mut |_| Ok(()))?;
                let content = if request.method == "HEAD" {
                    String::new()
                } else {
                    format!("<Error><Code>{code}</Code><Message>made by a test</Message></Error>")
                };
                let len = content.len();
                write!(to_client, "HTTP/1.1 {status} No\r\n{header}Content-Length: {len}\r\n\r\n{content}")?;
                to_client.flush()?;
                continue;
            }
            if let Some(ProxyTrouble::Answer(content)) = &trouble {
                pass(&mut requests, &mut io::sink(), head.len(), &mut |_| Ok(()))?;
                write!(to_client, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{content}", content.len())?;
                to_client.flush()?;
                continue;
            }
            to_store.write_all(&if self.google { to_s3(&head.bytes) } else { head.bytes.clone() })?;
            pass(&mut requests, &mut to_store, head.len(), &mut spoil(&trouble, true))?;
            let Some(answer) = read_head(&mut answers)? else { return Ok(()) };
            match trouble {
                Some(ProxyTrouble::LoseAnswer) => return Ok(()),
                Some(ProxyTrouble::Late(time)) => thread::sleep(time),
                _ => {}
            }
            match trouble {
                Some(ProxyTrouble::Lie(name, value)) => to_client.write_all(&answer.saying(name, value))?,
                _ if self.google => to_client.write_all(&from_s3(&answer.bytes))?,
                _ => to_client.write_all(&answer.bytes)?,
            }
            if answer.answer_has_content(&request.method) {
                pass(&mut answers, &mut to_client, answer.len(), &mut spoil(&trouble, false))?;
            }
            if answer.says_done() {
                self.done.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            }
            if answer.closes() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Applies the trouble to content on its way, up (to the store) or down.
fn spoil(trouble: &Option<ProxyTrouble>, up: bool) -> impl FnMut(&mut [u8]) -> io::Result<()> {
    let trouble = trouble.clone();
    let mut at = 0;
    move |bytes: &mut [u8]| {
        let (start, end) = (at, at + bytes.len() as u64);
        at = end;
        match (&trouble, up) {
            (Some(ProxyTrouble::CutContent(cut)), true) | (Some(ProxyTrouble::CutAnswer(cut)), false)
                if end > *cut =>
            {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            (Some(ProxyTrouble::FlipContent(flip)), true) | (Some(ProxyTrouble::FlipAnswer(flip)), false)
                if (start..end).contains(flip) =>
            {
                bytes[(*flip - start) as usize] ^= 1;
            }
            (Some(ProxyTrouble::Slow(rate)), _) => {
                thread::sleep(Duration::from_secs_f64(bytes.len() as f64 / *rate as f64));
            }
            _ => {}
        }
        Ok(())
    }
}
