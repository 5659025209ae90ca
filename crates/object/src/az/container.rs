//! One container: the state that all of its requests share.

use std::sync::Arc;
use std::time::Duration;

use haul_core::{Error, ErrorKind, Result, Side};
use reqwest::Method;

use super::address::ContainerAddress;
use super::login::AzLogin;
use super::{options, presign};
use crate::bucket_page::BucketPage;
use crate::http::{Http, HttpCall, ResponseHead};
use crate::meter::{RequestKind, Requests};
use crate::payload::{crc64_le_of, md5_in};
use crate::settings::{StoreSettings, variable};
use crate::store::{Checksum, PutOptions, RequestProgress, RequestResult, Store, Tag, Terms};
use crate::url_method::UrlMethod;

/// <https://learn.microsoft.com/rest/api/storageservices/understanding-block-blobs--append-blobs--and-page-blobs>:
/// 50,000 blocks of up to 4,000 MiB. Azure's CRC64 is CRC-64/NVME in little-endian order.
const TERMS: Terms = Terms {
    max_parts: 50_000,
    check: Checksum::Crc64,
    delete_batch: 1,
    max_copy_len: u64::MAX,
    keeps_uploads: Some("Azure keeps the sent blocks for a week, unless --resume goes on from them"),
    lists_uploads: false,
    metadata_at_end: true,
    credentials: "credentials come from AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT with \
                  AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, AZURE_TENANT_ID with AZURE_CLIENT_ID and a secret or \
                  a federated token, `az login`, or the machine's identity",
};

/// One container.
pub(crate) struct Azure {
    pub(super) http: Http,
    pub(super) login: AzLogin,
}

impl Azure {
    /// Opens a container, without a request.
    ///
    /// # Errors
    /// `Usage` if the settings are invalid, `Unreachable` if there are no credentials.
    pub(crate) fn new(container: &str, settings: &StoreSettings, requests: Arc<Requests>) -> Result<Self> {
        let bad =
            |cause: String| Error::new(ErrorKind::Usage, Side::Local, "use the store", cause).on(container);
        let place = ContainerAddress::find(container, settings.endpoint.as_deref(), &variable);
        let place = place.map_err(|cause| bad(cause).with_hint(TERMS.credentials))?;
        let place = place.ok_or_else(|| {
            let cause = "no credentials were found, nor the name of the storage account";
            let error = Error::new(ErrorKind::Unreachable, Side::Wire, "log in to the store", cause);
            error.on(container).with_hint(TERMS.credentials)
        })?;
        settings.check_s3_only().map_err(bad)?;
        Ok(Self {
            http: Http::new(requests, settings.ca_bundle.as_deref(), settings).map_err(bad)?,
            login: AzLogin::new(place, settings),
        })
    }

    /// Sends a request and reads the whole answer.
    pub(super) fn ask(
        &self,
        call: &HttpCall<'_>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<(ResponseHead, Vec<u8>)> {
        let (head, content) = self.http.ask(&self.login, call, at)?;
        self.vouch(&head)?;
        Ok((head, content))
    }

    /// Sends a request and parses the answer with `read`.
    pub(super) fn asked<T>(
        &self,
        call: &HttpCall<'_>,
        at: &RequestProgress<'_>,
        read: impl FnOnce(&[u8]) -> RequestResult<T>,
    ) -> RequestResult<T> {
        self.http.asked(&self.login, call, at, read)
    }

    /// Verifies that a store sent this answer: Azure's stores identify themselves in each.
    pub(super) fn vouch(&self, head: &ResponseHead) -> RequestResult<()> {
        if self.http.recognition.is_proven(&self.login, head) {
            return Ok(());
        }
        Err(self.http.recognition.foreign(&self.login, head, "something else"))
    }
}

/// The tag in the answer to a write, with this ETag.
pub(super) fn tag(head: &ResponseHead, etag: String) -> Tag {
    let crc64 = head.get("x-ms-content-crc64").and_then(crc64_le_of);
    let content_md5 = head.get("content-md5").and_then(md5_in);
    Tag { etag, crc64, crc32c: None, content_md5 }
}

impl Store for Azure {
    fn terms(&self) -> &'static Terms {
        &TERMS
    }

    fn check_options(&self, options: &PutOptions) -> RequestResult<()> {
        options::check_options(options)
    }

    fn presign(&self, key: &str, method: UrlMethod, lasts: Duration) -> RequestResult<String> {
        presign::signed_url(&self.login.address, key, method, &crate::time::after(lasts))
    }

    fn list_buckets(&self, next: Option<&str>, at: &RequestProgress<'_>) -> RequestResult<BucketPage> {
        let mut call = HttpCall::new(RequestKind::List, Method::GET, None).query("comp", "list");
        if let Some(marker) = next {
            call = call.query("marker", marker);
        }
        self.asked(&call, at, crate::xml::bucket_page)
    }

    fn make_bucket(&self, at: &RequestProgress<'_>) -> RequestResult<()> {
        let call = HttpCall::new(RequestKind::Put, Method::PUT, None).query("restype", "container");
        self.ask(&call, at).map(drop)
    }

    fn remove_bucket(&self, at: &RequestProgress<'_>) -> RequestResult<()> {
        let call = HttpCall::new(RequestKind::Delete, Method::DELETE, None).query("restype", "container");
        self.ask(&call, at).map(drop)
    }
}
