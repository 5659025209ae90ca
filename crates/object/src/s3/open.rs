//! Opens a bucket from the settings, the environment and the profile.

use haul_core::sync::RwLock;
use std::sync::{Arc, OnceLock};

use haul_core::{Error, ErrorKind, Result, Side};

use super::address::Address;
use super::aws::Aws;
use super::bucket::S3;
use super::credentials::AwsCredentialChain;
use crate::http::Http;
use crate::meter::Requests;
use crate::profile::Profile;
use crate::settings::{StoreSettings, variable};

/// Opens a bucket, without a request.
///
/// # Errors
/// `Usage` if a setting or the certificate bundle is invalid.
pub(crate) fn open(bucket: &str, settings: &StoreSettings, requests: Arc<Requests>) -> Result<S3<Aws>> {
    let bad = |cause: String| Error::new(ErrorKind::Usage, Side::Local, "use the store", cause).on(bucket);
    let profile = Profile::load(settings.profile.as_deref());
    let endpoint = settings.endpoint.clone();
    let endpoint =
        endpoint.or_else(|| variable("AWS_ENDPOINT_URL_S3")).or_else(|| variable("AWS_ENDPOINT_URL"));
    let endpoint = endpoint.or_else(|| profile.get("endpoint_url").map(str::to_owned));
    let region = settings.region.clone();
    let region = region.or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
    let region = region.or_else(|| profile.get("region").map(str::to_owned));
    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    let address = Address::new(bucket, endpoint.as_deref()).map_err(bad)?;
    let bundle = settings.ca_bundle.clone().map(|file| ("--ca-cert", file));
    let bundle = bundle.or_else(|| variable("AWS_CA_BUNDLE").map(|file| ("AWS_CA_BUNDLE", file)));
    let (named, file) = bundle.unzip();
    let http = Http::new(requests, file.as_deref(), settings);
    let http = http.map_err(|error| bad(named.map_or(error.clone(), |named| format!("{named}: {error}"))))?;
    let credentials = AwsCredentialChain::new(bucket, &region, settings);
    let credentials = (!settings.anonymous).then_some(credentials);
    let dialect = Aws { plain_text_host: OnceLock::new(), credentials, address, region: RwLock::new(region) };
    Ok(S3 { http, dialect, bucket: bucket.to_owned() })
}
