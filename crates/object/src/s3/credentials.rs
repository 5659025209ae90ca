//! The credential chain of AWS.
//!
//! The environment, the profile (`roles.rs`), then the library's sources: web identity, container role, instance role.
//! Each is renewed before it expires.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AwsCredential};

use super::roles;
use crate::fault::{FailureClass, Fault};
use crate::login::CachedLogin;
use crate::profile::Profile;
use crate::settings::{AccessKeys, StoreSettings, variable};

/// The credential chain.
pub(super) struct AwsCredentialChain {
    bucket: String,
    region: String,
    /// The profile that the user named. Then nothing else gives credentials.
    profile: Option<String>,
    /// The keys that the user gave. Then nothing else gives credentials.
    keys: Option<AccessKeys>,
    found: CachedLogin<AwsCredentialSource>,
    /// Held by the thread that looks for credentials on behalf of all.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
enum AwsCredentialSource {
    /// From the environment or a profile, with the expiry time.
    Fixed(Arc<AwsCredential>, Option<Arc<str>>),
    /// Renewed by the library.
    Renewed(Arc<AmazonS3>),
}

impl AwsCredentialChain {
    /// A chain that has not been searched yet.
    pub(super) fn new(bucket: &str, region: &str, settings: &StoreSettings) -> Self {
        Self {
            bucket: bucket.to_owned(),
            region: region.to_owned(),
            profile: settings.profile.clone(),
            keys: settings.keys.clone(),
            found: CachedLogin::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Drops refused credentials.
    pub(super) fn forget(&self) {
        self.found.forget();
    }

    /// The current credentials.
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
            AwsCredentialSource::Fixed(credential, _) => Ok(credential),
            AwsCredentialSource::Renewed(store) => store.credentials().get_credential().await.map_err(|_| {
                Fault::new(
                    FailureClass::Login,
                    "no credentials were found, and no instance or container gives any",
                )
            }),
        }
    }

    /// The cached source, unless it expires soon.
    fn held(&self) -> Option<AwsCredentialSource> {
        let source = self.found.get()?;
        match &source {
            AwsCredentialSource::Fixed(_, Some(until)) if !lasts(until) => None,
            _ => Some(source),
        }
    }

    async fn find(&self) -> Result<AwsCredentialSource, Fault> {
        let login = |message: String| Fault::new(FailureClass::Login, message);
        if let Some(AccessKeys { key_id, secret_key, token }) = self.keys.clone() {
            return Ok(AwsCredentialSource::Fixed(
                Arc::new(AwsCredential { key_id, secret_key, token }),
                None,
            ));
        }
        if self.profile.is_none()
            && let (Some(key_id), Some(secret_key)) =
                (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
        {
            let token = variable("AWS_SESSION_TOKEN");
            return Ok(AwsCredentialSource::Fixed(
                Arc::new(AwsCredential { key_id, secret_key, token }),
                None,
            ));
        }
        if let Some(found) =
            roles::credential(&Profile::load(self.profile.as_deref())).await.map_err(login)?
        {
            return Ok(AwsCredentialSource::Fixed(Arc::new(found.credential), found.until.map(Into::into)));
        }
        if let Some(profile) = &self.profile {
            return Err(login(format!("the profile `{profile}` has no credentials")));
        }
        const PAIR: [&str; 2] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
        match PAIR.map(|name| variable(name).is_some()) {
            [true, false] => return Err(login(format!("{} is set, and {} is not", PAIR[0], PAIR[1]))),
            [false, true] => return Err(login(format!("{} is set, and {} is not", PAIR[1], PAIR[0]))),
            _ => {}
        }
        let store = AmazonS3Builder::from_env()
            .with_bucket_name(&self.bucket)
            .with_region(&self.region)
            .with_retry(crate::runtime::retry_of_logins())
            .with_client_options(crate::runtime::options_of_logins())
            .build();
        store
            .map(|store| AwsCredentialSource::Renewed(Arc::new(store)))
            .map_err(|error| login(error.to_string()))
    }
}

/// Whether credentials are valid for five more minutes.
fn lasts(until: &str) -> bool {
    let soon = crate::time::after(Duration::from_secs(300));
    until.get(..19).zip(soon.get(..19)).is_some_and(|(until, soon)| until > soon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_that_expire_soon_are_renewed() {
        assert!(
            !lasts("2019-11-09T13:34:41Z")
                && !lasts(&crate::time::after(Duration::from_secs(200)))
                && !lasts("")
        );
        assert!(lasts(&crate::time::after(Duration::from_secs(400))) && lasts("2999-01-01T00:00:00UTC"));
    }
}
