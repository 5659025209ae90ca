//! Credentials of profiles that use SSO or assume a role.
//!
//! Formats: <https://docs.aws.amazon.com/sdkref/latest/guide/feature-sso-credentials.html> and
//! <https://docs.aws.amazon.com/sdkref/latest/guide/feature-assume-role-credentials.html>. `aws sso login` leaves a
//! token in `~/.aws/sso/cache`; haul exchanges it for the credentials of the role.

use std::path::PathBuf;
use std::time::Duration;

use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpRequest, HttpRequestBody};
use serde::Deserialize;

use crate::profile::Profile;
use crate::settings::variable;
use crate::url::append_query;

/// The longest chain of source profiles.
const DEPTH: usize = 5;

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Credentials with their expiry time (RFC 3339), if any.
pub(super) struct ExpiringCredential {
    pub(super) credential: AwsCredential,
    pub(super) until: Option<String>,
}

/// The credentials of a profile; `None` if it has none of its own.
///
/// # Errors
/// A sentence that names the profile and the remedy.
pub(super) async fn credential(profile: &Profile) -> Result<Option<ExpiringCredential>, String> {
    // From the named profile to the one that has credentials of its own.
    let mut roles = vec![profile.clone()];
    while let Some(role) = roles.last().filter(|last| last.get("role_arn").is_some()) {
        if roles.len() > DEPTH {
            return Err(format!("the profile `{}` stands on too many others", profile.name()));
        }
        if role.get("mfa_serial").is_some() {
            return Err(role.refused("mfa_serial"));
        }
        let Some(source) = role.get("source_profile") else {
            let by = ["web_identity_token_file", "credential_source"];
            return Err(
                role.refused(by.into_iter().find(|key| role.get(key).is_some()).unwrap_or("role_arn"))
            );
        };
        let (own, source) = (source == role.name(), Profile::of(source));
        roles.push(if own { source.without("role_arn") } else { source });
    }
    let Some(first) = roles.pop() else { return Ok(None) };
    let mut credential_lent = match first.credential()? {
        Some(credential) => Some(ExpiringCredential { credential, until: None }),
        None if first.get("sso_account_id").is_some() => Some(by_sso(&first).await?),
        None if roles.is_empty() => None,
        None => {
            return Err(format!("the profile `{}` has no credentials to assume a role with", first.name()));
        }
    };
    while let Some(role) = roles.pop() {
        if let Some(base) = credential_lent.take() {
            credential_lent = Some(by_role(&role, &base.credential).await?);
        }
    }
    Ok(credential_lent)
}

/// A token of `aws sso login`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SsoToken {
    start_url: String,
    access_token: String,
    expires_at: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SsoAnswer {
    role_credentials: SsoCredentials,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SsoCredentials {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    /// Milliseconds since 1970.
    expiration: u64,
}

async fn by_sso(profile: &Profile) -> Result<ExpiringCredential, String> {
    let session = profile.get("sso_session").map(Profile::session);
    let said = |key: &str| {
        let value = session.as_ref().and_then(|session| session.get(key)).or_else(|| profile.get(key));
        value
            .map(str::to_owned)
            .ok_or_else(|| format!("the profile `{}` does not say `{key}`", profile.name()))
    };
    let (start, region) = (said("sso_start_url")?, said("sso_region")?);
    let (account, role) = (said("sso_account_id")?, said("sso_role_name")?);
    let token = cached(&start).ok_or_else(|| {
        let name = profile.name();
        format!("the SSO login of the profile `{name}` has run out or was never made: aws sso login --profile {name}")
    })?;
    let base = variable("AWS_ENDPOINT_URL_SSO");
    let mut url = base.unwrap_or_else(|| format!("https://portal.sso.{region}.amazonaws.com"));
    url.push_str("/federation/credentials");
    append_query(&mut url, &[("account_id", account), ("role_name", role)]);
    let request = client()?.get(url).header("x-amz-sso_bearer_token", token.access_token);
    let content = ask(request, &format!("the SSO login of the profile `{}`", profile.name())).await?;
    let SsoAnswer { role_credentials: given } =
        serde_json::from_slice(&content).map_err(|_| "the SSO portal's answer makes no sense".to_owned())?;
    let credential = AwsCredential {
        key_id: given.access_key_id,
        secret_key: given.secret_access_key,
        token: Some(given.session_token).filter(|token| !token.is_empty()),
    };
    Ok(ExpiringCredential { credential, until: Some(crate::time::of_unix(given.expiration / 1000)) })
}

/// The newest unexpired token for a portal.
fn cached(start: &str) -> Option<SsoToken> {
    let directory = PathBuf::from(std::env::var_os("HOME")?).join(".aws/sso/cache");
    let files = std::fs::read_dir(directory).ok()?.flatten();
    let tokens = files.filter_map(|file| {
        let token: SsoToken = serde_json::from_slice(&std::fs::read(file.path()).ok()?).ok()?;
        Some(token).filter(|token| token.start_url.trim_end_matches('/') == start.trim_end_matches('/'))
    });
    // All times have the same format except at their end, so text order is time order.
    let newest = tokens.max_by(|a, b| a.expires_at.cmp(&b.expires_at))?;
    let now = crate::time::after(Duration::ZERO);
    (newest.expires_at.get(..19)? > now.get(..19)?).then_some(newest)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Assumed {
    assume_role_result: AssumedResult,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AssumedResult {
    credentials: Temporary,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Temporary {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    expiration: String,
}

async fn by_role(profile: &Profile, base: &AwsCredential) -> Result<ExpiringCredential, String> {
    let region = variable("AWS_REGION").or_else(|| profile.get("region").map(str::to_owned));
    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    let address =
        variable("AWS_ENDPOINT_URL_STS").unwrap_or_else(|| format!("https://sts.{region}.{domain}"));
    let mut url = format!("{}/", address.trim_end_matches('/'));
    let value = |key: &str, default: &str| profile.get(key).unwrap_or(default).to_owned();
    let mut query = vec![
        ("Action", "AssumeRole".to_owned()),
        ("Version", "2011-06-15".to_owned()),
        ("RoleArn", value("role_arn", "")),
        ("RoleSessionName", value("role_session_name", "haul")),
        ("DurationSeconds", value("duration_seconds", "3600")),
    ];
    if let Some(id) = profile.get("external_id") {
        query.push(("ExternalId", id.to_owned()));
    }
    append_query(&mut url, &query);
    let mut signed = HttpRequest::new(HttpRequestBody::empty());
    *signed.uri_mut() = url.parse().map_err(|_| format!("`{address}` is no address of STS"))?;
    let sign = AwsAuthorizer::new(base, "sts", &region).try_authorize(&mut signed, None);
    sign.map_err(|error| error.to_string())?;
    let request = client()?.get(url).headers(std::mem::take(signed.headers_mut()));
    let content = ask(request, &format!("the role of the profile `{}`", profile.name())).await?;
    let assumed: Assumed = quick_xml::de::from_reader(&content[..])
        .map_err(|_| "the answer of STS makes no sense".to_owned())?;
    let Temporary { access_key_id: key_id, secret_access_key: secret_key, session_token, expiration } =
        assumed.assume_role_result.credentials;
    let token = Some(session_token).filter(|token| !token.is_empty());
    let credential = AwsCredential { key_id, secret_key, token };
    Ok(ExpiringCredential { credential, until: Some(expiration) })
}

fn client() -> Result<reqwest::Client, String> {
    // A token must not be forwarded to another host.
    let client = reqwest::Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none());
    client.build().map_err(|error| error.to_string())
}

async fn ask(request: reqwest::RequestBuilder, what: &str) -> Result<Vec<u8>, String> {
    let answer = request.send().await.map_err(|error| format!("{what}: {error}"))?;
    let status = answer.status();
    let content = answer.bytes().await.map_err(|error| format!("{what}: {error}"))?;
    if status.is_success() {
        return Ok(content.to_vec());
    }
    // STS answers in XML, the portal in JSON.
    let fault = crate::xml::refusal(status.as_u16(), &content);
    Err(format!("{what} is refused: {} (HTTP {})", fault.message, status.as_u16()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sts_answer_is_parsed() {
        let text = b"<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult>\
            <AssumedRoleUser><Arn>a</Arn></AssumedRoleUser><Credentials><AccessKeyId>ASIA</AccessKeyId>\
            <SecretAccessKey>s/e</SecretAccessKey><SessionToken>t</SessionToken>\
            <Expiration>2019-11-09T13:34:41Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";
        let assumed: Assumed = quick_xml::de::from_reader(&text[..]).unwrap();
        let given = assumed.assume_role_result.credentials;
        assert_eq!((&given.access_key_id[..], &given.expiration[..]), ("ASIA", "2019-11-09T13:34:41Z"));
        assert_eq!((&given.secret_access_key[..], &given.session_token[..]), ("s/e", "t"));
    }
}
