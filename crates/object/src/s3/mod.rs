//! S3 and what speaks like it: the REST API of <https://docs.aws.amazon.com/AmazonS3/latest/API/>.
//!
//! Signatures and the usual chain of credentials are the library's (`object_store`); the requests are ours, because
//! explicit parts, their listing, checksums and conditions are what streams stand on. Google's XML API is the same but
//! for what [`Dialect`] tells.

pub(crate) mod address;
mod aws;
mod credentials;
pub(crate) mod dialect;
mod objects;
mod parts;
mod roles;
mod xml;

use haul_core::sync::RwLock;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use haul_core::{Error, ErrorKind, Result, Side};

use crate::http::{Call, Head, Http, variable};
use crate::meter::Requests;
use crate::payload::Payload;
use crate::profile::Profile;
use crate::settings::StoreSettings;
use crate::store::{
    Activity, Answer, Checksum, Deleted, HeldPart, Known, Object, Page, PartOf, PutOptions, Store, Tag, Take,
    Terms, Upload, Whole,
};
pub(crate) use aws::Aws;
use dialect::Dialect;

/// One bucket.
pub(crate) struct S3<D> {
    pub(crate) http: Http,
    pub(crate) dialect: D,
    pub(crate) bucket: String,
}

impl S3<Aws> {
    /// The bucket with this name. Nothing is asked yet.
    ///
    /// # Errors
    /// If the settings make no sense.
    pub(crate) fn new(bucket: &str, settings: &StoreSettings, requests: Arc<Requests>) -> Result<Self> {
        let bad =
            |cause: String| Error::new(ErrorKind::Usage, Side::Local, "use the store", cause).on(bucket);
        let profile = Profile::load();
        let endpoint = settings.endpoint.clone();
        let endpoint =
            endpoint.or_else(|| variable("AWS_ENDPOINT_URL_S3")).or_else(|| variable("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.or_else(|| profile.get("endpoint_url").map(str::to_owned));
        let region = settings.region.clone();
        let region = region.or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.or_else(|| profile.get("region").map(str::to_owned));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let address = address::Address::new(bucket, endpoint.as_deref()).map_err(bad)?;
        let http = Http::new(requests, variable("AWS_CA_BUNDLE").as_deref());
        let http = http.map_err(|error| bad(format!("AWS_CA_BUNDLE: {error}")))?;
        let credentials = credentials::Chain::new(bucket, &region);
        let dialect = Aws { told: OnceLock::new(), credentials, address, region: RwLock::new(region) };
        Ok(Self { http, dialect, bucket: bucket.to_owned() })
    }
}

impl<D: Dialect> S3<D> {
    /// Asks and reads the whole answer.
    fn ask(&self, call: &Call<'_>, at: &Activity<'_>) -> Answer<(Head, Vec<u8>)> {
        self.http.ask(&self.dialect, call, at)
    }
}

impl<D: Dialect> Store for S3<D> {
    fn terms(&self) -> &'static Terms {
        self.dialect.terms()
    }

    fn warning(&self) -> Option<String> {
        self.dialect.warning()
    }

    fn takes(&self, options: &PutOptions) -> Answer<()> {
        self.dialect.takes(options)
    }

    fn head(&self, key: &str, at: &Activity<'_>) -> Answer<Object> {
        self.head_object(key, at)
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
        self.get_object(key, limit, at)
    }

    fn put(
        &self,
        key: &str,
        body: &Payload,
        options: &PutOptions,
        check: Checksum,
        at: &Activity<'_>,
    ) -> Answer<Tag> {
        self.put_object(key, body, options, check, at)
    }

    fn create(&self, key: &str, options: &PutOptions, check: Checksum, at: &Activity<'_>) -> Answer<String> {
        self.create_upload(key, options, check, at)
    }

    fn put_part(&self, part: PartOf<'_>, body: &Payload, check: Checksum, at: &Activity<'_>) -> Answer<Tag> {
        self.upload_part(part, body, check, at)
    }

    fn complete(
        &self,
        upload: &Upload,
        parts: &[Tag],
        whole: Whole,
        options: &PutOptions,
        at: &Activity<'_>,
    ) -> Answer<String> {
        self.complete_upload(upload, parts, whole, options, at)
    }

    fn abort(&self, upload: &Upload, at: &Activity<'_>) -> Answer<()> {
        self.abort_upload(upload, at)
    }

    fn parts(&self, upload: &Upload, after: u32, at: &Activity<'_>) -> Answer<(Vec<HeldPart>, bool)> {
        self.list_parts(upload, after, at)
    }

    fn uploads(
        &self,
        prefix: &str,
        marker: Option<&Upload>,
        at: &Activity<'_>,
    ) -> Answer<(Vec<Upload>, bool)> {
        self.list_uploads(prefix, marker, at)
    }

    fn list(&self, prefix: &str, delimiter: bool, next: Option<&str>, at: &Activity<'_>) -> Answer<Page> {
        self.list_objects(prefix, delimiter, next, at)
    }

    fn delete(&self, key: &str, at: &Activity<'_>) -> Answer<()> {
        self.delete_object(key, at)
    }

    fn deletes_together(&self, key: &str) -> bool {
        xml::is_plain(key)
    }

    fn delete_all(&self, keys: &[&str], at: &Activity<'_>) -> Answer<Deleted> {
        self.delete_objects(keys, at)
    }

    fn copy(&self, from: &Object, to: &str, options: &PutOptions, at: &Activity<'_>) -> Answer<()> {
        self.copy_object(from, to, options, at)
    }

    fn copy_part(
        &self,
        from: &Object,
        range: Range<u64>,
        part: PartOf<'_>,
        at: &Activity<'_>,
    ) -> Answer<Tag> {
        self.upload_part_copy(from, range, part, at)
    }
}
