//! Who asks: the usual chain of credentials.
//!
//! The environment, the profile, then what the library knows: web identity, the container's role, the instance's
//! role, each renewed before it runs out.

use std::sync::{Arc, Mutex, PoisonError};

use object_store::aws::{AmazonS3, AmazonS3Builder, AwsCredential};

use crate::fault::{Class, Fault};
use crate::profile::Profile;

/// Where credentials come from.
pub(super) struct Chain {
    bucket: String,
    region: String,
    state: Mutex<Option<Source>>,
}

#[derive(Clone)]
enum Source {
    /// As the environment or a profile has them.
    Fixed(Arc<AwsCredential>),
    /// The library renews them. Boxed: it is large.
    Renewed(Arc<AmazonS3>),
}

impl Chain {
    /// Nothing is looked at yet.
    pub(super) fn new(bucket: &str, region: &str) -> Self {
        Self { bucket: bucket.to_owned(), region: region.to_owned(), state: Mutex::new(None) }
    }

    /// Forgets what was read, because it is refused: the environment of a process does not change, but files do.
    pub(super) fn forget(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The credentials as they are now.
    pub(super) async fn get(&self) -> Result<Arc<AwsCredential>, Fault> {
        let source = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match &*state {
                Some(source) => source.clone(),
                None => state.insert(self.find()?).clone(),
            }
        };
        match source {
            Source::Fixed(credential) => Ok(credential),
            Source::Renewed(store) => store.credentials().get_credential().await.map_err(|_| {
                Fault::new(Class::Login, "no credentials were found, and no instance or container gives any")
            }),
        }
    }

    fn find(&self) -> Result<Source, Fault> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let login = |message: String| Fault::new(Class::Login, message);
        if let (Some(key_id), Some(secret_key)) =
            (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
        {
            let token = variable("AWS_SESSION_TOKEN");
            return Ok(Source::Fixed(Arc::new(AwsCredential { key_id, secret_key, token })));
        }
        if let Some(credential) = Profile::load().credential().map_err(login)? {
            return Ok(Source::Fixed(Arc::new(credential)));
        }
        let store = AmazonS3Builder::from_env()
            .with_bucket_name(&self.bucket)
            .with_region(&self.region)
            .with_retry(crate::runtime::retry_of_logins())
            .with_client_options(crate::runtime::options_of_logins())
            .build();
        store.map(|store| Source::Renewed(Arc::new(store))).map_err(|error| login(error.to_string()))
    }
}
