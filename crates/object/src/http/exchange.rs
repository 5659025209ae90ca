//! Sends a request and reads its answer.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use haul_core::{IpFamily, Pace};
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use reqwest::{Method, Response};

use super::call::{HttpCall, ResponseHead, Signed, Signer, host_of};
use super::pacing::{chunks, wait_turn};
use super::recognition::{Recognition, is_page};
use super::tls;
use crate::fault::{FailureClass, Fault};
use crate::meter::Requests;
use crate::payload::CHUNK;
use crate::settings::StoreSettings;
use crate::store::{ExpectedObject, RequestProgress, RequestResult, TakeBytes};
use crate::url::address;

/// The longest answer that is read whole. A page has at most a few thousand keys of 1,024 bytes, each byte of which may
/// be encoded as three.
const MAX_ANSWER: usize = 16 << 20;

/// How often a request in flight is checked for progress and cancellation.
const LOOK: Duration = Duration::from_millis(100);

/// Fewer bytes than this within the stall limit count as no progress.
const DRIP: u64 = 4 << 10;

/// How long idle connections are kept: stores close them after about 20 s.
const IDLE: Duration = Duration::from_secs(15);

/// The connection timeout.
const CONNECT: Duration = Duration::from_secs(10);

/// Connections to one provider.
pub(crate) struct Http {
    client: reqwest::Client,
    pace: Pace,
    requests: Arc<Requests>,
    /// Whether a store of the expected kind answers.
    pub(crate) recognition: Recognition,
}

/// A client of the provider, which trusts nobody yet.
fn builder(family: Option<IpFamily>) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .local_address(family.map(IpFamily::any))
        .http1_only()
        .tcp_nodelay(true)
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("haul/", env!("CARGO_PKG_VERSION")))
}

impl Http {
    /// Trusts the system's certificates and those in the file `ca_bundle`.
    ///
    /// # Errors
    /// A sentence if the file cannot be read.
    pub(crate) fn new(
        requests: Arc<Requests>,
        ca_bundle: Option<&str>,
        settings: &StoreSettings,
    ) -> Result<Self, String> {
        let family = settings.family;
        let client = match ca_bundle {
            Some(file) => builder(family).tls_backend_preconfigured(tls::config(file)?).build(),
            // Without certificates of the system, as in an empty container, http:// works.
            None => builder(family).build().or_else(|_| builder(family).tls_certs_only([]).build()),
        };
        let client = client.map_err(|error| error.to_string())?;
        Ok(Self { client, pace: settings.pace.clone(), requests, recognition: Recognition::default() })
    }

    /// Sends a request and reads the whole answer; refuses web pages.
    pub(crate) fn ask(
        &self,
        signer: &impl Signer,
        call: &HttpCall<'_>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<(ResponseHead, Vec<u8>)> {
        let asked = self.ask_up_to(signer, call, MAX_ANSWER, at);
        let (head, content) = asked.map_err(|fault| match fault.class {
            FailureClass::TooLong => Fault::nonsense("it is longer than any answer is"),
            _ => fault,
        })?;
        if is_page(&head, &content) {
            return Err(self.recognition.foreign(signer, &head, "a page"));
        }
        Ok((head, content))
    }

    /// Sends a request and parses the answer with `read`.
    pub(crate) fn asked<T>(
        &self,
        signer: &impl Signer,
        call: &HttpCall<'_>,
        at: &RequestProgress<'_>,
        read: impl FnOnce(&[u8]) -> RequestResult<T>,
    ) -> RequestResult<T> {
        let (head, content) = self.ask(signer, call, at)?;
        let answer = self.recognition.understood(signer, &head, read(&content));
        if answer.is_ok() {
            self.recognition.prove();
        }
        answer
    }

    /// Sends a request and reads an answer of at most `limit` bytes.
    pub(crate) fn ask_up_to(
        &self,
        signer: &impl Signer,
        call: &HttpCall<'_>,
        limit: usize,
        at: &RequestProgress<'_>,
    ) -> RequestResult<(ResponseHead, Vec<u8>)> {
        let mut content = Vec::new();
        let mut take = |bytes: &[u8]| content.extend_from_slice(bytes);
        let head = self.stream(signer, call, &|_| Ok(()), &mut take, limit as u64, at)?;
        // Its length was not known before. Requests that follow make up for a short answer.
        let turn = self.pace.inbound.reserve(content.len() as u64);
        if let Some(turn) = turn.filter(|_| content.len() > CHUNK) {
            turn.wait_end(&|| at.is_abandoned());
        }
        Ok((head, content))
    }

    /// Sends a request and passes the content of the answer to `take`, if `accept` approves its head, up to `limit`
    /// bytes.
    pub(crate) fn stream(
        &self,
        signer: &impl Signer,
        call: &HttpCall<'_>,
        accept: &(dyn Fn(&ResponseHead) -> RequestResult<()> + Sync),
        take: &mut (dyn FnMut(&[u8]) + Send),
        limit: u64,
        at: &RequestProgress<'_>,
    ) -> RequestResult<ResponseHead> {
        crate::runtime::block_on(async {
            let mut answer = watch(at, self.send(signer, call, at)).await?;
            // At most two corrections: the region, and the bucket in the host name.
            for _ in 0..2 {
                if answer.status().is_success() || !signer.learn(answer.headers()) {
                    break;
                }
                answer = watch(at, self.send(signer, call, at)).await?;
            }
            let head = ResponseHead::of(&answer);
            if !answer.status().is_success() {
                let (fault, content) = watch(at, refusal(signer, answer)).await?;
                return Err(self.recognition.refused(signer, call, &head, fault, &content));
            }
            accept(&head)?;
            let (mut read, mut seen) = (0, 0);
            while let Some(bytes) = watch(at, async { answer.chunk().await.map_err(|e| lost(&e)) }).await? {
                read += bytes.len() as u64;
                // A trickle counts as no progress.
                if read - seen >= DRIP {
                    seen = read;
                    at.moved();
                }
                if read > limit {
                    return Err(Fault::new(FailureClass::TooLong, "the answer is longer than it may be"));
                }
                take(&bytes);
            }
            Ok(head)
        })
    }

    /// Reads a range of an object, if it has the expected ETag.
    pub(crate) fn range(
        &self,
        signer: &impl Signer,
        call: HttpCall<'_>,
        range: Range<u64>,
        known: ExpectedObject<'_>,
        take: TakeBytes<'_>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<()> {
        let wanted = range.end - range.start;
        let mut call = call.header("range", format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
        let etag = known.etag;
        if !etag.is_empty() {
            // Some listings omit the quotes of ETags.
            let quoted = if etag.ends_with('"') { etag.to_owned() } else { format!("\"{etag}\"") };
            call = call.header("if-match", quoted);
        }
        let mut read = 0;
        let mut counted = |bytes: &[u8]| {
            read += bytes.len() as u64;
            take(bytes);
        };
        // The store sends faster than the limit, into the buffers of the system: a range waits before it is requested.
        let turn = self.pace.inbound.reserve(wanted);
        if let Some(turn) = &turn
            && !turn.wait_start(&|| at.is_abandoned())
        {
            return Err(Fault::new(FailureClass::Abandoned, "interrupted"));
        }
        at.moved();
        let answer = self.stream(signer, &call, &|head| is_of(head, &range, known), &mut counted, wanted, at);
        match (turn, &answer) {
            (Some(turn), Ok(_)) => {
                turn.wait_end(&|| at.is_abandoned());
            }
            (Some(turn), Err(_)) => turn.give_back(wanted.saturating_sub(read)),
            (None, _) => {}
        }
        answer?;
        if read < wanted {
            return Err(Fault::new(
                FailureClass::Again,
                format!("the answer ended after {read} of {wanted} bytes"),
            ));
        }
        Ok(())
    }

    async fn send(
        &self,
        signer: &impl Signer,
        call: &HttpCall<'_>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<Response> {
        // A short body waits before the request begins: no connection is held meanwhile, and no signature gets old.
        let short = call.body.filter(|body| body.len() <= CHUNK as u64);
        if let Some(body) = short {
            wait_turn(&self.pace.outbound, body.len(), || at.moved()).await;
        }
        let Signed { url, mut headers } = signer.sign(call).await?;
        let mut request = self.client.request(call.method.clone(), address(&url)?);
        self.requests.count(call.kind);
        if let Some(body) = call.body {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
            let moved = Arc::new(tokio::sync::Notify::new());
            let limit = if short.is_some() { Arc::default() } else { Arc::clone(&self.pace.outbound) };
            let chunks = chunks(body.clone(), limit, Arc::clone(&moved));
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

/// Runs a step of a request until it stalls or is cancelled.
async fn watch<T>(
    at: &RequestProgress<'_>,
    step: impl Future<Output = RequestResult<T>>,
) -> RequestResult<T> {
    tokio::pin!(step);
    loop {
        tokio::select! {
            done = &mut step => return done,
            () = tokio::time::sleep(LOOK) => {
                if at.is_abandoned() {
                    return Err(Fault::new(FailureClass::Abandoned, "interrupted"));
                }
                at.look();
                if at.is_stalled() {
                    let message = format!("no data for {} s", at.stall.as_secs_f64());
                    return Err(Fault::new(FailureClass::Again, message));
                }
            }
        }
    }
}

/// The failure of a connection, in the words of the innermost cause.
fn lost(error: &reqwest::Error) -> Fault {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    // An unbuildable request fails the same way each time.
    if error.is_builder() {
        return Fault::new(FailureClass::Final, text);
    }
    let host = error.url().map(host_of).unwrap_or_default();
    if text.contains("invalid HTTP version parsed") {
        return Fault::new(FailureClass::Nonsense, format!("{host} does not speak HTTP"));
    }
    if !error.is_connect() {
        return Fault::new(FailureClass::Again, text);
    }
    if let Some((_, why)) = text.split_once("invalid peer certificate: ") {
        let why = certificate_problem(why);
        let message =
            format!("the certificate of {host} is not trusted ({why}): --ca-cert FILE adds an authority");
        return Fault::new(FailureClass::Foreign, message);
    }
    // A TLS client that gets an HTTP answer.
    if text.contains("InvalidContentType") {
        return Fault::new(FailureClass::Foreign, format!("{host} does not speak TLS: is it http://{host}?"));
    }
    // The words of hyper for a name that has addresses of the other version of IP only.
    if text == "Network unreachable" {
        return Fault::new(
            FailureClass::NoHost,
            format!("{host} has no address of the kind that -4 or -6 asks for"),
        );
    }
    if text.contains("Name or service not known") {
        return Fault::new(FailureClass::NoHost, format!("no host is known as {host}"));
    }
    Fault::new(FailureClass::Again, format!("{host}: {text}"))
}

/// The reason of rustls, in words where it gives the name of a variant.
fn certificate_problem(why: &str) -> &str {
    match why {
        "UnknownIssuer" => "its issuer is unknown",
        "Other(OtherError(CaUsedAsEndEntity))" => "it is the certificate of an authority, not of a server",
        other => other,
    }
}

/// Adds both times to the refusal of a skewed clock.
fn skewed(fault: Fault, headers: &HeaderMap) -> Fault {
    if fault.class != FailureClass::Skewed {
        return fault;
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let here = crate::time::of_unix(now.as_secs());
    let there = headers.get("date").and_then(|value| value.to_str().ok()).map(crate::time::of_http);
    let there = there.unwrap_or_else(|| "another time".to_owned());
    let message = format!("the clocks differ by too much: it is {here} here, and {there} at the store");
    Fault { message, ..fault }
}

/// Checks that an answer has the requested object and range: not all stores and proxies support conditions and ranges.
fn is_of(head: &ResponseHead, range: &Range<u64>, known: ExpectedObject<'_>) -> RequestResult<()> {
    let etag = known.etag;
    let bare = |etag: &str| etag.trim_start_matches("W/").trim_matches('"').to_owned();
    let same = etag.is_empty() || head.get("etag").is_none_or(|found| bare(found) == bare(etag));
    let wanted = format!("bytes {}-{}/", range.start, range.end.saturating_sub(1));
    let placed = match head.get("content-range") {
        // The total length may be `*`.
        Some(found) => found.strip_prefix(&wanted).is_some_and(|whole| {
            let whole = whole.trim().parse::<u64>().ok();
            known.len.is_none_or(|len| whole.is_none_or(|whole| whole == len))
        }),
        // The whole object, if the range is the whole object.
        None => {
            let len = head.get("content-length").and_then(|text| text.parse().ok());
            range.start == 0 && len == Some(range.end) && known.len.is_none_or(|known| len == Some(known))
        }
    };
    if same && placed {
        return Ok(());
    }
    Err(Fault::new(FailureClass::Condition, "the answer does not fit the request"))
}

/// Reads an error answer: the failure, and the content.
async fn refusal(signer: &impl Signer, answer: Response) -> RequestResult<(Fault, Vec<u8>)> {
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
    // A bucket in another region is named by its own header.
    let elsewhere = headers.get("x-amz-bucket-region").filter(|_| status == 301);
    let region = fault.region.clone().or(elsewhere.and_then(|value| value.to_str().ok()).map(str::to_owned));
    let fault = Fault { retry_after, region, ..fault };
    Ok((fault, content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderMap, HeaderValue};

    #[test]
    fn an_answer_of_another_object_or_range_is_refused() {
        let answer = |headers: &[(&'static str, &'static str)]| {
            let pairs = headers.iter().map(|(name, value)| {
                (reqwest::header::HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            ResponseHead { status: 206, headers: pairs.collect::<HeaderMap>(), host: "h".to_owned() }
        };
        let part = ("content-range", "bytes 2-4/9");
        let is = |headers: &[_], range: Range<u64>| {
            is_of(&answer(headers), &range, ExpectedObject { etag: "\"e\"", len: Some(9) }).is_ok()
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
