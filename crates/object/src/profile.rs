//! Profiles in `~/.aws/config` and `~/.aws/credentials`.
//!
//! Format: <https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html>. This module reads keys, session
//! tokens, `region`, `endpoint_url` and `credential_process`; `s3/roles.rs` handles assumed roles and SSO.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs};

use object_store::aws::AwsCredential;
use serde::Deserialize;

/// One profile: the values of both files; the credentials file wins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    name: String,
    values: HashMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FromProcess {
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
}

impl Profile {
    /// The profile with this name, or that in `AWS_PROFILE`, or the default one. A missing file counts as empty.
    pub(crate) fn load(name: Option<&str>) -> Self {
        let name = name.map(str::to_owned).or_else(|| env::var("AWS_PROFILE").ok());
        Self::of(&name.unwrap_or_else(|| "default".to_owned()))
    }

    /// The profile with this name.
    pub(crate) fn of(name: &str) -> Self {
        let mut values = section(&config(), &["default", &format!("profile {name}")], name);
        values.extend(section(&file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), &[name], name));
        Self { name: name.to_owned(), values }
    }

    /// The section of an SSO session, which several profiles may share.
    pub(crate) fn session(name: &str) -> Self {
        Self { name: name.to_owned(), values: section(&config(), &[&format!("sso-session {name}")], name) }
    }

    /// The name of the profile.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The profile without the value of `key`.
    pub(crate) fn without(mut self, key: &str) -> Self {
        self.values.remove(key);
        self
    }

    /// The value of `key`, unless it is empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The credentials of the profile; `None` if it has none.
    ///
    /// # Errors
    /// A sentence: the profile uses an unsupported method, or its process failed.
    pub(crate) fn credential(&self) -> Result<Option<AwsCredential>, String> {
        if let (Some(key_id), Some(secret_key)) =
            (self.get("aws_access_key_id"), self.get("aws_secret_access_key"))
        {
            let token = self.get("aws_session_token").map(str::to_owned);
            return Ok(Some(AwsCredential {
                key_id: key_id.to_owned(),
                secret_key: secret_key.to_owned(),
                token,
            }));
        }
        if let Some(command) = self.get("credential_process") {
            return self.run(command).map(Some);
        }
        if self.get("web_identity_token_file").is_some() {
            return Err(self.refused("web_identity_token_file"));
        }
        if self.name != "default" && self.values.is_empty() {
            return Err(format!(
                "there is no profile `{}` in ~/.aws/config or ~/.aws/credentials",
                self.name
            ));
        }
        Ok(None)
    }

    /// The message about an unsupported login method.
    pub(crate) fn refused(&self, by: &str) -> String {
        let name = &self.name;
        format!(
            "the profile `{name}` logs in by `{by}`, which haul does not read from profiles: \
             eval \"$(aws configure export-credentials --profile {name} --format env)\" sets the variables that it reads"
        )
    }

    fn run(&self, command: &str) -> Result<AwsCredential, String> {
        let failed = |why: String| format!("the credential_process of the profile `{}` {why}", self.name);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = shell.output().map_err(|error| failed(format!("cannot be run: {error}")))?;
        if !output.status.success() {
            return Err(failed(format!("failed: {}", output.status)));
        }
        let said: FromProcess = serde_json::from_slice(&output.stdout)
            .map_err(|_| failed("did not print credentials as JSON".to_owned()))?;
        let FromProcess { access_key_id: key_id, secret_access_key: secret_key, session_token: token } = said;
        Ok(AwsCredential { key_id, secret_key, token })
    }
}

fn config() -> String {
    file("AWS_CONFIG_FILE", "config")
}

/// The content of the file that a variable names, or of the default one.
fn file(variable: &str, name: &str) -> String {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".aws").join(name));
    let path = env::var_os(variable).map(PathBuf::from).or(home);
    path.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default()
}

/// The values in the section with one of these titles. In the config file, `[default]` belongs to the default profile
/// only.
fn section(text: &str, titles: &[&str], name: &str) -> HashMap<String, String> {
    let (mut values, mut inside) = (HashMap::new(), false);
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(title) = trimmed.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
            inside = titles.contains(&&title[..]) && (title != "default" || name == "default");
        } else if inside
            && !line.starts_with([' ', '\t'])
            && let Some((key, value)) = trimmed.split_once('=')
        {
            values.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "\
[default]
region = eu-west-1
# nothing
s3 =
  max_concurrent_requests = 20
[profile  backup]
region=us-east-2
endpoint_url = http://127.0.0.1:9000
";

    #[test]
    fn only_the_section_of_the_profile_is_read() {
        let default = section(CONFIG, &["default", "profile default"], "default");
        assert_eq!(default.get("region").unwrap(), "eu-west-1");
        assert!(!default.contains_key("max_concurrent_requests"));
        let backup = section(CONFIG, &["default", "profile backup"], "backup");
        assert_eq!(backup.get("region").unwrap(), "us-east-2");
        assert_eq!(backup.get("endpoint_url").unwrap(), "http://127.0.0.1:9000");
        assert!(section(CONFIG, &["backup"], "backup").is_empty());
    }

    #[test]
    fn an_unsupported_login_method_is_refused_by_name() {
        let values = [("web_identity_token_file".to_owned(), "file".to_owned())].into();
        let profile = Profile { name: "corp".to_owned(), values };
        assert!(profile.credential().unwrap_err().contains("web_identity_token_file"));
        let values = [(
            "credential_process".to_owned(),
            "echo '{\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"b\"}'".to_owned(),
        )];
        let profile = Profile { name: "x".to_owned(), values: values.into() };
        assert_eq!(profile.credential().unwrap().unwrap().key_id, "a");
    }
}
