//! Who asks: the usual chain of credentials.
//!
//! The environment, the profile (`roles.rs`), then what the library knows: web identity, the container's role, the
//! instance's role, each renewed before it runs out.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AwsCredential};

use super::roles;
use crate::fault::{Class, Fault};
use crate::http::variable;
use crate::login::Found;
use crate::profile::Profile;

/// Where credentials come from.
pub(super) struct Chain {
    bucket: String,
    region: String,
    found: Found<Source>,
    /// Held by the one who asks for all.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
enum Source {
    /// As the environment or a profile has them, and until when they are good.
    Fixed(Arc<AwsCredential>, Option<Arc<str>>),
    /// The library renews them. Boxed: it is large.
    Renewed(Arc<AmazonS3>),
}

impl Chain {
    /// Nothing is looked at yet.
    pub(super) fn new(bucket: &str, region: &str) -> Self {
        Self {
            bucket: bucket.to_owned(),
            region: region.to_owned(),
            found: Found::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Forgets what was read, because it is refused.
    pub(super) fn forget(&self) {
        self.found.forget();
    }

    /// The credentials as they are now.
    pub(super) async fn get(&self) -> Result<Arc<AwsCredential>, Fault> {
        let source = match self.held() {
            Some(source) => source,
            None => {
                let _asking = self.asking.lock().await;
                match self.held() {
                    Some(source) => source,
                    None => {
                        let found = self.find().await?;
                        self.found.keep(found.clone());
                        found
                    }
                }
            }
        };
        match source {
            Source::Fixed(credential, _) => Ok(credential),
            Source::Renewed(store) => store.credentials().get_credential().await.map_err(|_| {
                Fault::new(Class::Login, "no credentials were found, and no instance or container gives any")
            }),
        }
    }

    /// What was found before, if it is good for a while yet.
    fn held(&self) -> Option<Source> {
        let source = self.found.get()?;
        match &source {
            Source::Fixed(_, Some(until)) if !lasts(until) => None,
            _ => Some(source),
        }
    }

    async fn find(&self) -> Result<Source, Fault> {
        let login = |message: String| Fault::new(Class::Login, message);
        if let (Some(key_id), Some(secret_key)) =
            (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
        {
            let token = variable("AWS_SESSION_TOKEN");
            return Ok(Source::Fixed(Arc::new(AwsCredential { key_id, secret_key, token }), None));
        }
        if let Some(lent) = roles::credential(&Profile::load()).await.map_err(login)? {
            return Ok(Source::Fixed(Arc::new(lent.credential), lent.until.map(Into::into)));
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

/// Whether credentials are good for five minutes more.
fn lasts(until: &str) -> bool {
    let soon = roles::now(Duration::from_secs(300));
    until.get(..19).zip(soon.get(..19)).is_some_and(|(until, soon)| until > soon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_out_soon_is_renewed() {
        assert!(
            !lasts("2019-11-09T13:34:41Z") && !lasts(&roles::now(Duration::from_secs(200))) && !lasts("")
        );
        assert!(lasts(&roles::now(Duration::from_secs(400))) && lasts("2999-01-01T00:00:00UTC"));
    }
}
