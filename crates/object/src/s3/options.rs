//! What is asked for about an object, as headers.

use super::address::encode;
use super::call::Call;
use crate::fault::{Class, Fault};
use crate::payload::{Payload, base64};
use crate::store::{Checksum, PutOptions};

/// What AWS calls the CRC-64 that it keeps for whole objects.
const CRC64: &str = "CRC64NVME";

/// Adds what an object is to be written with.
pub(super) fn written<'a>(mut call: Call<'a>, options: &'a PutOptions) -> Call<'a> {
    for (name, value) in &options.headers {
        call = call.header(&name[..], value);
    }
    if let Some(class) = &options.storage_class {
        call = call.header("x-amz-storage-class", class);
    }
    if let Some(sse) = &options.sse {
        call = call.header("x-amz-server-side-encryption", sse);
    }
    if let Some(key) = &options.sse_kms_key_id {
        call = call.header("x-amz-server-side-encryption-aws-kms-key-id", key);
    }
    if !options.tags.is_empty() {
        let mut tags = String::new();
        for (name, value) in &options.tags {
            if !tags.is_empty() {
                tags.push('&');
            }
            encode(name, false, &mut tags);
            tags.push('=');
            encode(value, false, &mut tags);
        }
        call = call.header("x-amz-tagging", tags);
    }
    for (name, value) in &options.metadata {
        call = call.header(format!("x-amz-meta-{name}"), value);
    }
    call
}

/// Adds the condition under which it is written.
pub(super) fn conditional<'a>(call: Call<'a>, options: &PutOptions) -> Call<'a> {
    if options.no_clobber { call.header("if-none-match", "*") } else { call }
}

/// Adds the checksum of the body.
pub(super) fn checked<'a>(call: Call<'a>, body: &Payload, check: Checksum) -> Result<Call<'a>, Fault> {
    match check {
        Checksum::Crc64 => Ok(call.header("x-amz-checksum-crc64nvme", base64(&body.crc64().to_be_bytes()))),
        Checksum::Md5 => {
            let md5 = body.md5().map_err(|error| Fault::new(Class::Final, error.to_string()))?;
            Ok(call.header("content-md5", base64(&md5)))
        }
    }
}

/// Adds how the parts of an upload will be checked.
pub(super) fn announced(call: Call<'_>, check: Checksum) -> Call<'_> {
    match check {
        Checksum::Crc64 => {
            call.header("x-amz-checksum-algorithm", CRC64).header("x-amz-checksum-type", "FULL_OBJECT")
        }
        Checksum::Md5 => call,
    }
}
