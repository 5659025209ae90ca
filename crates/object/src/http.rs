//! One HTTP request: its way there and the answer. How it is addressed and signed is the provider's ([`Signer`]).

mod proof;

use std::borrow::Cow;
use std::future::Future;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response};

use crate::fault::{Class, Fault};
use crate::meter::{Kind, Requests};
use crate::payload::Payload;
use crate::store::{Activity, Answer, Known, Take};
use crate::url::address;

/// An answer that is read whole is no longer than this; a page of a listing has at most a few thousand keys of 1,024
/// bytes, each of which may be written as three.
const MAX_ANSWER: usize = 16 << 20;

/// How often a request is looked at, whether it still moves and is wanted.
const LOOK: Duration = Duration::from_millis(100);

/// Content that moves less than this many bytes while a request may stand still counts as standing still.
const DRIP: u64 = 4 << 10;

/// How long connections may stay idle: stores close them after about 20 s.
const IDLE: Duration = Duration::from_secs(15);

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// A request.
pub(crate) struct Call<'a> {
    pub(crate) kind: Kind,
    pub(crate) method: Method,
    pub(crate) key: Option<&'a str>,
    pub(crate) query: Vec<(&'a str, String)>,
    pub(crate) headers: Vec<(Cow<'a, str>, String)>,
    pub(crate) body: Option<&'a Payload>,
}

impl<'a> Call<'a> {
    /// Without query, headers and body.
    pub(crate) fn new(kind: Kind, method: Method, key: Option<&'a str>) -> Self {
        Self { kind, method, key, query: Vec::new(), headers: Vec::new(), body: None }
    }

    /// With one more parameter.
    pub(crate) fn query(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// With one more header.
    pub(crate) fn header(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Its headers, as they are sent.
    ///
    /// # Errors
    /// If one holds what no header can. What signs headers takes text of visible ASCII for granted, so nothing else
    /// passes.
    pub(crate) fn header_map(&self) -> Answer<HeaderMap> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let name = HeaderName::from_str(name).map_err(|_| unsendable("a header's name"))?;
            let text = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
            let value = HeaderValue::from_str(value).ok().filter(|_| text);
            map.insert(name, value.ok_or_else(|| unsendable("a header's value"))?);
        }
        Ok(map)
    }
}

/// What cannot be part of a request.
pub(crate) fn unsendable(what: &str) -> Fault {
    Fault::new(Class::Final, format!("{what} cannot be sent in a request"))
}

/// A request that is ready to go.
pub(crate) struct Signed {
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
}

/// What is particular to a provider about each request.
pub(crate) trait Signer {
    /// What the provider's stores speak, as a person calls it.
    const SPOKEN: &'static str;

    /// How the names of the headers begin that only such a store answers with.
    const PREFIX: &'static str;

    /// Addresses and signs a request.
    fn sign(&self, call: &Call<'_>) -> impl Future<Output = Answer<Signed>>;

    /// Whether an answer that says no tells how to ask right: then it is asked again at once.
    fn learn(&self, _answer: &HeaderMap) -> bool {
        false
    }

    /// The reason of an answer that says no. Credentials that are refused are forgotten.
    fn refusal(&self, status: u16, answer: &HeaderMap, content: &[u8]) -> Fault;
}

/// What an answer says besides its content.
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// Who answered: a host, and its port.
    pub(crate) host: String,
}

impl Head {
    fn of(answer: &Response) -> Self {
        let host = host_of(answer.url());
        Self { status: answer.status().as_u16(), headers: answer.headers().clone(), host }
    }

    /// A header as text.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The mark of the object or the part. Everything that is a store has one in such an answer.
    pub(crate) fn etag(&self) -> Answer<String> {
        let none = || Fault::new(Class::Foreign, "an answer without an ETag");
        self.get("etag").map(str::to_owned).filter(|etag| !etag.is_empty()).ok_or_else(none)
    }

    /// Whether it has a header that only a store of this kind answers with.
    fn is_of(&self, prefix: &str) -> bool {
        self.headers.keys().any(|name| name.as_str().starts_with(prefix))
    }

    /// Its kind of content, without parameters.
    fn content_type(&self) -> &str {
        self.get("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim()
    }

    /// The length of the object, in bytes.
    pub(crate) fn len(&self) -> Answer<u64> {
        let len = self.get("content-length").and_then(|text| text.parse().ok());
        len.ok_or_else(|| Fault::new(Class::Again, "the answer has no length"))
    }

    /// What was noted with an object, in headers that begin with `prefix`.
    pub(crate) fn notes<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (String, String)> + 'a {
        self.headers.iter().filter_map(move |(name, value)| {
            let name = name.as_str().strip_prefix(prefix)?;
            Some((name.to_owned(), value.to_str().ok()?.to_owned()))
        })
    }
}

/// Connections to one provider.
pub(crate) struct Http {
    client: reqwest::Client,
    requests: Arc<Requests>,
    /// It has answered as only a store of its kind does.
    proven: AtomicBool,
}

impl Http {
    /// Trusts what the system trusts, and the certificates in the file `ca_bundle`.
    ///
    /// # Errors
    /// A sentence, if the file cannot be read.
    pub(crate) fn new(requests: Arc<Requests>, ca_bundle: Option<&str>) -> Result<Self, String> {
        let mut client = reqwest::Client::builder()
            .http1_only()
            .tcp_nodelay(true)
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("haul/", env!("CARGO_PKG_VERSION")));
        if let Some(path) = ca_bundle {
            let read = std::fs::read(path).map_err(|error| error.to_string());
            let parsed = read.and_then(|pem| {
                reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| error.to_string())
            });
            client = client.tls_certs_merge(parsed.map_err(|error| format!("{path}: {error}"))?);
        }
        let client = client.build().map_err(|error| error.to_string())?;
        Ok(Self { client, requests, proven: AtomicBool::new(false) })
    }

    /// Asks and reads the whole answer, which is no page of a web server.
    pub(crate) fn ask(
        &self,
        signer: &impl Signer,
        call: &Call<'_>,
        at: &Activity<'_>,
    ) -> Answer<(Head, Vec<u8>)> {
        let asked = self.ask_up_to(signer, call, MAX_ANSWER, at);
        let (head, content) = asked.map_err(|fault| match fault.class {
            Class::TooLong => Fault::nonsense("it is longer than any answer is"),
            _ => fault,
        })?;
        if proof::is_page(&head, &content) {
            return Err(self.foreign(signer, &head, "a page"));
        }
        Ok((head, content))
    }

    /// Asks, and understands the answer by `read`.
    pub(crate) fn asked<T>(
        &self,
        signer: &impl Signer,
        call: &Call<'_>,
        at: &Activity<'_>,
        read: impl FnOnce(&[u8]) -> Answer<T>,
    ) -> Answer<T> {
        let (head, content) = self.ask(signer, call, at)?;
        let answer = self.understood(signer, &head, read(&content));
        if answer.is_ok() {
            self.proven.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// The same for an answer whose content is `limit` bytes at most.
    pub(crate) fn ask_up_to(
        &self,
        signer: &impl Signer,
        call: &Call<'_>,
        limit: usize,
        at: &Activity<'_>,
    ) -> Answer<(Head, Vec<u8>)> {
        let mut content = Vec::new();
        let mut take = |bytes: &[u8]| content.extend_from_slice(bytes);
        let head = self.stream(signer, call, &|_| Ok(()), &mut take, limit as u64, at)?;
        Ok((head, content))
    }

    /// Asks, and hands over the content of an answer that `accept` likes as it comes, up to `limit` bytes.
    pub(crate) fn stream(
        &self,
        signer: &impl Signer,
        call: &Call<'_>,
        accept: &(dyn Fn(&Head) -> Answer<()> + Sync),
        take: &mut (dyn FnMut(&[u8]) + Send),
        limit: u64,
        at: &Activity<'_>,
    ) -> Answer<Head> {
        crate::runtime::block_on(async {
            let mut answer = watch(at, self.send(signer, call, at)).await?;
            // Twice at most: another region, and the bucket in the name of the host.
            for _ in 0..2 {
                if answer.status().is_success() || !signer.learn(answer.headers()) {
                    break;
                }
                answer = watch(at, self.send(signer, call, at)).await?;
            }
            let head = Head::of(&answer);
            if !answer.status().is_success() {
                let (fault, content) = watch(at, refusal(signer, answer)).await?;
                return Err(self.refused(signer, call, &head, fault, &content));
            }
            accept(&head)?;
            let (mut read, mut seen) = (0, 0);
            while let Some(bytes) = watch(at, async { answer.chunk().await.map_err(|e| lost(&e)) }).await? {
                read += bytes.len() as u64;
                // What drips stands still.
                if read - seen >= DRIP {
                    seen = read;
                    at.moved();
                }
                if read > limit {
                    return Err(Fault::new(Class::TooLong, "the answer is longer than it may be"));
                }
                take(&bytes);
            }
            Ok(head)
        })
    }

    /// Asks for a range of an object that bears `etag`, where one is given, and hands over all of it.
    pub(crate) fn range(
        &self,
        signer: &impl Signer,
        call: Call<'_>,
        range: Range<u64>,
        known: Known<'_>,
        take: Take<'_>,
        at: &Activity<'_>,
    ) -> Answer<()> {
        let wanted = range.end - range.start;
        let mut call = call.header("range", format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
        let etag = known.etag;
        if !etag.is_empty() {
            // Some listings tell marks without their quotes.
            let quoted = if etag.ends_with('"') { etag.to_owned() } else { format!("\"{etag}\"") };
            call = call.header("if-match", quoted);
        }
        let mut read = 0;
        let mut counted = |bytes: &[u8]| {
            read += bytes.len() as u64;
            take(bytes);
        };
        self.stream(signer, &call, &|head| is_of(head, &range, known), &mut counted, wanted, at)?;
        if read < wanted {
            return Err(Fault::new(Class::Again, format!("the answer ended after {read} of {wanted} bytes")));
        }
        Ok(())
    }

    async fn send(&self, signer: &impl Signer, call: &Call<'_>, at: &Activity<'_>) -> Answer<Response> {
        let Signed { url, mut headers } = signer.sign(call).await?;
        let mut request = self.client.request(call.method.clone(), address(&url)?);
        self.requests.count(call.kind);
        if let Some(body) = call.body {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
            let moved = Arc::new(tokio::sync::Notify::new());
            let noted = Arc::clone(&moved);
            let chunks = stream::unfold((body.clone(), 0), move |(body, mut at)| {
                noted.notify_one();
                std::future::ready(body.chunk(&mut at).transpose().map(|chunk| (chunk, (body, at))))
            });
            request = request.headers(headers).body(reqwest::Body::wrap_stream(chunks));
            let send = request.send();
            tokio::pin!(send);
            loop {
                tokio::select! {
                    answer = &mut send => break answer,
                    () = moved.notified() => at.moved(),
                }
            }
        } else {
            if call.method == Method::POST || call.method == Method::PUT {
                headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
            }
            request.headers(headers).send().await
        }
        .map_err(|error| lost(&error))
    }
}

/// Runs a step of a request, as long as it moves and is wanted.
async fn watch<T>(at: &Activity<'_>, step: impl Future<Output = Answer<T>>) -> Answer<T> {
    tokio::pin!(step);
    loop {
        tokio::select! {
            done = &mut step => return done,
            () = tokio::time::sleep(LOOK) => {
                if at.is_abandoned() {
                    return Err(Fault::new(Class::Abandoned, "interrupted"));
                }
                if at.is_stalled() {
                    let message = format!("nothing moved for {} s", at.stall.as_secs_f64());
                    return Err(Fault::new(Class::Again, message));
                }
            }
        }
    }
}

/// A connection that failed, in the words of the innermost cause.
fn lost(error: &reqwest::Error) -> Fault {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    // What can be told from the request alone will be the same next time.
    if error.is_builder() {
        return Fault::new(Class::Final, text);
    }
    let Some(host) = error.url().filter(|_| error.is_connect()).map(host_of) else {
        return Fault::new(Class::Again, text);
    };
    // The answer of a port of http is no record of TLS.
    if text.contains("InvalidContentType") {
        return Fault::new(Class::Foreign, format!("{host} does not speak TLS: is it http://{host}?"));
    }
    if text.contains("Name or service not known") {
        return Fault::new(Class::NoHost, format!("no host is known as {host}"));
    }
    Fault::new(Class::Again, format!("{host}: {text}"))
}

/// The host of an address, and its port.
fn host_of(url: &reqwest::Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", url.host_str().unwrap_or_default())
}

/// A refusal because of the time that a request says, with both times.
fn skewed(fault: Fault, headers: &HeaderMap) -> Fault {
    if fault.class != Class::Skewed {
        return fault;
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let here = crate::time::of_unix(now.as_secs());
    let there = headers.get("date").and_then(|value| value.to_str().ok()).map(crate::time::of_http);
    let there = there.unwrap_or_else(|| "another time".to_owned());
    let message = format!("the clocks differ by too much: it is {here} here, and {there} at the store");
    Fault { message, ..fault }
}

/// Looks whether an answer is what was asked for: not all stores and proxies know conditions and ranges.
fn is_of(head: &Head, range: &Range<u64>, known: Known<'_>) -> Answer<()> {
    let etag = known.etag;
    let bare = |etag: &str| etag.trim_start_matches("W/").trim_matches('"').to_owned();
    let same = etag.is_empty() || head.get("etag").is_none_or(|found| bare(found) == bare(etag));
    let wanted = format!("bytes {}-{}/", range.start, range.end.saturating_sub(1));
    let placed = match head.get("content-range") {
        // The length of the whole may be a star.
        Some(found) => found.strip_prefix(&wanted).is_some_and(|whole| {
            let whole = whole.trim().parse::<u64>().ok();
            known.len.is_none_or(|len| whole.is_none_or(|whole| whole == len))
        }),
        // The whole, in place of a range that is the whole.
        None => {
            let len = head.get("content-length").and_then(|text| text.parse().ok());
            range.start == 0 && len == Some(range.end) && known.len.is_none_or(|known| len == Some(known))
        }
    };
    if same && placed {
        return Ok(());
    }
    Err(Fault::new(Class::Condition, "the answer is not what was asked for"))
}

/// Reads an answer that says no: the reason, and all that it says.
async fn refusal(signer: &impl Signer, answer: Response) -> Answer<(Fault, Vec<u8>)> {
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let retry_after = headers.get("retry-after").and_then(|value| value.to_str().ok());
    let retry_after = retry_after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    let mut content = Vec::new();
    let mut chunks = answer.bytes_stream();
    while let Some(Ok(bytes)) = chunks.next().await {
        content.extend_from_slice(&bytes);
        if content.len() > 64 << 10 {
            break;
        }
    }
    let fault = skewed(signer.refusal(status, &headers, &content), &headers);
    let fault = Fault { retry_after, ..fault };
    Ok((fault, content))
}

/// A variable of the environment that is set to something.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderMap, HeaderValue};

    #[test]
    fn an_answer_of_another_object_or_range_is_not_taken() {
        let answer = |headers: &[(&'static str, &'static str)]| {
            let pairs = headers.iter().map(|(name, value)| {
                (reqwest::header::HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            Head { status: 206, headers: pairs.collect::<HeaderMap>(), host: "h".to_owned() }
        };
        let part = ("content-range", "bytes 2-4/9");
        let is = |headers: &[_], range: Range<u64>| {
            is_of(&answer(headers), &range, Known { etag: "\"e\"", len: Some(9) }).is_ok()
        };
        assert!(is(&[part, ("etag", "\"e\"")], 2..5) && is(&[part, ("etag", "W/\"e\"")], 2..5));
        assert!(!is(&[part, ("etag", "\"f\"")], 2..5));
        // Of an object of another length.
        assert!(
            !is(&[("content-range", "bytes 2-4/8")], 2..5) && is(&[("content-range", "bytes 2-4/*")], 2..5)
        );
        assert!(!is(&[part], 2..6) && !is(&[part], 0..5) && !is(&[("content-length", "9")], 2..5));
        assert!(is(&[("content-length", "9")], 0..9) && !is(&[("content-length", "9")], 0..5));
    }
}
