//! Requests about blobs.

use std::ops::Range;
use std::time::Duration;

use reqwest::Method;

use super::container::{Azure, tag};
use super::options::{check_options, checked, haul_key, written};
use super::xml;
use crate::details::Details;
use crate::fault::{FailureClass, Fault};
use crate::http::{HttpCall, ResponseHead};
use crate::meter::RequestKind;
use crate::payload::{Payload, md5_in};
use crate::store::{
    Checksum, ExpectedObject, ListPage, Object, ObjectRequests, PutOptions, RequestProgress, RequestResult,
    Tag, TakeBytes,
};

/// How often a pending copy is checked.
const LOOK: Duration = Duration::from_millis(500);

impl ObjectRequests for Azure {
    fn describe(&self, key: &str, at: &RequestProgress<'_>) -> RequestResult<(Object, Details)> {
        let (head, _) = self.ask(&HttpCall::new(RequestKind::Get, Method::HEAD, Some(key)), at)?;
        let len = head.len()?;
        let object = self.http.recognition.understood(&self.login, &head, object(key, &head, len))?;
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
        self.http.range(&self.login, call, range, known, take, at)
    }

    fn get_whole(
        &self,
        key: &str,
        limit: usize,
        at: &RequestProgress<'_>,
    ) -> RequestResult<(Object, Vec<u8>)> {
        let call = HttpCall::new(RequestKind::Get, Method::GET, Some(key));
        let (head, content) = self.http.ask_up_to(&self.login, &call, limit, at)?;
        self.vouch(&head)?;
        let object = object(key, &head, content.len() as u64);
        Ok((self.http.recognition.understood(&self.login, &head, object)?, content))
    }

    fn put(
        &self,
        key: &str,
        body: &Payload,
        options: &PutOptions,
        check: Checksum,
        at: &RequestProgress<'_>,
    ) -> RequestResult<Tag> {
        let mut call =
            HttpCall::new(RequestKind::Put, Method::PUT, Some(key)).header("x-ms-blob-type", "BlockBlob");
        call.body = Some(body);
        let call = checked(written(call, options), body, check)?;
        let (head, _) = self.ask(&call, at)?;
        Ok(tag(&head, self.http.recognition.understood(&self.login, &head, head.etag())?))
    }

    fn list(
        &self,
        prefix: &str,
        delimiter: bool,
        next: Option<&str>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<ListPage> {
        let mut call = HttpCall::new(RequestKind::List, Method::GET, None).query("restype", "container");
        call = call.query("comp", "list").query("include", "metadata").query("prefix", prefix);
        // With up to 8 KiB of metadata each, more blobs would exceed the longest answer.
        call = call.query("maxresults", "1000");
        if delimiter {
            call = call.query("delimiter", "/");
        }
        if let Some(marker) = next {
            call = call.query("marker", marker);
        }
        self.asked(&call, at, xml::page)
    }

    fn delete(&self, key: &str, etag: Option<&str>, at: &RequestProgress<'_>) -> RequestResult<()> {
        let mut call = HttpCall::new(RequestKind::Delete, Method::DELETE, Some(key));
        if let Some(etag) = etag {
            call = call.header("if-match", etag);
        }
        match self.ask(&call, at) {
            Err(fault) if fault.class != FailureClass::NotFound || fault.code == "ContainerNotFound" => {
                Err(fault)
            }
            _ => Ok(()),
        }
    }

    fn copy(
        &self,
        from: &Object,
        to: &str,
        options: &PutOptions,
        at: &RequestProgress<'_>,
    ) -> RequestResult<()> {
        check_options(options)?;
        let call = HttpCall::new(RequestKind::Put, Method::PUT, Some(to));
        let call = call.header("x-ms-copy-source", self.login.address.readable(&from.key));
        let call = call.header("x-ms-source-if-match", &from.etag);
        let (mut head, _) = self.ask(&written(call, options), at)?;
        loop {
            match head.get("x-ms-copy-status") {
                None | Some("success") => return Ok(()),
                Some("pending") if at.is_abandoned() => {
                    return Err(Fault::new(FailureClass::Abandoned, "interrupted"));
                }
                Some("pending") => {}
                Some(_) => return Err(Fault::new(FailureClass::Final, "the copy inside the store failed")),
            }
            std::thread::sleep(LOOK);
            at.moved();
            head = self.ask(&HttpCall::new(RequestKind::Get, Method::HEAD, Some(to)), at)?.0;
        }
    }
}

/// The object that an answer describes, of `len` bytes.
fn object(key: &str, head: &ResponseHead, len: u64) -> RequestResult<Object> {
    Ok(Object {
        key: key.to_owned(),
        len,
        etag: head.etag()?,
        modified: crate::time::of_http(head.get("last-modified").unwrap_or_default()),
        class: head.get("x-ms-access-tier").map(str::to_owned),
        metadata: head.metadata("x-ms-meta-").map(|(name, value)| (haul_key(&name), value)).collect(),
        has_metadata: true,
        content_md5: head.get("content-md5").and_then(md5_in),
        ..Object::default()
    })
}
