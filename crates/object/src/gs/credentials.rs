//! The token chain of Google. Tokens are renewed before they expire.
//!
//! `CLOUDSDK_AUTH_ACCESS_TOKEN`, the file in `GOOGLE_APPLICATION_CREDENTIALS` (of a service account or a user), the
//! file of `gcloud auth application-default login`, and the metadata server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use serde::Deserialize;

use crate::fault::{FailureClass, Fault};
use crate::login::CachedLogin;
use crate::settings::variable;

/// The token chain.
pub(super) struct TokenChain {
    bucket: String,
    /// The endpoint is not Google's own: an emulator needs no token.
    elsewhere: bool,
    found: CachedLogin<TokenSource>,
}

#[derive(Clone)]
enum TokenSource {
    /// No token: an emulator without any settings.
    Nobody,
    /// From the environment.
    Fixed(Arc<str>),
    /// Renewed by the library.
    Renewed(Arc<GoogleCloudStorage>),
}

#[derive(Deserialize)]
struct CredentialsFile {
    #[serde(rename = "type", default)]
    kind: String,
}

impl TokenChain {
    /// A chain that has not been searched yet.
    pub(super) fn new(bucket: &str, elsewhere: bool) -> Self {
        Self { bucket: bucket.to_owned(), elsewhere, found: CachedLogin::default() }
    }

    /// Drops refused credentials.
    pub(super) fn forget(&self) {
        self.found.forget();
    }

    /// The current token; `None` if none is needed.
    pub(super) async fn get(&self) -> Result<Option<String>, Fault> {
        match self.found.or_find(|| self.find())? {
            TokenSource::Nobody => Ok(None),
            TokenSource::Fixed(token) => Ok(Some(token.to_string())),
            TokenSource::Renewed(store) => match store.credentials().get_credential().await {
                Ok(credential) => Ok(Some(credential.bearer.clone())),
                Err(_) => {
                    Err(login("no token was given, neither for the file of credentials nor by the machine"))
                }
            },
        }
    }

    fn find(&self) -> Result<TokenSource, Fault> {
        if let Some(token) =
            variable("CLOUDSDK_AUTH_ACCESS_TOKEN").or_else(|| variable("GOOGLE_OAUTH_ACCESS_TOKEN"))
        {
            return Ok(TokenSource::Fixed(token.into()));
        }
        let file = credentials_file();
        if file.is_none() && self.elsewhere {
            return Ok(TokenSource::Nobody);
        }
        if let Some(path) = &file {
            check(path)?;
        }
        let mut builder = GoogleCloudStorageBuilder::new()
            .with_bucket_name(&self.bucket)
            .with_retry(crate::runtime::retry_of_logins())
            .with_client_options(crate::runtime::options_of_logins());
        if let Some(path) = file {
            builder = builder.with_application_credentials(path.to_string_lossy());
        }
        let store = builder.build().map_err(|error| login(error.to_string()))?;
        Ok(TokenSource::Renewed(Arc::new(store)))
    }
}

/// The file of credentials that is named, or else that of gcloud if there is one.
pub(super) fn credentials_file() -> Option<PathBuf> {
    let named = variable("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
    let usual = std::env::var_os("HOME")
        .map(|home| PathBuf::from(home).join(".config/gcloud/application_default_credentials.json"))
        .filter(|path| path.exists());
    named.or(usual)
}

fn login(message: impl Into<String>) -> Fault {
    Fault::new(FailureClass::Login, message)
}

/// Checks that a credentials file is of a supported type.
///
/// # Errors
/// `Login`, naming the type.
fn check(path: &Path) -> Result<(), Fault> {
    let name = path.display();
    let content = std::fs::read(path).map_err(|error| login(format!("{name}: {error}")))?;
    let CredentialsFile { kind } =
        serde_json::from_slice(&content).map_err(|_| login(format!("{name} is no file of credentials")))?;
    match &kind[..] {
        "service_account" | "authorized_user" => Ok(()),
        other => Err(login(format!(
            "{name} logs in by `{other}`, which haul does not know: \
             export CLOUDSDK_AUTH_ACCESS_TOKEN=$(gcloud auth print-access-token) gives it a token"
        ))),
    }
}
