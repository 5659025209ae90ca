//! One bucket: the state that all of its requests share.

use std::time::Duration;

use reqwest::Method;

use super::dialect::Dialect;
use super::xml;
use crate::bucket_page::BucketPage;
use crate::http::{Http, HttpCall, ResponseHead};
use crate::meter::RequestKind;
use crate::payload::Payload;
use crate::store::{Object, PutOptions, RequestProgress, RequestResult, Store, Tag, Terms};
use crate::url::encode;
use crate::url_method::UrlMethod;

/// One bucket.
pub(crate) struct S3<D> {
    pub(crate) http: Http,
    pub(crate) dialect: D,
    pub(crate) bucket: String,
}

impl<D: Dialect> S3<D> {
    /// Sends a request and reads the whole answer.
    pub(super) fn ask(
        &self,
        call: &HttpCall<'_>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<(ResponseHead, Vec<u8>)> {
        self.http.ask(&self.dialect, call, at)
    }

    /// The name of a provider-specific header.
    pub(super) fn named(&self, name: &str) -> String {
        format!("{}{name}", D::PREFIX)
    }

    /// A request for an object, with its checksums.
    pub(super) fn asking<'a>(&self, method: Method, key: &'a str) -> HttpCall<'a> {
        let call = HttpCall::new(RequestKind::Get, method, Some(key));
        D::ASKS_FOR_SUMS.into_iter().fold(call, |call, (name, value)| call.header(name, value))
    }

    /// The object that an answer describes, of `len` bytes.
    pub(super) fn object(&self, key: &str, head: &ResponseHead, len: u64) -> RequestResult<Object> {
        let sums = self.dialect.sums(head);
        Ok(Object {
            keyed: self.dialect.is_keyed(head),
            key: key.to_owned(),
            len,
            etag: self.http.recognition.understood(&self.dialect, head, head.etag())?,
            modified: head.get("last-modified").unwrap_or_default().to_owned(),
            class: head.get(&self.named("storage-class")).map(str::to_owned),
            metadata: head.metadata(&self.named("meta-")).collect(),
            has_metadata: true,
            crc64: sums.crc64,
            crc32c: sums.crc32c,
            content_md5: sums.content_md5,
        })
    }

    /// Verifies that a store sent this answer. Anything that speaks HTTP can send an object, or the answer to a write;
    /// only a store sends a page of a listing, or refuses one.
    pub(super) fn vouch(&self, head: &ResponseHead, at: &RequestProgress<'_>) -> RequestResult<()> {
        if self.http.recognition.is_proven(&self.dialect, head) {
            return Ok(());
        }
        let call = HttpCall::new(RequestKind::List, Method::GET, None)
            .query("list-type", "2")
            .query("max-keys", "1");
        match self.http.asked(&self.dialect, &call, at, xml::page) {
            Err(fault) if fault.code.is_empty() => Err(fault),
            _ => Ok(()),
        }
    }

    /// Adds the options of an object to be written.
    pub(super) fn written<'a>(&self, mut call: HttpCall<'a>, options: &'a PutOptions) -> HttpCall<'a> {
        for (name, value) in &options.headers {
            call = call.header(&name[..], value);
        }
        if let Some(class) = &options.storage_class {
            call = call.header(self.named("storage-class"), class);
        }
        call = self.dialect.kept(call, options);
        for (name, value) in &options.metadata {
            call = call.header(self.named(&format!("meta-{name}")), value);
        }
        call
    }

    /// The tag in the answer to a write.
    pub(super) fn tag(&self, head: &ResponseHead) -> RequestResult<Tag> {
        let etag = self.http.recognition.understood(&self.dialect, head, head.etag())?;
        Ok(Tag { etag, ..self.dialect.sums(head) })
    }

    /// Names an object of this bucket as the source of a copy, on the condition of its ETag.
    pub(super) fn copied_from<'a>(&self, call: HttpCall<'a>, from: &Object) -> HttpCall<'a> {
        let mut source = format!("/{}/", self.bucket);
        encode(&from.key, true, &mut source);
        let call = call.header(self.named("copy-source"), source);
        call.header(self.named("copy-source-if-match"), &from.etag)
    }
}

impl<D: Dialect> Store for S3<D> {
    fn terms(&self) -> &'static Terms {
        self.dialect.terms()
    }

    fn warning(&self) -> Option<String> {
        self.dialect.warning()
    }

    fn check_options(&self, options: &PutOptions) -> RequestResult<()> {
        self.dialect.check_options(options)
    }

    fn presign(&self, key: &str, method: UrlMethod, lasts: Duration) -> RequestResult<String> {
        self.dialect.signed_url(key, method, lasts)
    }

    fn list_buckets(&self, next: Option<&str>, at: &RequestProgress<'_>) -> RequestResult<BucketPage> {
        let mut call = HttpCall::new(RequestKind::List, Method::GET, None);
        if let Some(token) = next {
            call = call.query("continuation-token", token);
        }
        self.http.asked(&self.dialect, &self.dialect.of_project(call), at, crate::xml::bucket_page)
    }

    fn make_bucket(&self, at: &RequestProgress<'_>) -> RequestResult<()> {
        let body = self.dialect.bucket_region().map(|region| Payload::from_bytes(xml::location(&region)));
        let mut call = HttpCall::new(RequestKind::Put, Method::PUT, None);
        call.body = body.as_ref();
        self.ask(&self.dialect.of_project(call), at).map(drop)
    }

    fn remove_bucket(&self, at: &RequestProgress<'_>) -> RequestResult<()> {
        self.ask(&HttpCall::new(RequestKind::Delete, Method::DELETE, None), at).map(drop)
    }
}
