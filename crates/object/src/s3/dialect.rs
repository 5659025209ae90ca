//! The differences between providers of the S3 API: header names, checksums, conditions.

use std::time::Duration;

use crate::http::{HttpCall, ResponseHead, Signer};
use crate::payload::Payload;
use crate::store::{Checksum, PutOptions, RequestResult, Tag, Terms, Whole};
use crate::url_method::UrlMethod;

/// The dialect of one provider.
pub(crate) trait Dialect: Signer + Send + Sync {
    /// The header that requests the checksums of an object, where they are not sent anyway.
    const ASKS_FOR_SUMS: Option<(&'static str, &'static str)>;

    /// Whether a completion may be conditional on the absence of the object; else that is checked before.
    const COMPLETES_ON_CONDITION: bool;

    /// Whether a part may be copied from an object.
    const COPIES_PARTS: bool;

    /// The limits and features of its stores.
    fn terms(&self) -> &'static Terms;

    /// A warning about how requests are sent.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Checks that objects can be written with these options.
    ///
    /// # Errors
    /// `Unsupported`, naming the option that the provider lacks.
    fn check_options(&self, options: &PutOptions) -> RequestResult<()>;

    /// Adds the headers for encryption and tags.
    fn kept<'a>(&self, call: HttpCall<'a>, options: &PutOptions) -> HttpCall<'a>;

    /// Adds the condition that the object does not exist.
    fn if_free<'a>(&self, call: HttpCall<'a>) -> HttpCall<'a>;

    /// Adds the checksum of the body.
    ///
    /// # Errors
    /// The error of reading the body.
    fn checked<'a>(&self, call: HttpCall<'a>, body: &Payload, check: Checksum)
    -> RequestResult<HttpCall<'a>>;

    /// Adds the checksum algorithm of the parts of an upload.
    fn announced<'a>(&self, call: HttpCall<'a>, check: Checksum) -> HttpCall<'a>;

    /// Adds the checksum of a multipart object.
    fn whole<'a>(&self, call: HttpCall<'a>, whole: Whole) -> HttpCall<'a>;

    /// The checksums in an answer, without an ETag.
    fn sums(&self, head: &ResponseHead) -> Tag;

    /// A URL with which anyone can read or write one object for some time.
    ///
    /// # Errors
    /// `Unsupported` if the credentials cannot sign URLs, else the failure to find them.
    fn signed_url(&self, key: &str, method: UrlMethod, lasts: Duration) -> RequestResult<String>;

    /// The region of a new bucket, unless it is where the store puts buckets anyway.
    fn bucket_region(&self) -> Option<String>;

    /// Adds the project to a request for a new bucket or for all buckets.
    fn of_project<'a>(&self, call: HttpCall<'a>) -> HttpCall<'a> {
        call
    }

    /// Whether the object is encrypted so that its ETag is not an MD5, even if it looks like one.
    fn is_keyed(&self, head: &ResponseHead) -> bool;
}
