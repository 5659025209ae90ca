//! Who logs in at which server, and how.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use haul_core::location::SmbServer;

use super::ticket::Tickets;

/// The user and the password of a share.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ShareCredentials {
    /// The user.
    pub user: Option<String>,
    /// The domain or workgroup; empty if the server knows the user without one.
    pub domain: Option<String>,
    /// The password.
    pub password: Option<String>,
}

impl fmt::Debug for ShareCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "***");
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("domain", &self.domain)
            .field("password", &password)
            .finish()
    }
}

impl ShareCredentials {
    /// Reads a file of credentials as mount.cifs(8) has it: lines `username=`, `password=` and `domain=`. Lines with `#`
    /// at their beginning are comments.
    ///
    /// # Errors
    /// The mistake in the file, without the content of the file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut found = Self::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim_start();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = at + 1;
            let Some((name, value)) = line.split_once('=') else {
                return Err(format!("line {number} is not NAME=VALUE"));
            };
            let field = match name.trim_end() {
                "username" | "user" => &mut found.user,
                "password" | "pass" => &mut found.password,
                "domain" | "dom" | "workgroup" => &mut found.domain,
                _ => return Err(format!("line {number} names none of username, password and domain")),
            };
            if field.replace(value.to_owned()).is_some() {
                return Err(format!("line {number} gives a value for the second time"));
            }
        }
        let split = found.user.as_ref().and_then(|user| user.split_once('\\'));
        if let Some((domain, user)) = split.map(|(domain, user)| (domain.to_owned(), user.to_owned())) {
            if found.domain.as_ref().is_some_and(|other| *other != domain) {
                return Err("username and domain name two domains".to_owned());
            }
            (found.domain, found.user) = (Some(domain), Some(user));
        }
        Ok(found)
    }
}

/// The options of a share.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShareOptions {
    /// Whether everything has to be encrypted.
    pub encrypt: bool,
    /// Whether characters that SMB has no place for in names are replaced as mount.cifs(8) replaces them.
    pub map_names: bool,
    /// Whether the owner, the group and the permissions (DACL) of security descriptors are read and set.
    pub acls: bool,
    /// Whether their lists of audited accesses (SACL) are, too.
    pub sacls: bool,
    /// Whether alternate data streams are read and written.
    pub streams: bool,
    /// Whether times of creation are read and set.
    pub creation_times: bool,
    /// Whether files are opened with the intent to back them up, which lets backup operators open those of others.
    pub backup_intent: bool,
}

/// A login at a share.
#[derive(Clone, Debug)]
pub struct ShareLogin {
    /// The server and the share; user and domain of the location count before those of the credentials.
    pub server: SmbServer,
    /// User and password.
    pub credentials: ShareCredentials,
    /// Tickets, which take the place of the password.
    pub tickets: Option<Arc<dyn Tickets>>,
    /// The options of the share.
    pub options: ShareOptions,
    /// How long a request may stay without an answer.
    pub timeout: Duration,
}

impl ShareLogin {
    pub(super) fn user(&self) -> &str {
        self.server.user.as_deref().or(self.credentials.user.as_deref()).unwrap_or_default()
    }

    pub(super) fn domain(&self) -> &str {
        self.server.domain.as_deref().or(self.credentials.domain.as_deref()).unwrap_or_default()
    }

    pub(super) fn password(&self) -> &str {
        self.credentials.password.as_deref().unwrap_or_default()
    }

    /// Whether the user asks for a guest session, which cannot be signed.
    pub(super) fn is_guest(&self) -> bool {
        self.tickets.is_none() && self.user().eq_ignore_ascii_case("guest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_credentials_is_read_as_mount_cifs_reads_it() {
        let text = "# for backups\n  username=me\npassword= a,b=c# \n\ndomain=HERE\n";
        let read = ShareCredentials::parse(text).unwrap();
        assert_eq!(read.user.as_deref(), Some("me"));
        assert_eq!(read.password.as_deref(), Some(" a,b=c# "), "to the end of the line");
        assert_eq!(read.domain.as_deref(), Some("HERE"));
        let joined = ShareCredentials::parse("user=HERE\\me\npass=x").unwrap();
        assert_eq!((joined.domain.as_deref(), joined.user.as_deref()), (Some("HERE"), Some("me")));
        assert!(!format!("{read:?}").contains("a,b=c"));
    }

    #[test]
    fn a_file_that_is_none_is_refused_without_its_content() {
        for bad in ["secret", "pasword=secret", "password=secret\npass=secret", "user=A\\x\ndomain=secret"] {
            let why = ShareCredentials::parse(bad).unwrap_err();
            assert!(!why.contains("secret"), "{why}");
        }
    }
}
