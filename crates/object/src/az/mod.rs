//! Azure Blob Storage: <https://learn.microsoft.com/rest/api/storageservices/blob-service-rest-api>.
//!
//! An upload in parts is a blob's uncommitted blocks: there is no request that begins one or gives it up, and Azure
//! forgets blocks that nobody committed after a week. Its id is ours, and in the name of each block (`blocks.rs`).

mod blobs;
mod blocks;
mod login;
mod options;
mod place;
mod xml;

use std::ops::Range;
use std::sync::Arc;

use haul_core::{Error, ErrorKind, Result, Side};
use reqwest::Method;

use crate::fault::{Class, Fault};
use crate::http::{Call, Head, Http};
use crate::meter::{Kind, Requests};
use crate::payload::{Payload, crc64_le_of, md5_in};
use crate::settings::StoreSettings;
use crate::store::{
    Activity, Answer, Checksum, HeldPart, Known, Object, Page, PartOf, PutOptions, Store, Tag, Take, Terms,
    Upload, Whole,
};
use login::Login;

/// <https://learn.microsoft.com/rest/api/storageservices/understanding-block-blobs--append-blobs--and-page-blobs>:
/// 50,000 blocks of up to 4,000 MiB. Its CRC64 is CRC-64/NVME, the lowest byte first.
const TERMS: Terms = Terms {
    max_parts: 50_000,
    check: Checksum::Crc64,
    removes: 1,
    copies: u64::MAX,
    keeps_uploads: Some("Azure keeps what was sent for a week, unless --resume goes on from it"),
    lists_uploads: false,
    notes_at_end: true,
    credentials: "credentials come from AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT with \
                  AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, AZURE_TENANT_ID with AZURE_CLIENT_ID and a secret or \
                  a federated token, `az login`, or the machine's identity",
};

/// One container.
pub(crate) struct Azure {
    http: Http,
    login: Login,
}

impl Azure {
    /// The container with this name. Nothing is asked yet.
    ///
    /// # Errors
    /// If the settings make no sense.
    pub(crate) fn new(container: &str, settings: &StoreSettings, requests: Arc<Requests>) -> Result<Self> {
        let bad =
            |cause: String| Error::new(ErrorKind::Usage, Side::Local, "use the store", cause).on(container);
        let place = place::Place::find(container, settings.endpoint.as_deref(), &crate::http::variable);
        let place = place.map_err(|cause| bad(cause).with_hint(TERMS.credentials))?;
        Ok(Self {
            http: Http::new(requests, None).map_err(bad)?,
            login: Login::new(place, settings.insecure_http),
        })
    }

    /// Asks and reads the whole answer.
    fn ask(&self, call: &Call<'_>, at: &Activity<'_>) -> Answer<(Head, Vec<u8>)> {
        let (head, content) = self.http.ask(&self.login, call, at)?;
        self.vouch(&head)?;
        Ok((head, content))
    }

    /// Asks, and understands the answer by `read`.
    fn asked<T>(
        &self,
        call: &Call<'_>,
        at: &Activity<'_>,
        read: impl FnOnce(&[u8]) -> Answer<T>,
    ) -> Answer<T> {
        self.http.asked(&self.login, call, at, read)
    }

    /// Makes sure that what gave this answer is a store: Azure's name themselves in each.
    fn vouch(&self, head: &Head) -> Answer<()> {
        if self.http.is_proven(&self.login, head) {
            return Ok(());
        }
        Err(self.http.foreign(&self.login, head, "something else"))
    }
}

/// What an answer says of what was written, under a mark of our own or the answer's.
fn tag(head: &Head, etag: String) -> Tag {
    let crc64 = head.get("x-ms-content-crc64").and_then(crc64_le_of);
    let content_md5 = head.get("content-md5").and_then(md5_in);
    Tag { etag, crc64, crc32c: None, content_md5 }
}

impl Store for Azure {
    fn terms(&self) -> &'static Terms {
        &TERMS
    }

    fn takes(&self, options: &PutOptions) -> Answer<()> {
        options::takes(options)
    }

    fn head(&self, key: &str, at: &Activity<'_>) -> Answer<Object> {
        self.head_blob(key, at)
    }

    fn get(
        &self,
        key: &str,
        range: Range<u64>,
        known: Known<'_>,
        take: Take<'_>,
        at: &Activity<'_>,
    ) -> Answer<()> {
        self.get_range(key, range, known, take, at)
    }

    fn get_whole(&self, key: &str, limit: usize, at: &Activity<'_>) -> Answer<(Object, Vec<u8>)> {
        self.get_blob(key, limit, at)
    }

    fn put(
        &self,
        key: &str,
        body: &Payload,
        options: &PutOptions,
        check: Checksum,
        at: &Activity<'_>,
    ) -> Answer<Tag> {
        self.put_blob(key, body, options, check, at)
    }

    /// Asks nothing: blocks are there when they are written.
    fn create(&self, _: &str, options: &PutOptions, _: Checksum, _: &Activity<'_>) -> Answer<String> {
        options::takes(options)?;
        Ok(blocks::new_id())
    }

    fn put_part(&self, part: PartOf<'_>, body: &Payload, check: Checksum, at: &Activity<'_>) -> Answer<Tag> {
        self.put_block(part, body, check, at)
    }

    fn complete(
        &self,
        upload: &Upload,
        parts: &[Tag],
        _: Whole,
        options: &PutOptions,
        at: &Activity<'_>,
    ) -> Answer<String> {
        self.put_block_list(upload, parts, options, at)
    }

    /// There is no request for it; see [`Terms::keeps_uploads`].
    fn abort(&self, _: &Upload, _: &Activity<'_>) -> Answer<()> {
        Ok(())
    }

    fn parts(&self, upload: &Upload, after: u32, at: &Activity<'_>) -> Answer<(Vec<HeldPart>, bool)> {
        let mut parts = self.blocks_of(&upload.key, at)?.remove(&upload.id).unwrap_or_default();
        parts.retain(|part| part.number > after);
        Ok((parts, false))
    }

    fn uploads(&self, key: &str, _: Option<&Upload>, at: &Activity<'_>) -> Answer<(Vec<Upload>, bool)> {
        Ok((self.uncommitted(key, at)?, false))
    }

    fn list(&self, prefix: &str, delimiter: bool, next: Option<&str>, at: &Activity<'_>) -> Answer<Page> {
        self.list_blobs(prefix, delimiter, next, at)
    }

    fn delete(&self, key: &str, at: &Activity<'_>) -> Answer<()> {
        match self.ask(&Call::new(Kind::Delete, Method::DELETE, Some(key)), at) {
            Err(fault) if fault.class != Class::NotFound || fault.code == "ContainerNotFound" => Err(fault),
            _ => Ok(()),
        }
    }

    fn copy(&self, from: &Object, to: &str, options: &PutOptions, at: &Activity<'_>) -> Answer<()> {
        self.copy_blob(from, to, options, at)
    }

    fn copy_part(&self, _: &Object, _: Range<u64>, _: PartOf<'_>, _: &Activity<'_>) -> Answer<Tag> {
        // Put Block From URL wants a signature of its own for what is read.
        Err(Fault::new(Class::Unsupported, "haul makes no block of what Azure has already"))
    }
}
