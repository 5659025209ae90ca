//! One request: its address, its signature, its way there and the answer.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use object_store::aws::AwsAuthorizer;
use object_store::client::{HttpRequest, HttpRequestBody};
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response};

use super::{S3, xml};
use crate::fault::{Class, Fault};
use crate::meter::Kind;
use crate::payload::Payload;
use crate::store::{Activity, Answer};

/// An answer that is read whole is no longer than this; a page of a listing has at most a thousand keys of 1,024
/// bytes, each of which may be written as three.
const MAX_ANSWER: usize = 16 << 20;

/// How often a request is looked at, whether it still moves and is wanted.
const LOOK: Duration = Duration::from_millis(100);

/// A request.
pub(super) struct Call<'a> {
    pub(super) kind: Kind,
    pub(super) method: Method,
    pub(super) key: Option<&'a str>,
    pub(super) query: Vec<(&'a str, String)>,
    pub(super) headers: Vec<(Cow<'a, str>, String)>,
    pub(super) body: Option<&'a Payload>,
}

impl<'a> Call<'a> {
    /// Without query, headers and body.
    pub(super) fn new(kind: Kind, method: Method, key: Option<&'a str>) -> Self {
        Self { kind, method, key, query: Vec::new(), headers: Vec::new(), body: None }
    }

    /// With one more parameter.
    pub(super) fn query(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// With one more header.
    pub(super) fn header(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// What an answer says besides its content.
pub(super) struct Head(pub(super) HeaderMap);

impl Head {
    /// A header as text.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }

    /// The mark of the object or the part.
    pub(super) fn etag(&self) -> Answer<String> {
        let none = || Fault::new(Class::Again, "the answer has no ETag");
        self.get("etag").map(str::to_owned).filter(|etag| !etag.is_empty()).ok_or_else(none)
    }
}

impl S3 {
    /// Asks and reads the whole answer.
    pub(super) fn ask(&self, call: &Call<'_>, at: &Activity<'_>) -> Answer<(Head, Vec<u8>)> {
        let mut content = Vec::new();
        let mut take = |bytes: &[u8]| content.extend_from_slice(bytes);
        let head = self.stream(call, &|_| Ok(()), &mut take, MAX_ANSWER as u64, at)?;
        Ok((head, content))
    }

    /// Asks, and hands over the content of an answer that `accept` likes as it comes, up to `limit` bytes.
    pub(super) fn stream(
        &self,
        call: &Call<'_>,
        accept: &(dyn Fn(&Head) -> Answer<()> + Sync),
        take: &mut (dyn FnMut(&[u8]) + Send),
        limit: u64,
        at: &Activity<'_>,
    ) -> Answer<Head> {
        crate::runtime::block_on(async {
            let mut answer = watch(at, self.send(call, at)).await?;
            // Twice at most: another region, and the bucket in the name of the host.
            for _ in 0..2 {
                if answer.status().is_success() || !self.learn(&answer) {
                    break;
                }
                answer = watch(at, self.send(call, at)).await?;
            }
            if !answer.status().is_success() {
                let fault = watch(at, refusal(answer)).await?;
                if fault.code == "SecondLevelDomainForbidden" && self.address.leave_path() {
                    return Err(Fault { class: Class::Again, ..fault });
                }
                if matches!(fault.class, Class::Expired | Class::Login) {
                    self.credentials.forget();
                }
                return Err(fault);
            }
            let head = Head(answer.headers().clone());
            accept(&head)?;
            let mut read = 0;
            while let Some(bytes) = watch(at, async { answer.chunk().await.map_err(|e| lost(&e)) }).await? {
                at.moved();
                read += bytes.len() as u64;
                if read > limit {
                    return Err(Fault::new(Class::TooLong, "the answer is longer than it may be"));
                }
                take(&bytes);
            }
            Ok(head)
        })
    }

    /// Learns the region that an answer names. Whether that is new.
    fn learn(&self, answer: &Response) -> bool {
        let named = answer.headers().get("x-amz-bucket-region").and_then(|value| value.to_str().ok());
        let Some(named) = named else { return false };
        let mut region = self.region.write().unwrap_or_else(PoisonError::into_inner);
        let new = *region != named;
        named.clone_into(&mut region);
        new
    }

    async fn send(&self, call: &Call<'_>, at: &Activity<'_>) -> Answer<Response> {
        let region = self.region.read().unwrap_or_else(PoisonError::into_inner).clone();
        let url = self.address.url(&region, call.key, &call.query);
        let credential = self.credentials.get().await?;
        let refused = |what: &str| Fault::new(Class::Final, format!("{what} cannot be sent in a request"));
        let mut signed = HttpRequest::new(HttpRequestBody::empty());
        *signed.method_mut() = call.method.clone();
        *signed.uri_mut() = url.parse().map_err(|_| refused("its name"))?;
        for (name, value) in &call.headers {
            let name = HeaderName::from_str(name).map_err(|_| refused("a header's name"))?;
            let value = HeaderValue::from_str(value).map_err(|_| refused("a header's value"))?;
            signed.headers_mut().insert(name, value);
        }
        let authorizer = AwsAuthorizer::new(&credential, "s3", &region);
        let sign = authorizer.with_sign_payload(call.body.is_none()).try_authorize(&mut signed, None);
        sign.map_err(|error| Fault::new(Class::Login, error.to_string()))?;
        let mut headers = std::mem::take(signed.headers_mut());
        let mut request = self.http.request(call.method.clone(), &url);
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
    // What can be told from the request alone will be the same next time.
    let class = if error.is_builder() { Class::Final } else { Class::Again };
    Fault::new(class, cause.to_string())
}

/// Reads an answer that says no.
async fn refusal(answer: Response) -> Answer<Fault> {
    let status = answer.status().as_u16();
    let header =
        |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok().map(str::to_owned));
    let retry_after =
        header("retry-after").and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    let mut content = Vec::new();
    let mut chunks = answer.bytes_stream();
    while let Some(Ok(bytes)) = chunks.next().await {
        content.extend_from_slice(&bytes);
        if content.len() > 64 << 10 {
            break;
        }
    }
    Ok(Fault { retry_after, ..xml::refusal(status, &content) })
}
