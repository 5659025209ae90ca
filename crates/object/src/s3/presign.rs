//! Signed URLs of AWS.

use std::time::Duration;

use haul_core::digest::hex;

use super::aws::Aws;
use crate::presign::{UrlScheme, cannot_sign, hmac_sha256, signed_url};
use crate::store::RequestResult;
use crate::url_method::UrlMethod;

impl Aws {
    pub(super) fn signed_url(&self, key: &str, method: UrlMethod, lasts: Duration) -> RequestResult<String> {
        let Some(credentials) = &self.credentials else { return Err(cannot_sign("a secret key")) };
        let credential = crate::runtime::block_on(credentials.get())?;
        let region = self.region.read().clone();
        let scheme = UrlScheme {
            prefix: "X-Amz-",
            algorithm: "AWS4-HMAC-SHA256",
            signer: &credential.key_id,
            scope: &format!("{region}/s3/aws4_request"),
            token: credential.token.as_deref(),
        };
        let url = self.address.url(&region, Some(key), &[]);
        let now = crate::time::after(Duration::ZERO);
        signed_url(&url, method, &scheme, &now, lasts, |day, text| {
            Ok(sign_text(&credential.secret_key, day, &region, text))
        })
    }
}

/// The signature of a text with a secret key
/// (<https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>).
fn sign_text(secret: &str, day: &str, region: &str, text: &str) -> String {
    let first = hmac_sha256(format!("AWS4{secret}").as_bytes(), day.as_bytes());
    let key =
        [region, "s3", "aws4_request"].iter().fold(first, |key, part| hmac_sha256(&key, part.as_bytes()));
    hex(&hmac_sha256(&key, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_aws_is_signed_alike() {
        let url = "https://examplebucket.s3.amazonaws.com/test.txt";
        let scheme = UrlScheme {
            prefix: "X-Amz-",
            algorithm: "AWS4-HMAC-SHA256",
            signer: "AKIAIOSFODNN7EXAMPLE",
            scope: "us-east-1/s3/aws4_request",
            token: None,
        };
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let day = Duration::from_secs(86_400);
        let url = signed_url(url, UrlMethod::Get, &scheme, "2013-05-24T00:00:00Z", day, |day, text| {
            Ok(sign_text(secret, day, "us-east-1", text))
        });
        // From "Authenticating Requests: Using Query Parameters" in the documentation of S3.
        let signature = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert!(url.unwrap().ends_with(&format!("&X-Amz-Signature={signature}")));
    }
}
