//! The login at Azure: a key, a shared access signature, or tokens, which are renewed before they expire.

use std::sync::Arc;

use object_store::azure::{
    AzureAccessKey, AzureAuthorizer, AzureConfigKey, AzureCredential, MicrosoftAzure, MicrosoftAzureBuilder,
    split_sas,
};
use object_store::client::{HttpRequest, HttpRequestBody};
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};

use super::address::ContainerAddress;
use crate::fault::{FailureClass, Fault};
use crate::http::{HttpCall, Signed, Signer};
use crate::login::CachedLogin;
use crate::settings::{StoreSettings, variable};
use crate::store::RequestResult;
use crate::url::keep_secret;

/// The version of the protocol that requests without credentials ask for; the library sets that of the others
/// (<https://learn.microsoft.com/rest/api/storageservices/versioning-for-the-azure-storage-services>).
const VERSION: &str = "2023-11-03";

/// Signs the requests for a container.
pub(super) struct AzLogin {
    pub(super) address: ContainerAddress,
    insecure_http: bool,
    /// Requests carry no credentials.
    anonymous: bool,
    found: CachedLogin<AzureCredentialSource>,
}

#[derive(Clone)]
enum AzureCredentialSource {
    /// A key or a signature.
    Fixed(Arc<AzureCredential>),
    /// Renewed by the library.
    Renewed(Arc<MicrosoftAzure>),
}

impl AzLogin {
    /// A login whose credentials were not looked up yet.
    pub(super) fn new(address: ContainerAddress, settings: &StoreSettings) -> Self {
        let (insecure_http, anonymous) = (settings.insecure_http, settings.anonymous);
        Self { address, insecure_http, anonymous, found: CachedLogin::default() }
    }

    async fn credential(&self) -> Result<Arc<AzureCredential>, Fault> {
        match self.found.or_find(|| self.find())? {
            AzureCredentialSource::Fixed(credential) => Ok(credential),
            AzureCredentialSource::Renewed(store) => {
                store.credentials().get_credential().await.map_err(|_| {
                    Fault::new(
                        FailureClass::Login,
                        "no token was given, neither for the environment nor by the machine",
                    )
                })
            }
        }
    }

    fn find(&self) -> Result<AzureCredentialSource, Fault> {
        let login = |message: String| Fault::new(FailureClass::Login, message);
        if let Some(key) = &self.address.key {
            let key = AzureAccessKey::try_new(key)
                .map_err(|_| login("the account's key is not in base64".into()))?;
            return Ok(AzureCredentialSource::Fixed(Arc::new(AzureCredential::AccessKey(key))));
        }
        if let Some(sas) = &self.address.sas {
            let pairs = split_sas(sas).map_err(|_| login("the shared access signature is none".into()))?;
            return Ok(AzureCredentialSource::Fixed(Arc::new(AzureCredential::SASToken(pairs))));
        }
        let named = [
            (AzureConfigKey::ClientId, "AZURE_CLIENT_ID"),
            (AzureConfigKey::ClientSecret, "AZURE_CLIENT_SECRET"),
            (AzureConfigKey::AuthorityId, "AZURE_TENANT_ID"),
            (AzureConfigKey::AuthorityHost, "AZURE_AUTHORITY_HOST"),
            (AzureConfigKey::FederatedTokenFile, "AZURE_FEDERATED_TOKEN_FILE"),
            (AzureConfigKey::MsiEndpoint, "IDENTITY_ENDPOINT"),
            (AzureConfigKey::Token, "AZURE_STORAGE_TOKEN"),
        ];
        let mut builder = MicrosoftAzureBuilder::new()
            .with_account(&self.address.account)
            .with_container_name(&self.address.container)
            .with_retry(crate::runtime::retry_of_logins())
            .with_client_options(crate::runtime::options_of_logins());
        let mut said = false;
        for (key, name) in named {
            if let Some(value) = variable(name) {
                // A client id alone only selects one of the host's identities.
                said |= !matches!(key, AzureConfigKey::ClientId | AzureConfigKey::AuthorityHost);
                builder = builder.with_config(key, value.trim_end_matches('/'));
            }
        }
        let signed_in = std::env::var_os("HOME")
            .is_some_and(|home| std::path::Path::new(&home).join(".azure/azureProfile.json").exists());
        if !said && signed_in {
            builder = builder.with_config(AzureConfigKey::UseAzureCli, "true");
        }
        builder
            .build()
            .map(|store| AzureCredentialSource::Renewed(Arc::new(store)))
            .map_err(|error| login(error.to_string()))
    }
}

impl Signer for AzLogin {
    const SPOKEN: &'static str = "as Azure's Blob Storage does";
    const PREFIX: &'static str = "x-ms-";

    async fn sign(&self, call: &HttpCall<'_>) -> RequestResult<Signed> {
        if self.anonymous {
            let mut headers = call.header_map()?;
            headers.insert("x-ms-version", HeaderValue::from_static(VERSION));
            return Ok(Signed { url: self.address.url(call.key, &call.query), headers });
        }
        let credential = self.credential().await?;
        // A key only signs; anything else gives access to whoever intercepts it.
        if !self.insecure_http && !matches!(*credential, AzureCredential::AccessKey(_)) {
            keep_secret(&self.address.url(None, &[]), "the token or signature")?;
        }
        let mut signed = HttpRequest::new(HttpRequestBody::empty());
        *signed.method_mut() = call.method.clone();
        *signed.uri_mut() =
            self.address.url(call.key, &call.query).parse().map_err(|_| Fault::unsendable("its name"))?;
        let mut headers = call.header_map()?;
        if let Some(body) = call.body {
            // The signature covers the length.
            headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        *signed.headers_mut() = headers;
        let sign = AzureAuthorizer::new(&credential, &self.address.account).try_authorize(&mut signed);
        sign.map_err(|error| Fault::new(FailureClass::Login, error.to_string()))?;
        Ok(Signed { url: signed.uri().to_string(), headers: std::mem::take(signed.headers_mut()) })
    }

    fn refusal(&self, status: u16, answer: &HeaderMap, content: &[u8]) -> Fault {
        let fault = crate::xml::refusal(status, content);
        // An answer without content has its code in a header.
        let code = answer.get("x-ms-error-code").and_then(|value| value.to_str().ok());
        let fault = match code {
            Some(code) if fault.code.is_empty() => Fault::answer(status, code, ""),
            _ => fault,
        };
        // Azurite's words for Md5Mismatch.
        let damaged = fault.code == "InvalidOperation" && fault.message.contains("MD5 doesn't match");
        let fault = if damaged { Fault { class: FailureClass::Damaged, ..fault } } else { fault };
        if matches!(fault.class, FailureClass::Expired | FailureClass::Login) {
            self.found.forget();
        }
        // The further lines of Azure's message repeat the signed request.
        let message = fault.message.lines().next().unwrap_or_default().trim_end_matches('.').to_owned();
        Fault { message, ..fault }
    }
}
