//! One request before it is sent, and the head of its answer. The provider addresses and signs it ([`Signer`]).

use std::borrow::Cow;
use std::future::Future;
use std::str::FromStr;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response};

use crate::fault::{FailureClass, Fault};
use crate::meter::RequestKind;
use crate::payload::Payload;
use crate::store::RequestResult;

/// A request.
pub(crate) struct HttpCall<'a> {
    pub(crate) kind: RequestKind,
    pub(crate) method: Method,
    pub(crate) key: Option<&'a str>,
    pub(crate) query: Vec<(&'a str, String)>,
    pub(crate) headers: Vec<(Cow<'a, str>, String)>,
    pub(crate) body: Option<&'a Payload>,
}

impl<'a> HttpCall<'a> {
    /// A request without query, headers and body.
    pub(crate) fn new(kind: RequestKind, method: Method, key: Option<&'a str>) -> Self {
        Self { kind, method, key, query: Vec::new(), headers: Vec::new(), body: None }
    }

    /// Adds a query parameter.
    pub(crate) fn query(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// Adds a header.
    pub(crate) fn header(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The headers as they are sent.
    ///
    /// # Errors
    /// `Final` if a name or value is not visible ASCII, which the signature requires.
    pub(crate) fn header_map(&self) -> RequestResult<HeaderMap> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let name = HeaderName::from_str(name).map_err(|_| Fault::unsendable("a header's name"))?;
            let text = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
            let value = HeaderValue::from_str(value).ok().filter(|_| text);
            map.insert(name, value.ok_or_else(|| Fault::unsendable("a header's value"))?);
        }
        Ok(map)
    }
}

/// A signed request.
pub(crate) struct Signed {
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
}

/// How a provider addresses and signs requests.
pub(crate) trait Signer {
    /// The provider's protocol, for messages.
    const SPOKEN: &'static str;

    /// The prefix of the headers that only such a store sends.
    const PREFIX: &'static str;

    /// Addresses and signs a request.
    fn sign(&self, call: &HttpCall<'_>) -> impl Future<Output = RequestResult<Signed>>;

    /// Whether an error answer says how to address the request correctly: then it is repeated at once.
    fn learn(&self, _answer: &HeaderMap) -> bool {
        false
    }

    /// The failure that an error answer describes. Drops refused credentials.
    fn refusal(&self, status: u16, answer: &HeaderMap, content: &[u8]) -> Fault;
}

/// An answer without its content.
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The host that answered, with its port.
    pub(crate) host: String,
}

impl ResponseHead {
    pub(super) fn of(answer: &Response) -> Self {
        let host = host_of(answer.url());
        Self { status: answer.status().as_u16(), headers: answer.headers().clone(), host }
    }

    /// A header as text.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The ETag of the object or part, which every store sends in such an answer.
    pub(crate) fn etag(&self) -> RequestResult<String> {
        let none = || Fault::new(FailureClass::Foreign, "no ETag");
        self.get("etag").map(str::to_owned).filter(|etag| !etag.is_empty()).ok_or_else(none)
    }

    /// Whether there is a header that only a store of this kind sends.
    pub(super) fn is_of(&self, prefix: &str) -> bool {
        self.headers.keys().any(|name| name.as_str().starts_with(prefix))
    }

    /// The content type, without parameters.
    pub(super) fn content_type(&self) -> &str {
        self.get("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim()
    }

    /// The length of the object in bytes.
    pub(crate) fn len(&self) -> RequestResult<u64> {
        let len = self.get("content-length").and_then(|text| text.parse().ok());
        len.ok_or_else(|| Fault::new(FailureClass::Again, "the answer has no length"))
    }

    /// User metadata, from the headers that begin with `prefix`.
    pub(crate) fn metadata<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (String, String)> + 'a {
        self.headers.iter().filter_map(move |(name, value)| {
            let name = name.as_str().strip_prefix(prefix)?;
            Some((name.to_owned(), value.to_str().ok()?.to_owned()))
        })
    }
}

/// The host and port of a URL.
pub(super) fn host_of(url: &reqwest::Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", url.host_str().unwrap_or_default())
}
