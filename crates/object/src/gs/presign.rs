//! Signed URLs of Google, with the key of a service account.

use std::path::Path;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use haul_core::digest::hex;
use serde::Deserialize;

use crate::fault::{FailureClass, Fault};
use crate::presign::{UrlScheme, cannot_sign, signed_url};
use crate::store::RequestResult;
use crate::url_method::UrlMethod;

/// The fields of a service account in a file of credentials.
#[derive(Deserialize)]
struct ServiceAccount {
    client_email: Option<String>,
    private_key: Option<String>,
}

/// Signs a URL with the key in a file of credentials.
///
/// # Errors
/// `Unsupported` if the file has no key, `Login` if the key is damaged.
pub(super) fn with_key_in(
    file: &Path,
    url: &str,
    method: UrlMethod,
    lasts: Duration,
) -> RequestResult<String> {
    let damaged = |cause: &str| Fault::new(FailureClass::Login, format!("{}: {cause}", file.display()));
    let content = std::fs::read(file).map_err(|error| damaged(&error.to_string()))?;
    let account: ServiceAccount =
        serde_json::from_slice(&content).map_err(|_| damaged("it is no file of credentials"))?;
    let (Some(signer), Some(pem)) = (account.client_email, account.private_key) else {
        return Err(cannot_sign("the private key of a service account"));
    };
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
    let der = STANDARD.decode(body).map_err(|_| damaged("the private key is not in PEM"))?;
    let key =
        RsaKeyPair::from_pkcs8(&der).map_err(|_| damaged("the private key is no RSA key in PKCS #8"))?;
    let scheme = UrlScheme {
        prefix: "X-Goog-",
        algorithm: "GOOG4-RSA-SHA256",
        signer: &signer,
        scope: "auto/storage/goog4_request",
        token: None,
    };
    let now = crate::time::after(Duration::ZERO);
    signed_url(url, method, &scheme, &now, lasts, |_, text| {
        let mut signature = vec![0; key.public_modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| damaged("the private key signs nothing"))?;
        Ok(hex(&signature))
    })
}
