//! URLs that are signed in their query: the schemes of AWS and Google
//! (<https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html>,
//! <https://cloud.google.com/storage/docs/authentication/canonical-requests>), which differ in names and keys.

use std::time::Duration;

use aws_lc_rs::{digest, hmac};
use haul_core::digest::hex;

use crate::fault::{FailureClass, Fault};
use crate::store::RequestResult;
use crate::url::{append_query, encode};
use crate::url_method::UrlMethod;

/// A scheme with its names, and who signs.
pub(crate) struct UrlScheme<'a> {
    /// The prefix of the names of the parameters: `X-Amz-` or `X-Goog-`.
    pub(crate) prefix: &'static str,
    /// The algorithm.
    pub(crate) algorithm: &'static str,
    /// The key id or the account.
    pub(crate) signer: &'a str,
    /// The region, the service and the end of the scope, with slashes between them.
    pub(crate) scope: &'a str,
    /// The token of temporary credentials.
    pub(crate) token: Option<&'a str>,
}

/// Signs a URL without a query. `now` is like `2026-01-02T03:04:05Z`; `sign` gets the date and the text to sign.
///
/// # Errors
/// That of `sign`, or `Final` if the URL has no host.
pub(crate) fn signed_url(
    url: &str,
    method: UrlMethod,
    scheme: &UrlScheme<'_>,
    now: &str,
    lasts: Duration,
    sign: impl FnOnce(&str, &str) -> RequestResult<String>,
) -> RequestResult<String> {
    let parsed = crate::url::address(url)?;
    let host = parsed.host_str().ok_or_else(|| Fault::unsendable("its name"))?;
    let port = parsed.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path =
        url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|slash| &rest[slash..])).unwrap_or("/");
    let time: String = now.chars().filter(|char| !matches!(char, '-' | ':')).collect();
    let day = time.get(..8).unwrap_or_default();
    let UrlScheme { prefix, algorithm, signer, scope, token } = scheme;
    let scope = format!("{day}/{scope}");
    // In the order of their names.
    let mut pairs = vec![
        ("Algorithm", (*algorithm).to_owned()),
        ("Credential", format!("{signer}/{scope}")),
        ("Date", time.clone()),
        ("Expires", lasts.as_secs().to_string()),
    ];
    pairs.extend(token.map(|token| ("Security-Token", token.to_owned())));
    pairs.push(("SignedHeaders", "host".to_owned()));
    let mut query = String::new();
    for (name, value) in pairs {
        query.push_str(if query.is_empty() { "" } else { "&" });
        query.push_str(&format!("{prefix}{name}="));
        encode(&value, false, &mut query);
    }
    let request = format!("{}\n{path}\n{query}\nhost:{host}{port}\n\nhost\nUNSIGNED-PAYLOAD", method.name());
    let digest = hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref());
    let signature = sign(day, &format!("{algorithm}\n{time}\n{scope}\n{digest}"))?;
    let mut url = format!("{url}?{query}");
    append_query(&mut url, &[(&format!("{prefix}Signature"), signature)]);
    Ok(url)
}

/// HMAC-SHA256.
pub(crate) fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

/// The refusal of credentials that can sign requests, but no URLs.
pub(crate) fn cannot_sign(needs: &str) -> Fault {
    Fault::new(
        FailureClass::Unsupported,
        format!("a URL is signed with {needs}, which the credentials do not have"),
    )
}
