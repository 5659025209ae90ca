//! Requests about whole objects.

use std::ops::Range;

use reqwest::Method;

use super::dialect::Dialect;
use super::{S3, xml};
use crate::fault::Class;
use crate::http::{Call, Head};
use crate::meter::Kind;
use crate::payload::{Payload, base64};
use crate::store::{Activity, Answer, Checksum, Deleted, Known, Object, Page, PutOptions, Tag, Take};
use crate::url::encode;

impl<D: Dialect> S3<D> {
    /// A header of the provider's.
    pub(super) fn named(&self, name: &str) -> String {
        format!("{}{name}", D::PREFIX)
    }

    pub(super) fn head_object(&self, key: &str, at: &Activity<'_>) -> Answer<Object> {
        let (head, _) = self.ask(&self.asking(Method::HEAD, key), at)?;
        let object = self.object(key, &head, head.len()?)?;
        self.vouch(&head, at)?;
        Ok(object)
    }

    pub(super) fn get_object(&self, key: &str, limit: usize, at: &Activity<'_>) -> Answer<(Object, Vec<u8>)> {
        let call = self.asking(Method::GET, key);
        let (head, content) = self.http.ask_up_to(&self.dialect, &call, limit, at)?;
        let object = self.object(key, &head, content.len() as u64)?;
        self.vouch(&head, at)?;
        Ok((object, content))
    }

    /// Asks for what is there under `key`, with its checksums.
    fn asking<'a>(&self, method: Method, key: &'a str) -> Call<'a> {
        let call = Call::new(Kind::Get, method, Some(key));
        D::ASKS_FOR_SUMS.into_iter().fold(call, |call, (name, value)| call.header(name, value))
    }

    /// What an answer says of an object of `len` bytes.
    fn object(&self, key: &str, head: &Head, len: u64) -> Answer<Object> {
        let sums = self.dialect.sums(head);
        Ok(Object {
            keyed: self.dialect.is_keyed(head),
            key: key.to_owned(),
            len,
            etag: self.http.understood(&self.dialect, head, head.etag())?,
            modified: head.get("last-modified").unwrap_or_default().to_owned(),
            class: head.get(&self.named("storage-class")).map(str::to_owned),
            metadata: head.notes(&self.named("meta-")).collect(),
            noted: true,
            crc64: sums.crc64,
            crc32c: sums.crc32c,
            content_md5: sums.content_md5,
        })
    }

    pub(super) fn get_range(
        &self,
        key: &str,
        range: Range<u64>,
        known: Known<'_>,
        take: Take<'_>,
        at: &Activity<'_>,
    ) -> Answer<()> {
        let call = Call::new(Kind::Get, Method::GET, Some(key));
        self.http.range(&self.dialect, call, range, known, take, at)
    }

    pub(super) fn put_object(
        &self,
        key: &str,
        body: &Payload,
        options: &PutOptions,
        check: Checksum,
        at: &Activity<'_>,
    ) -> Answer<Tag> {
        let mut call = Call::new(Kind::Put, Method::PUT, Some(key));
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

    /// Makes sure that what gave this answer is a store. An object, and an answer to one that is written, can come from
    /// anything that speaks HTTP; a page of a listing, or its refusal, cannot.
    fn vouch(&self, head: &Head, at: &Activity<'_>) -> Answer<()> {
        if self.http.is_proven(&self.dialect, head) {
            return Ok(());
        }
        let call = Call::new(Kind::List, Method::GET, None).query("list-type", "2").query("max-keys", "1");
        match self.http.asked(&self.dialect, &call, at, xml::page) {
            Err(fault) if fault.code.is_empty() => Err(fault),
            _ => Ok(()),
        }
    }

    /// Adds what an object is to be written with.
    pub(super) fn written<'a>(&self, mut call: Call<'a>, options: &'a PutOptions) -> Call<'a> {
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

    /// What an answer says of what was written.
    pub(super) fn tag(&self, head: &Head) -> Answer<Tag> {
        let etag = self.http.understood(&self.dialect, head, head.etag())?;
        Ok(Tag { etag, ..self.dialect.sums(head) })
    }

    pub(super) fn list_objects(
        &self,
        prefix: &str,
        delimiter: bool,
        next: Option<&str>,
        at: &Activity<'_>,
    ) -> Answer<Page> {
        let mut call = Call::new(Kind::List, Method::GET, None).query("list-type", "2");
        call = call.query("encoding-type", "url").query("prefix", prefix);
        if delimiter {
            call = call.query("delimiter", "/");
        }
        if let Some(token) = next {
            call = call.query("continuation-token", token);
        }
        self.http.asked(&self.dialect, &call, at, xml::page)
    }

    pub(super) fn delete_object(&self, key: &str, at: &Activity<'_>) -> Answer<()> {
        match self.ask(&Call::new(Kind::Delete, Method::DELETE, Some(key)), at) {
            Err(fault) if fault.class != Class::NotFound || fault.code == "NoSuchBucket" => Err(fault),
            _ => Ok(()),
        }
    }

    pub(super) fn delete_objects(&self, keys: &[&str], at: &Activity<'_>) -> Answer<Deleted> {
        let body = Payload::from_bytes(xml::delete(keys)?);
        let mut call = Call::new(Kind::Delete, Method::POST, None).query("delete", "");
        call.body = Some(&body);
        let call = self.dialect.checked(call, &body, Checksum::Md5)?;
        self.http.asked(&self.dialect, &call, at, xml::deleted)
    }

    pub(super) fn copy_object(
        &self,
        from: &Object,
        to: &str,
        options: &PutOptions,
        at: &Activity<'_>,
    ) -> Answer<()> {
        let mut call = Call::new(Kind::Put, Method::PUT, Some(to));
        call = self.copied_from(call, from);
        if !options.metadata.is_empty() {
            call = call.header(self.named("metadata-directive"), "REPLACE");
        }
        let call = self.written(call, options);
        self.http.asked(&self.dialect, &call, at, xml::copied).map(drop)
    }

    /// Names an object of this bucket as a source of copies, as long as it bears its mark.
    pub(super) fn copied_from<'a>(&self, call: Call<'a>, from: &Object) -> Call<'a> {
        let mut source = format!("/{}/", self.bucket);
        encode(&from.key, true, &mut source);
        let call = call.header(self.named("copy-source"), source);
        call.header(self.named("copy-source-if-match"), &from.etag)
    }
}

/// A checksum as the store writes it.
pub(super) fn crc64_text(crc64: u64) -> String {
    base64(&crc64.to_be_bytes())
}
