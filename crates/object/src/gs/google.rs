//! A bucket of Google Cloud Storage, as a dialect of S3.

use std::sync::Arc;
use std::time::Duration;

use haul_core::{Error, ErrorKind, Result, Side};
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue};

use super::credentials::{TokenChain, credentials_file};
use super::presign;
use crate::fault::{FailureClass, Fault};
use crate::http::{Http, HttpCall, ResponseHead, Signed, Signer};
use crate::meter::Requests;
use crate::payload::{Payload, base64, crc32c_of, md5_in};
use crate::presign::cannot_sign;
use crate::s3::S3;
use crate::s3::address::Address;
use crate::s3::dialect::Dialect;
use crate::settings::{StoreSettings, variable};
use crate::store::{Checksum, PutOptions, RequestResult, Tag, Terms, Whole};
use crate::url::keep_secret;
use crate::url_method::UrlMethod;

/// <https://cloud.google.com/storage/quotas#requests>; one request deletes one object.
const TERMS: Terms = Terms {
    max_parts: 10_000,
    check: Checksum::Crc32c,
    delete_batch: 1,
    // https://cloud.google.com/storage/docs/xml-api/put-object-copy documents no limit besides that of objects.
    max_copy_len: u64::MAX,
    keeps_uploads: None,
    lists_uploads: true,
    metadata_at_end: false,
    credentials: "credentials come from GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, \
                  CLOUDSDK_AUTH_ACCESS_TOKEN, or the machine's service account",
};

/// Google's own endpoint.
const ENDPOINT: &str = "https://storage.googleapis.com";

/// The variables of Google's clients for the project.
const PROJECT: [&str; 3] = ["GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT", "GCLOUD_PROJECT"];

/// A bucket at Google.
pub(crate) struct Google {
    address: Address,
    /// The region of new buckets.
    region: Option<String>,
    insecure_http: bool,
    /// `None`: requests carry no token.
    credentials: Option<TokenChain>,
}

/// Opens a bucket, without a request.
///
/// # Errors
/// `Usage` if the settings are invalid.
pub(crate) fn open(bucket: &str, settings: &StoreSettings, requests: Arc<Requests>) -> Result<S3<Google>> {
    let bad = |cause: String| Error::new(ErrorKind::Usage, Side::Local, "use the store", cause).on(bucket);
    // In Google's own clients this variable is a host, or a URL with http.
    let emulator = variable("STORAGE_EMULATOR_HOST");
    let emulator = emulator.map(|host| if host.contains("://") { host } else { format!("http://{host}") });
    let endpoint = settings.endpoint.clone().or(emulator);
    let elsewhere = endpoint.is_some();
    let address = Address::new(bucket, Some(endpoint.as_deref().unwrap_or(ENDPOINT))).map_err(bad)?;
    settings.check_s3_only().map_err(bad)?;
    let http = Http::new(requests, settings.ca_bundle.as_deref(), settings).map_err(bad)?;
    let insecure_http = settings.insecure_http;
    let credentials = (!settings.anonymous).then(|| TokenChain::new(bucket, elsewhere));
    let dialect = Google { insecure_http, address, region: settings.region.clone(), credentials };
    Ok(S3 { http, dialect, bucket: bucket.to_owned() })
}

impl Signer for Google {
    const SPOKEN: &'static str = "as Google Cloud Storage does";
    const PREFIX: &'static str = "x-goog-";

    async fn sign(&self, call: &HttpCall<'_>) -> RequestResult<Signed> {
        let mut headers = call.header_map()?;
        // Without this header Google decompresses stored gzip content
        // (https://cloud.google.com/storage/docs/transcoding#decompressive_transcoding).
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let url = self.address.url("", call.key, &call.query);
        let token = match &self.credentials {
            Some(credentials) => credentials.get().await?,
            None => None,
        };
        if let Some(token) = token {
            if !self.insecure_http {
                keep_secret(&url, "the token")?;
            }
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            headers.insert(AUTHORIZATION, value.map_err(|_| Fault::unsendable("the token"))?);
        }
        Ok(Signed { url, headers })
    }

    fn refusal(&self, status: u16, _: &HeaderMap, content: &[u8]) -> Fault {
        let fault = crate::xml::refusal(status, content);
        if matches!(fault.class, FailureClass::Expired | FailureClass::Login) {
            self.credentials.iter().for_each(TokenChain::forget);
        }
        fault
    }
}

impl Dialect for Google {
    const ASKS_FOR_SUMS: Option<(&'static str, &'static str)> = None;
    // https://cloud.google.com/storage/docs/xml-api/post-object-complete documents no condition.
    const COMPLETES_ON_CONDITION: bool = false;
    const COPIES_PARTS: bool = false;

    fn terms(&self) -> &'static Terms {
        &TERMS
    }

    fn check_options(&self, options: &PutOptions) -> RequestResult<()> {
        let lacks = |what: &str| Err(Fault::new(FailureClass::Unsupported, what));
        if !options.tags.is_empty() {
            return lacks("Google Cloud Storage has no tags on objects: --metadata notes the same");
        }
        match (&options.sse, &options.sse_kms_key_id) {
            (None, None) => Ok(()),
            (Some(how), Some(_)) if how == "kms" => Ok(()),
            _ => lacks(
                "Google Cloud Storage encrypts all objects; for a key of Cloud KMS it is --sse kms \
                 --sse-kms-key-id projects/…/cryptoKeys/…",
            ),
        }
    }

    fn kept<'a>(&self, call: HttpCall<'a>, options: &PutOptions) -> HttpCall<'a> {
        match &options.sse_kms_key_id {
            Some(key) => call.header("x-goog-encryption-kms-key-name", key),
            None => call,
        }
    }

    fn if_free<'a>(&self, call: HttpCall<'a>) -> HttpCall<'a> {
        call.header("x-goog-if-generation-match", "0")
    }

    fn checked<'a>(
        &self,
        call: HttpCall<'a>,
        body: &Payload,
        check: Checksum,
    ) -> RequestResult<HttpCall<'a>> {
        Ok(match check {
            Checksum::Md5 => call.header("content-md5", base64(&body.md5()?)),
            _ => call.header("x-goog-hash", format!("crc32c={}", base64(&body.crc32c()?.to_be_bytes()))),
        })
    }

    fn announced<'a>(&self, call: HttpCall<'a>, _: Checksum) -> HttpCall<'a> {
        call
    }

    fn whole<'a>(&self, call: HttpCall<'a>, _: Whole) -> HttpCall<'a> {
        call
    }

    /// Parses `x-goog-hash: crc32c=…,md5=…`, in one header or two
    /// (<https://cloud.google.com/storage/docs/xml-api/reference-headers#xgooghash>). The checksums are those of the
    /// stored bytes, which haul requests without decompression.
    fn sums(&self, head: &ResponseHead) -> Tag {
        let mut tag = Tag::default();
        let values = head.headers.get_all("x-goog-hash").iter().filter_map(|value| value.to_str().ok());
        for (name, value) in values.flat_map(|text| text.split(',')).filter_map(|sum| sum.split_once('=')) {
            match name.trim() {
                "crc32c" => tag.crc32c = crc32c_of(value.trim()),
                "md5" => tag.content_md5 = md5_in(value.trim()),
                _ => {}
            }
        }
        tag
    }

    fn signed_url(&self, key: &str, method: UrlMethod, lasts: Duration) -> RequestResult<String> {
        let file = credentials_file().filter(|_| self.credentials.is_some());
        let Some(file) = file else { return Err(cannot_sign("the private key of a service account")) };
        presign::with_key_in(&file, &self.address.url("", Some(key), &[]), method, lasts)
    }

    fn bucket_region(&self) -> Option<String> {
        self.region.clone()
    }

    /// The project that buckets belong to (<https://cloud.google.com/storage/docs/xml-api/put-bucket-create>,
    /// <https://cloud.google.com/storage/docs/xml-api/get-service>).
    fn of_project<'a>(&self, call: HttpCall<'a>) -> HttpCall<'a> {
        let project = PROJECT.iter().find_map(|name| variable(name));
        match project {
            Some(project) => call.header("x-goog-project-id", project),
            None => call,
        }
    }

    /// The ETag is never used as an MD5: Google reports the MD5 separately.
    fn is_keyed(&self, _: &ResponseHead) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_parsed_from_one_header_or_two() {
        let google = open("b", &StoreSettings::default(), Arc::default());
        let google = google.unwrap().dialect;
        let sums = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("x-goog-hash", HeaderValue::from_static(value));
            }
            let tag = google.sums(&ResponseHead { status: 200, headers, host: String::new() });
            (tag.crc32c, tag.md5())
        };
        // The checksum of `123456789`, from the catalogue of parametrised CRC algorithms, and the MD5 of no bytes.
        let both = (Some(0xe306_9283), Some("d41d8cd98f00b204e9800998ecf8427e".to_owned()));
        assert_eq!(sums(&["crc32c=4waSgw==,md5=1B2M2Y8AsgTpgAmY7PhCfg=="]), both);
        assert_eq!(sums(&["crc32c=4waSgw==", "md5=1B2M2Y8AsgTpgAmY7PhCfg=="]), both);
        assert_eq!(sums(&["crc32c=?"]), (None, None));
        let call = HttpCall::new(crate::RequestKind::Put, reqwest::Method::PUT, Some("k"));
        let body = Payload::from_bytes(&b"123456789"[..]);
        let call = google.checked(call, &body, Checksum::Crc32c).unwrap();
        assert_eq!(call.headers[0], ("x-goog-hash".into(), "crc32c=4waSgw==".to_owned()));
        assert_eq!(google.address.url("", Some("a b"), &[]), "https://storage.googleapis.com/b/a%20b");
    }

    #[test]
    fn unsupported_options_are_refused() {
        let google = open("b", &StoreSettings::default(), Arc::default());
        let google = google.unwrap().dialect;
        let accepts = |options: PutOptions| google.check_options(&options).is_ok();
        assert!(accepts(PutOptions::default()));
        assert!(!accepts(PutOptions { tags: vec![("a".into(), "b".into())], ..PutOptions::default() }));
        let sse = |how: &str, key: Option<&str>| PutOptions {
            sse: Some(how.into()),
            sse_kms_key_id: key.map(str::to_owned),
            ..PutOptions::default()
        };
        assert!(
            accepts(sse("kms", Some("projects/p")))
                && !accepts(sse("AES256", None))
                && !accepts(sse("kms", None))
        );
    }
}
