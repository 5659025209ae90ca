//! Requests about multipart uploads.

use std::ops::Range;

use reqwest::Method;

use super::bucket::S3;
use super::dialect::Dialect;
use super::xml;
use crate::fault::{FailureClass, Fault};
use crate::http::HttpCall;
use crate::meter::RequestKind;
use crate::payload::Payload;
use crate::store::{
    Checksum, HeldPart, Object, PartOf, PutOptions, RequestProgress, RequestResult, Tag, Upload,
    UploadRequests, Whole,
};

impl<D: Dialect> UploadRequests for S3<D> {
    fn create(
        &self,
        key: &str,
        options: &PutOptions,
        check: Checksum,
        at: &RequestProgress<'_>,
    ) -> RequestResult<String> {
        let call = HttpCall::new(RequestKind::Put, Method::POST, Some(key)).query("uploads", "");
        let call = self.dialect.announced(self.written(call, options), check);
        self.http.asked(&self.dialect, &call, at, xml::upload_id)
    }

    fn put_part(
        &self,
        part: PartOf<'_>,
        body: &Payload,
        check: Checksum,
        at: &RequestProgress<'_>,
    ) -> RequestResult<Tag> {
        let mut call = part_call(part);
        call.body = Some(body);
        let (head, _) = self.ask(&self.dialect.checked(call, body, check)?, at)?;
        self.tag(&head)
    }

    fn copy_part(
        &self,
        from: &Object,
        range: Range<u64>,
        part: PartOf<'_>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<Tag> {
        if !D::COPIES_PARTS {
            return Err(Fault::new(
                FailureClass::Unsupported,
                "the store makes no part of what it has already",
            ));
        }
        let range = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let call = self.copied_from(part_call(part), from);
        let call = call.header(self.named("copy-source-range"), range);
        self.http.asked(&self.dialect, &call, at, xml::copied)
    }

    fn complete(
        &self,
        upload: &Upload,
        parts: &[Tag],
        whole: Whole,
        options: &PutOptions,
        at: &RequestProgress<'_>,
    ) -> RequestResult<String> {
        let body = Payload::from_bytes(xml::complete(parts)?);
        let mut call =
            HttpCall::new(RequestKind::Put, Method::POST, Some(&upload.key)).query("uploadId", &upload.id);
        call.body = Some(&body);
        call = self.dialect.whole(call, whole);
        if options.no_clobber && D::COMPLETES_ON_CONDITION {
            call = self.dialect.if_free(call);
        }
        self.http.asked(&self.dialect, &call, at, xml::completed)
    }

    fn abort(&self, upload: &Upload, at: &RequestProgress<'_>) -> RequestResult<()> {
        let call = HttpCall::new(RequestKind::Delete, Method::DELETE, Some(&upload.key))
            .query("uploadId", &upload.id);
        match self.ask(&call, at) {
            Ok(_) => Ok(()),
            Err(Fault { class: FailureClass::NotFound, .. }) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    fn parts(
        &self,
        upload: &Upload,
        after: u32,
        at: &RequestProgress<'_>,
    ) -> RequestResult<(Vec<HeldPart>, bool)> {
        let call =
            HttpCall::new(RequestKind::List, Method::GET, Some(&upload.key)).query("uploadId", &upload.id);
        let call = call.query("max-parts", "1000").query("part-number-marker", after.to_string());
        self.http.asked(&self.dialect, &call, at, xml::parts)
    }

    fn uploads(
        &self,
        prefix: &str,
        marker: Option<&Upload>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<(Vec<Upload>, bool)> {
        let mut call =
            HttpCall::new(RequestKind::List, Method::GET, None).query("uploads", "").query("prefix", prefix);
        call = call.query("encoding-type", "url");
        if let Some(last) = marker {
            call = call.query("key-marker", &last.key).query("upload-id-marker", &last.id);
        }
        self.http.asked(&self.dialect, &call, at, xml::uploads)
    }
}

fn part_call<'a>(part: PartOf<'a>) -> HttpCall<'a> {
    HttpCall::new(RequestKind::Put, Method::PUT, Some(&part.upload.key))
        .query("partNumber", part.number.to_string())
        .query("uploadId", &part.upload.id)
}
