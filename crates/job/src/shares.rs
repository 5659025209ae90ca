//! Opens SMB shares: one session for each share and user.
//!
//! User and password are in the file of `--smb-credentials`, else in the variables of mount.cifs(8) or in the file that
//! one of them names. Without a password, a Kerberos ticket takes its place, else the terminal is asked once.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haul_core::location::SmbServer;
use haul_core::text::Clean;
use haul_core::{Error, ErrorKind, Note, Result, Side};
use haul_smb::{Limits, ShareCredentials, ShareLogin, Smb, Tickets};

use super::ends_config::EndsConfig;
use super::errors::usage;
use super::{password, tickets};

/// The most bytes that a file of credentials may have.
const MOST: u64 = 64 * 1024;
/// The file of credentials, in messages.
const FILE: &str = "the file of --smb-credentials";

/// Opens a session.
pub(crate) fn open(
    config: &EndsConfig,
    server: &SmbServer,
    note: &Note,
    cancel: &AtomicBool,
) -> Result<Arc<Smb>> {
    let settings = &config.shares;
    let mut credentials = match &settings.credentials {
        Some(path) => {
            ShareCredentials::parse(&read(path, FILE)?).map_err(|cause| refused(path, FILE, &cause))?
        }
        None => {
            let found = of_environment(&|name| std::env::var(name).ok())?;
            ShareCredentials { user: found.user.filter(|_| server.user.is_none()), ..found }
        }
    };
    let timeout = Duration::from_secs(config.peer.ssh.timeout.max(2).into());
    let tickets = match &credentials.password {
        None => tickets_for(settings.credentials.is_some(), server, &credentials, timeout, cancel)?,
        Some(_) => None,
    };
    let user = server.user.clone().or_else(|| credentials.user.clone()).filter(|user| !user.is_empty());
    let is_asked_for = tickets.is_none() && credentials.password.is_none();
    if let Some(user) = user.filter(|user| is_asked_for && !is_guest(user)) {
        let question = format!("Password of {} at {}: ", user.clean(), server.host.clone().clean());
        credentials.password = password::ask(&question, cancel)?;
    }
    check(server, &credentials, tickets.is_some())?;
    let login =
        ShareLogin { server: server.clone(), credentials, tickets, options: settings.options, timeout };
    let limits = Limits { streams: config.peer.streams, iops: config.peer.iops };
    Smb::connect(login, limits, &config.pool, Arc::clone(note))
}

/// The Kerberos tickets of the user that the location or the file of credentials names, or of any user.
fn tickets_for(
    has_file: bool,
    server: &SmbServer,
    credentials: &ShareCredentials,
    timeout: Duration,
    cancel: &AtomicBool,
) -> Result<Option<Arc<dyn Tickets>>> {
    // The variable USER is set on every system, and so chooses none.
    let of_file = credentials.user.as_deref().filter(|_| has_file);
    let user = server.user.as_deref().or(of_file);
    if user.is_some_and(is_guest) {
        return Ok(None);
    }
    let domain = server.domain.as_deref().or(credentials.domain.as_deref());
    tickets::of_user(server, user, domain, timeout, cancel)
}

/// Refuses a login that lacks something, or that two users are given for.
fn check(server: &SmbServer, credentials: &ShareCredentials, has_tickets: bool) -> Result<()> {
    let refused = |cause: &str| Err(usage("log in to", cause).on(server.to_string()));
    let differ = |one: &Option<String>, other: &Option<String>| {
        one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| !one.eq_ignore_ascii_case(other))
    };
    if differ(&server.user, &credentials.user) || differ(&server.domain, &credentials.domain) {
        return refused("the location names another user or domain than the file of --smb-credentials");
    }
    let user = server.user.as_ref().or(credentials.user.as_ref());
    let is_guest = user.is_some_and(|user| is_guest(user));
    if has_tickets {
        return Ok(());
    }
    if user.is_none_or(String::is_empty) || credentials.password.is_none() && !is_guest {
        let cause = "no user and password are given";
        let hint = "write username=USER and password=PASSWORD into a file that only you can read, and name it with \
                    --smb-credentials, or get a Kerberos ticket of this user with kinit, or run haul on a terminal; the \
                    user guest needs none";
        // As for a store: the login fails, and the command line is right.
        let error = Error::new(ErrorKind::Unreachable, Side::Wire, "log in to", cause);
        return Err(error.on(server.to_string()).with_hint(hint));
    }
    Ok(())
}

fn is_guest(user: &str) -> bool {
    user.eq_ignore_ascii_case("guest")
}

/// User and password of the variables `USER`, `PASSWD` and `PASSWD_FILE`.
fn of_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<ShareCredentials> {
    let password = match (variable("PASSWD"), variable("PASSWD_FILE")) {
        (Some(password), _) => Some(password),
        (None, Some(path)) => {
            let text = read(Path::new(&path), "the file of PASSWD_FILE")?;
            Some(text.lines().next().unwrap_or_default().to_owned())
        }
        (None, None) => None,
    };
    Ok(ShareCredentials { user: variable("USER"), password, domain: None })
}

fn refused(path: &Path, file: &str, cause: &str) -> Error {
    usage(&format!("read {file}"), cause).on(path.as_os_str().as_encoded_bytes())
}

/// Reads a file that nobody but its owner can read.
fn read(path: &Path, file: &str) -> Result<String> {
    let failed = |error: &io::Error| {
        let error = Error::io(Side::Local, "read", error);
        refused(path, file, error.cause())
    };
    let refused = |cause: &str| refused(path, file, cause);
    // Without O_NONBLOCK a FIFO would block.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened =
        OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| failed(&error))?;
    let about = opened.metadata().map_err(|error| failed(&error))?;
    let user = rustix::process::geteuid().as_raw();
    if !about.is_file() {
        return Err(refused("it is not a regular file"));
    }
    if about.uid() != user && about.uid() != 0 {
        return Err(refused("it belongs to another user"));
    }
    if about.mode() & 0o077 != 0 {
        return Err(refused("others can read or change it").with_hint("run `chmod go-rwx` on it"));
    }
    let mut text = String::new();
    opened.take(MOST).read_to_string(&mut text).map_err(|error| failed(&error))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credentials");
        let read = |path: &Path| read(path, FILE);
        assert_eq!(read(&path).unwrap_err().kind(), ErrorKind::Usage);
        fs::write(&path, "username=me\npassword=hidden\n").unwrap();
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        for bad in [0o640, 0o604, 0o620] {
            mode(bad);
            let error = read(&path).unwrap_err();
            assert!(error.hint().unwrap().contains("chmod go-rwx") && !error.to_string().contains("hidden"));
        }
        mode(0o600);
        assert!(read(&path).unwrap().contains("hidden"));
        assert!(read(dir.path()).unwrap_err().cause().contains("regular file"));
    }

    #[test]
    fn the_variables_of_mount_cifs_are_read_and_their_file_is_checked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        fs::write(&path, "from a file\nmore\n").unwrap();
        let of = |given: &[(&str, &str)]| {
            let variable = |name: &str| {
                given.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
            };
            of_environment(&variable)
        };
        let file = path.to_str().unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let open = of(&[("PASSWD_FILE", file)]).unwrap_err();
        assert!(open.operation().contains("PASSWD_FILE") && open.hint().is_some(), "{open}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let read = of(&[("USER", "me"), ("PASSWD_FILE", file)]).unwrap();
        assert_eq!((read.user.as_deref(), read.password.as_deref()), (Some("me"), Some("from a file")));
        let both = of(&[("PASSWD", "at hand"), ("PASSWD_FILE", file)]).unwrap();
        assert_eq!((both.user, both.password.as_deref()), (None, Some("at hand")));
        assert_eq!(of(&[]).unwrap(), ShareCredentials::default());
    }

    #[test]
    fn a_login_without_a_user_or_with_two_is_refused() {
        let server = |user: Option<&str>| SmbServer {
            domain: None,
            user: user.map(str::to_owned),
            host: "nas".to_owned(),
            port: None,
            share: "disk".to_owned(),
        };
        let of = |user: Option<&str>, password: Option<&str>| ShareCredentials {
            user: user.map(str::to_owned),
            password: password.map(str::to_owned),
            domain: None,
        };
        assert!(check(&server(None), &of(None, None), false).is_err());
        assert!(check(&server(Some("me")), &of(None, None), false).is_err());
        assert!(check(&server(Some("me")), &of(Some("you"), Some("x")), false).is_err());
        assert!(check(&server(Some("me")), &of(Some("Me"), Some("x")), false).is_ok());
        assert!(check(&server(Some("guest")), &of(None, None), false).is_ok());
        assert!(check(&server(None), &of(Some("me"), Some("x")), false).is_ok());
        assert!(check(&server(None), &of(None, None), true).is_ok());
        assert!(check(&server(Some("me")), &of(Some("you"), None), true).is_err());
    }
}
