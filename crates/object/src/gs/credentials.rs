//! Who asks: tokens, by the usual chain, each renewed before it runs out.
//!
//! `CLOUDSDK_AUTH_ACCESS_TOKEN`, the file that `GOOGLE_APPLICATION_CREDENTIALS` names (of a service account or of a
//! person), the one that `gcloud auth application-default login` writes, and the metadata server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use serde::Deserialize;

use crate::fault::{Class, Fault};
use crate::http::variable;
use crate::login::Found;

/// Where tokens come from.
pub(super) struct Chain {
    bucket: String,
    /// The address is not Google's own: an emulator wants no token.
    elsewhere: bool,
    found: Found<Source>,
}

#[derive(Clone)]
enum Source {
    /// Nobody: an emulator, and nothing is set up.
    Nobody,
    /// As the environment has it.
    Fixed(Arc<str>),
    /// The library renews them. Boxed: it is large.
    Renewed(Arc<GoogleCloudStorage>),
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type", default)]
    kind: String,
}

impl Chain {
    /// Nothing is looked at yet.
    pub(super) fn new(bucket: &str, elsewhere: bool) -> Self {
        Self { bucket: bucket.to_owned(), elsewhere, found: Found::default() }
    }

    /// Forgets what was read, because it is refused.
    pub(super) fn forget(&self) {
        self.found.forget();
    }

    /// The token as it is now; `None` where nobody asks for one.
    pub(super) async fn get(&self) -> Result<Option<String>, Fault> {
        match self.found.or_find(|| self.find())? {
            Source::Nobody => Ok(None),
            Source::Fixed(token) => Ok(Some(token.to_string())),
            Source::Renewed(store) => match store.credentials().get_credential().await {
                Ok(credential) => Ok(Some(credential.bearer.clone())),
                Err(_) => {
                    Err(login("no token was given, neither for the file of credentials nor by the machine"))
                }
            },
        }
    }

    fn find(&self) -> Result<Source, Fault> {
        if let Some(token) =
            variable("CLOUDSDK_AUTH_ACCESS_TOKEN").or_else(|| variable("GOOGLE_OAUTH_ACCESS_TOKEN"))
        {
            return Ok(Source::Fixed(token.into()));
        }
        let named = variable("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
        let usual = std::env::var_os("HOME")
            .map(|home| PathBuf::from(home).join(".config/gcloud/application_default_credentials.json"))
            .filter(|path| path.exists());
        let file = named.or(usual);
        if file.is_none() && self.elsewhere {
            return Ok(Source::Nobody);
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
        Ok(Source::Renewed(Arc::new(store)))
    }
}

fn login(message: impl Into<String>) -> Fault {
    Fault::new(Class::Login, message)
}

/// Looks whether a file is of a kind that is read.
///
/// # Errors
/// If not, by name.
fn check(path: &Path) -> Result<(), Fault> {
    let name = path.display();
    let content = std::fs::read(path).map_err(|error| login(format!("{name}: {error}")))?;
    let Kind { kind } =
        serde_json::from_slice(&content).map_err(|_| login(format!("{name} is no file of credentials")))?;
    match &kind[..] {
        "service_account" | "authorized_user" => Ok(()),
        other => Err(login(format!(
            "{name} logs in by `{other}`, which haul does not know: \
             export CLOUDSDK_AUTH_ACCESS_TOKEN=$(gcloud auth print-access-token) gives it a token"
        ))),
    }
}
