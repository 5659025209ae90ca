//! Requests about objects.

use std::ops::Range;

use reqwest::Method;

use super::bucket::S3;
use super::dialect::Dialect;
use super::xml;
use crate::details::Details;
use crate::fault::FailureClass;
use crate::http::HttpCall;
use crate::meter::RequestKind;
use crate::payload::Payload;
use crate::store::{
    Checksum, Deleted, ExpectedObject, ListPage, Object, ObjectRequests, PutOptions, RequestProgress,
    RequestResult, Tag, TakeBytes,
};

impl<D: Dialect> ObjectRequests for S3<D> {
    fn describe(&self, key: &str, at: &RequestProgress<'_>) -> RequestResult<(Object, Details)> {
        let (head, _) = self.ask(&self.asking(Method::HEAD, key), at)?;
        let object = self.object(key, &head, head.len()?)?;
        self.vouch(&head, at)?;
        Ok((object, Details::of(&|name| head.get(name))))
    }

    fn get(
        &self,
        key: &str,
        range: Range<u64>,
        known: ExpectedObject<'_>,
        take: TakeBytes<'_>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<()> {
        let call = HttpCall::new(RequestKind::Get, Method::GET, Some(key));
        self.http.range(&self.dialect, call, range, known, take, at)
    }

    fn get_whole(
        &self,
        key: &str,
        limit: usize,
        at: &RequestProgress<'_>,
    ) -> RequestResult<(Object, Vec<u8>)> {
        let call = self.asking(Method::GET, key);
        let (head, content) = self.http.ask_up_to(&self.dialect, &call, limit, at)?;
        let object = self.object(key, &head, content.len() as u64)?;
        self.vouch(&head, at)?;
        Ok((object, content))
    }

    fn put(
        &self,
        key: &str,
        body: &Payload,
        options: &PutOptions,
        check: Checksum,
        at: &RequestProgress<'_>,
    ) -> RequestResult<Tag> {
        let mut call = HttpCall::new(RequestKind::Put, Method::PUT, Some(key));
        call.body = Some(body);
        call = self.written(call, options);
        if options.no_clobber {
            call = self.dialect.if_free(call);
        }
        let (head, _) = self.ask(&self.dialect.checked(call, body, check)?, at)?;
        let tag = self.tag(&head)?;
        self.vouch(&head, at)?;
        Ok(tag)
    }

    fn list(
        &self,
        prefix: &str,
        delimiter: bool,
        next: Option<&str>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<ListPage> {
        let mut call = HttpCall::new(RequestKind::List, Method::GET, None).query("list-type", "2");
        call = call.query("encoding-type", "url").query("prefix", prefix);
        if delimiter {
            call = call.query("delimiter", "/");
        }
        if let Some(token) = next {
            call = call.query("continuation-token", token);
        }
        self.http.asked(&self.dialect, &call, at, xml::page)
    }

    fn delete(&self, key: &str, etag: Option<&str>, at: &RequestProgress<'_>) -> RequestResult<()> {
        let mut call = HttpCall::new(RequestKind::Delete, Method::DELETE, Some(key));
        if let Some(etag) = etag {
            call = call.header("if-match", etag);
        }
        match self.ask(&call, at) {
            Err(fault) if fault.class != FailureClass::NotFound || fault.code == "NoSuchBucket" => Err(fault),
            _ => Ok(()),
        }
    }

    fn deletes_together(&self, key: &str) -> bool {
        xml::is_plain(key)
    }

    fn delete_all(&self, keys: &[&str], at: &RequestProgress<'_>) -> RequestResult<Deleted> {
        let body = Payload::from_bytes(xml::delete(keys)?);
        let mut call = HttpCall::new(RequestKind::Delete, Method::POST, None).query("delete", "");
        call.body = Some(&body);
        let call = self.dialect.checked(call, &body, Checksum::Md5)?;
        self.http.asked(&self.dialect, &call, at, xml::deleted)
    }

    fn copy(
        &self,
        from: &Object,
        to: &str,
        options: &PutOptions,
        at: &RequestProgress<'_>,
    ) -> RequestResult<()> {
        let mut call = HttpCall::new(RequestKind::Put, Method::PUT, Some(to));
        call = self.copied_from(call, from);
        if !options.metadata.is_empty() {
            call = call.header(self.named("metadata-directive"), "REPLACE");
        }
        let call = self.written(call, options);
        self.http.asked(&self.dialect, &call, at, xml::copied).map(drop)
    }
}
