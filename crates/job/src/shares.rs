//! Opens SMB shares: one session for each share and user.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haul_core::location::SmbServer;
use haul_core::{Error, ErrorKind, Result, Side};
use haul_smb::{Credentials, Limits, Login, Smb};

use super::ends_config::EndsConfig;
use super::errors::usage;

/// The most bytes that a file of credentials may have.
const MOST: u64 = 64 * 1024;

/// Opens a session.
pub(crate) fn open(
    config: &EndsConfig,
    server: &SmbServer,
    note: &Arc<dyn Fn(&str) + Send + Sync>,
) -> Result<Arc<Smb>> {
    let settings = &config.shares;
    let credentials = match &settings.credentials {
        Some(path) => read(path)?,
        None => Credentials::default(),
    };
    check(server, &credentials)?;
    let login = Login {
        server: server.clone(),
        credentials,
        encrypt: settings.encrypt,
        map_names: settings.map_names,
        timeout: Duration::from_secs(config.peer.ssh.timeout.max(2).into()),
    };
    let limits = Limits { streams: config.peer.streams, iops: config.peer.iops };
    Smb::connect(login, limits, &config.pool, Arc::clone(note))
}

/// Refuses a login that lacks something, or that two users are given for.
fn check(server: &SmbServer, credentials: &Credentials) -> Result<()> {
    let refused = |cause: &str| Err(usage("log in", cause).on(server.to_string()));
    let differ = |one: &Option<String>, other: &Option<String>| {
        one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| !one.eq_ignore_ascii_case(other))
    };
    if differ(&server.user, &credentials.user) || differ(&server.domain, &credentials.domain) {
        return refused("the location names another user or domain than the file of --smb-credentials");
    }
    let user = server.user.as_ref().or(credentials.user.as_ref());
    let is_guest = user.is_some_and(|user| user.eq_ignore_ascii_case("guest"));
    if user.is_none_or(String::is_empty) || credentials.password.is_none() && !is_guest {
        let cause = "no user and password are given";
        let hint = "write username=USER and password=PASSWORD into a file that only you can read, and name it with \
                    --smb-credentials; the user guest needs none";
        return Err(usage("log in", cause).on(server.to_string()).with_hint(hint));
    }
    Ok(())
}

/// Reads a file of credentials that nobody but its owner can read.
fn read(path: &Path) -> Result<Credentials> {
    let refused = |cause: &str| {
        usage("read the file of --smb-credentials", cause).on(path.as_os_str().as_encoded_bytes())
    };
    let failed = |error: &io::Error| {
        let error = Error::io(Side::Local, "read the file of --smb-credentials", error);
        Error::new(ErrorKind::Usage, Side::Local, error.operation(), error.cause())
            .on(path.as_os_str().as_encoded_bytes())
    };
    // Without O_NONBLOCK a FIFO would block.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file =
        OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| failed(&error))?;
    let about = file.metadata().map_err(|error| failed(&error))?;
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
    file.take(MOST).read_to_string(&mut text).map_err(|error| failed(&error))?;
    Credentials::parse(&text).map_err(|cause| refused(&cause))
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
        assert_eq!(read(&path).unwrap_err().kind(), ErrorKind::Usage);
        fs::write(&path, "username=me\npassword=hidden\n").unwrap();
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        for bad in [0o640, 0o604, 0o620] {
            mode(bad);
            let error = read(&path).unwrap_err();
            assert!(error.hint().unwrap().contains("chmod go-rwx") && !error.to_string().contains("hidden"));
        }
        mode(0o600);
        assert_eq!(read(&path).unwrap().password.as_deref(), Some("hidden"));
        assert!(read(dir.path()).unwrap_err().cause().contains("regular file"));
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
        let of = |user: Option<&str>, password: Option<&str>| Credentials {
            user: user.map(str::to_owned),
            password: password.map(str::to_owned),
            domain: None,
        };
        assert!(check(&server(None), &of(None, None)).is_err());
        assert!(check(&server(Some("me")), &of(None, None)).is_err());
        assert!(check(&server(Some("me")), &of(Some("you"), Some("x"))).is_err());
        assert!(check(&server(Some("me")), &of(Some("Me"), Some("x"))).is_ok());
        assert!(check(&server(Some("guest")), &of(None, None)).is_ok());
        assert!(check(&server(None), &of(Some("me"), Some("x"))).is_ok());
    }
}
