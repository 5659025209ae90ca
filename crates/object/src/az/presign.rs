//! Signed URLs of Azure: a service shared access signature for one blob
//! (<https://learn.microsoft.com/rest/api/storageservices/create-service-sas>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::address::ContainerAddress;
use crate::fault::{FailureClass, Fault};
use crate::payload::base64;
use crate::presign::{cannot_sign, hmac_sha256};
use crate::store::RequestResult;
use crate::url::append_query;
use crate::url_method::UrlMethod;

/// The version of the signature.
const VERSION: &str = "2022-11-02";

/// Signs a URL with the key of the account. `until` is like `2026-01-02T03:04:05Z`.
///
/// # Errors
/// `Unsupported` if there is no key, `Login` if it is damaged.
pub(super) fn signed_url(
    address: &ContainerAddress,
    key: &str,
    method: UrlMethod,
    until: &str,
) -> RequestResult<String> {
    let Some(secret) = &address.key else { return Err(cannot_sign("the key of the storage account")) };
    let secret = STANDARD
        .decode(secret)
        .map_err(|_| Fault::new(FailureClass::Login, "the account's key is not in base64"))?;
    let may = match method {
        UrlMethod::Get => "r",
        UrlMethod::Put => "cw",
    };
    let mut url = address.url(Some(key), &[]);
    let protocol = if url.starts_with("https:") { "https" } else { "" };
    let resource = format!("/blob/{}/{}/{key}", address.account, address.container);
    // Start, identifier, address, snapshot, encryption scope and the headers of the answer are empty.
    let text =
        [may, "", until, &resource, "", "", protocol, VERSION, "b", "", "", "", "", "", "", ""].join("\n");
    let mut query = vec![("sp", may.to_owned()), ("se", until.to_owned())];
    if !protocol.is_empty() {
        query.push(("spr", protocol.to_owned()));
    }
    query.extend([("sv", VERSION.to_owned()), ("sr", "b".to_owned())]);
    query.push(("sig", base64(&hmac_sha256(&secret, text.as_bytes()))));
    append_query(&mut url, &query);
    Ok(url)
}
