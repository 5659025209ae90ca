//! AWS and compatible stores: addresses, signatures, headers.

use haul_core::sync::RwLock;
use std::sync::OnceLock;
use std::time::Duration;

use object_store::aws::AwsAuthorizer;
use object_store::client::{HttpRequest, HttpRequestBody};
use reqwest::header::HeaderMap;

use super::address::Address;
use super::credentials::AwsCredentialChain;
use super::dialect::Dialect;
use crate::fault::{FailureClass, Fault};
use crate::http::{HttpCall, ResponseHead, Signed, Signer};
use crate::payload::{Payload, base64, crc64_of, crc64_text};
use crate::store::{Checksum, PutOptions, RequestResult, Tag, Terms, Whole};
use crate::url::{form, in_clear};
use crate::url_method::UrlMethod;

/// The limits of AWS and of most compatible stores
/// (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html>).
pub(crate) const TERMS: Terms = Terms {
    max_parts: 10_000,
    check: Checksum::Crc64,
    delete_batch: 1000,
    // https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html
    max_copy_len: 5 << 30,
    keeps_uploads: None,
    lists_uploads: true,
    metadata_at_end: false,
    credentials: "credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, ~/.aws (AWS_PROFILE), a web \
                  identity, the container's or the instance's role",
};

/// The AWS name of the CRC-64 of whole objects.
const CRC64: &str = "CRC64NVME";

/// A bucket at AWS or at a compatible store.
pub(crate) struct Aws {
    /// `None`: requests are not signed.
    pub(super) credentials: Option<AwsCredentialChain>,
    pub(super) address: Address,
    pub(super) region: RwLock<String>,
    /// The host that receives a session token in plain text.
    pub(super) plain_text_host: OnceLock<String>,
}

impl Signer for Aws {
    const SPOKEN: &'static str = "S3";
    const PREFIX: &'static str = "x-amz-";

    async fn sign(&self, call: &HttpCall<'_>) -> RequestResult<Signed> {
        let region = self.region.read().clone();
        let url = self.address.url(&region, call.key, &call.query);
        let Some(credentials) = &self.credentials else {
            return Ok(Signed { url, headers: call.header_map()? });
        };
        let credential = credentials.get().await?;
        if credential.token.is_some()
            && self.plain_text_host.get().is_none()
            && let Some(host) = in_clear(&url)
        {
            self.plain_text_host.get_or_init(|| host);
        }
        let mut signed = HttpRequest::new(HttpRequestBody::empty());
        *signed.method_mut() = call.method.clone();
        *signed.uri_mut() = url.parse().map_err(|_| Fault::unsendable("its name"))?;
        *signed.headers_mut() = call.header_map()?;
        let authorizer = AwsAuthorizer::new(&credential, "s3", &region);
        let sign = authorizer.with_sign_payload(call.body.is_none()).try_authorize(&mut signed, None);
        sign.map_err(|error| Fault::new(FailureClass::Login, error.to_string()))?;
        Ok(Signed { url, headers: std::mem::take(signed.headers_mut()) })
    }

    /// Learns the region that an answer names.
    fn learn(&self, answer: &HeaderMap) -> bool {
        let named = answer.get("x-amz-bucket-region").and_then(|value| value.to_str().ok());
        let Some(named) = named else { return false };
        let mut region = self.region.write();
        let new = *region != named;
        named.clone_into(&mut region);
        new
    }

    fn refusal(&self, status: u16, _: &HeaderMap, content: &[u8]) -> Fault {
        let fault = crate::xml::refusal(status, content);
        if fault.code == "SecondLevelDomainForbidden" && self.address.leave_path() {
            return Fault { class: FailureClass::Again, ..fault };
        }
        if matches!(fault.class, FailureClass::Expired | FailureClass::Login) {
            self.credentials.iter().for_each(AwsCredentialChain::forget);
        }
        fault
    }
}

impl Dialect for Aws {
    const ASKS_FOR_SUMS: Option<(&'static str, &'static str)> = Some(("x-amz-checksum-mode", "ENABLED"));
    const COMPLETES_ON_CONDITION: bool = true;
    const COPIES_PARTS: bool = true;

    fn terms(&self) -> &'static Terms {
        &TERMS
    }

    fn warning(&self) -> Option<String> {
        let host = self.plain_text_host.get()?;
        Some(format!(
            "the session token and the content go to {host} in the clear: everybody on the way can read them"
        ))
    }

    fn check_options(&self, _: &PutOptions) -> RequestResult<()> {
        Ok(())
    }

    fn kept<'a>(&self, mut call: HttpCall<'a>, options: &PutOptions) -> HttpCall<'a> {
        if let Some(sse) = &options.sse {
            call = call.header("x-amz-server-side-encryption", sse);
        }
        if let Some(key) = &options.sse_kms_key_id {
            call = call.header("x-amz-server-side-encryption-aws-kms-key-id", key);
        }
        if options.tags.is_empty() { call } else { call.header("x-amz-tagging", form(&options.tags)) }
    }

    fn if_free<'a>(&self, call: HttpCall<'a>) -> HttpCall<'a> {
        call.header("if-none-match", "*")
    }

    fn checked<'a>(
        &self,
        call: HttpCall<'a>,
        body: &Payload,
        check: Checksum,
    ) -> RequestResult<HttpCall<'a>> {
        match check {
            Checksum::Md5 => Ok(call.header("content-md5", base64(&body.md5()?))),
            _ => Ok(call.header("x-amz-checksum-crc64nvme", crc64_text(body.crc64()))),
        }
    }

    fn announced<'a>(&self, call: HttpCall<'a>, check: Checksum) -> HttpCall<'a> {
        match check {
            Checksum::Md5 => call,
            _ => call.header("x-amz-checksum-algorithm", CRC64).header("x-amz-checksum-type", "FULL_OBJECT"),
        }
    }

    fn whole<'a>(&self, call: HttpCall<'a>, whole: Whole) -> HttpCall<'a> {
        let Some(crc64) = whole.crc64 else { return call };
        let call = call.header("x-amz-checksum-crc64nvme", crc64_text(crc64));
        call.header("x-amz-checksum-type", "FULL_OBJECT")
    }

    fn sums(&self, head: &ResponseHead) -> Tag {
        let whole = head.get("x-amz-checksum-type").is_none_or(|kind| kind == "FULL_OBJECT");
        let crc64 = head.get("x-amz-checksum-crc64nvme").filter(|_| whole).and_then(crc64_of);
        Tag { crc64, ..Tag::default() }
    }

    fn signed_url(&self, key: &str, method: UrlMethod, lasts: Duration) -> RequestResult<String> {
        self.signed_url(key, method, lasts)
    }

    /// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html>: us-east-1 has no name in it.
    fn bucket_region(&self) -> Option<String> {
        Some(self.region.read().clone()).filter(|region| region != "us-east-1")
    }

    /// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html>, "`ETag`".
    fn is_keyed(&self, head: &ResponseHead) -> bool {
        head.get("x-amz-server-side-encryption").is_some_and(|kind| kind.starts_with("aws:kms"))
            || head.get("x-amz-server-side-encryption-customer-algorithm").is_some()
    }
}
