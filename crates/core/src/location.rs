//! Locations of ends, as given on the command line: `PATH`, `[user@]host:PATH`, `ssh://[user@]host[:port]/PATH`,
//! `sftp://[user@]host[:port]/PATH`, `smb://[domain;][user@]host[:port]/share/PATH`, `s3://BUCKET/KEY`, `gs://BUCKET/KEY`, `az://CONTAINER/KEY`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result, Side};
use crate::foreign_location::advice;
use crate::path::printable;

/// The location of an end. This type parses and prints locations; it does not open them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A path on this machine, as given.
    Local(Vec<u8>),
    /// A path on a remote host, reached by ssh. A path that begins with neither `/` nor `~` is relative to the home
    /// directory on that host; an empty path is the home directory.
    Ssh {
        /// The host to log in to.
        host: SshHost,
        /// The path on that host, as given. No shell interprets it.
        path: Vec<u8>,
    },
    /// A path on a remote host, reached by ssh through its SFTP server alone. The path is as in [`Location::Ssh`].
    Sftp {
        /// The host to log in to.
        host: SshHost,
        /// The path on that host, as given.
        path: Vec<u8>,
    },
    /// A path on a share of an SMB server.
    Smb {
        /// The share, and who logs in.
        server: SmbServer,
        /// The path on the share, as given; it begins with a slash, or is empty for the whole share.
        path: Vec<u8>,
    },
    /// An object in a store, or the common prefix of several.
    Object(ObjectPlace),
}

/// The kind of an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// Amazon S3 and compatible stores.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage.
    Az,
}

impl ObjectKind {
    /// The URL scheme of its locations.
    #[must_use]
    pub fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gs => "gs",
            Self::Az => "az",
        }
    }

    /// The kind with this URL scheme.
    #[must_use]
    pub fn of_scheme(scheme: &str) -> Option<Self> {
        [Self::S3, Self::Gs, Self::Az].into_iter().find(|kind| kind.scheme() == scheme)
    }
}

/// An object, or the common prefix of several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectPlace {
    /// The kind of store.
    pub kind: ObjectKind,
    /// The bucket; the container at Azure. Empty for the list of all buckets.
    pub bucket: String,
    /// The key in the bucket; empty for the whole bucket.
    pub key: String,
    /// The settings that reach the store.
    pub store: StoreNumber,
}

/// Which of the settings of a run reach a store. The default is those that all locations share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreNumber {
    /// The number of the settings.
    pub settings: u16,
    /// The number of their endpoint: settings with other credentials may have the same one.
    pub endpoint: u16,
}

impl ObjectPlace {
    /// Whether both are in one bucket, whatever the credentials are.
    #[must_use]
    pub fn is_beside(&self, other: &Self) -> bool {
        (self.kind, &self.bucket, self.store.endpoint) == (other.kind, &other.bucket, other.store.endpoint)
    }

    /// Whether both are in one bucket that is reached with one set of credentials.
    #[must_use]
    pub fn is_reached_with(&self, other: &Self) -> bool {
        self.is_beside(other) && self.store == other.store
    }
}

impl fmt::Display for ObjectPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.kind.scheme();
        if self.bucket.is_empty() {
            return write!(f, "{scheme}://");
        }
        write!(f, "{scheme}://{}/{}", self.bucket, printable(self.key.as_bytes()))
    }
}

/// A host to log in to, as passed to ssh.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SshHost {
    /// `[user@]host`, or an alias from ssh_config(5).
    pub destination: String,
    /// The port, if the location has one.
    pub port: Option<u16>,
}

impl fmt::Display for SshHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(self.destination.as_bytes()))?;
        if let Some(port) = self.port { write!(f, ":{port}") } else { Ok(()) }
    }
}

/// A share of an SMB server, and who logs in there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SmbServer {
    /// The domain or workgroup of the user, if the location has one.
    pub domain: Option<String>,
    /// The user, if the location has one.
    pub user: Option<String>,
    /// The name or address of the host; IPv6 addresses have no brackets.
    pub host: String,
    /// The port, if the location has one.
    pub port: Option<u16>,
    /// The name of the share.
    pub share: String,
}

impl fmt::Display for SmbServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &str| printable(text.as_bytes());
        f.write_str("smb://")?;
        if let Some(domain) = &self.domain {
            write!(f, "{};", text(domain))?;
        }
        if let Some(user) = &self.user {
            write!(f, "{}@", text(user))?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]", text(&self.host))
        } else {
            f.write_str(&text(&self.host))
        }?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        write!(f, "/{}", text(&self.share))
    }
}

/// The root that an end is to open. A remote end resolves it on its host.
///
/// A path that begins with neither `/` nor `~` is relative to the working directory, which for a remote end is the home
/// directory. A remote end expands a leading `~` or `~user`; locally the shell has done so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The path as given.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    /// How the root is found from the path.
    pub root: PlaceRoot,
}

/// How the root of an end is found from the given path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlaceRoot {
    /// The root is the path. A symbolic link is followed if the path ends in a slash (or `.` or `..`).
    Exactly,
    /// The root is the entry of this name in the directory at the path.
    Inside(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The root is the entry of this name in the directory at the path, or the path itself if it is not a directory.
    InsideIfDir(#[serde(with = "serde_bytes")] Vec<u8>),
}

impl Location {
    /// Parses a location. As in rsync, a colon before the first slash makes it remote; write `./a:b` for a local file
    /// with a colon in its name. IPv6 addresses are in brackets.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if it is empty, the host is missing or unsafe to hand to ssh, the port is no number,
    /// the scheme is not supported, or it is in the notation of another tool (`s3:bucket`, `host::module`, `C:\x`).
    pub fn parse(text: &[u8]) -> Result<Self> {
        let bad =
            |why: &str| Err(Error::new(ErrorKind::Usage, Side::Local, "read the location", why).on(text));
        if text.is_empty() {
            return bad("it is empty");
        }
        if text.contains(&0) {
            return bad("it holds a NUL byte");
        }
        if let Some(at) = find(text, b"://") {
            let scheme = String::from_utf8_lossy(&text[..at]).into_owned();
            let rest = &text[at + 3..];
            if scheme == "ssh" || scheme == "sftp" {
                let slash = rest.iter().position(|b| *b == b'/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at(slash);
                let path = path.strip_prefix(b"/~").map_or(path.to_vec(), |p| [b"~", p].concat());
                return match ssh_host(authority, true) {
                    Ok(host) if scheme == "sftp" => Ok(Self::Sftp { host, path }),
                    Ok(host) => Ok(Self::Ssh { host, path }),
                    Err(why) => bad(why),
                };
            }
            if scheme == "smb" {
                return match smb_share(rest) {
                    Ok((server, path)) => Ok(Self::Smb { server, path }),
                    Err(why) => bad(why),
                };
            }
            if let Some(kind) = ObjectKind::of_scheme(&scheme) {
                return match object_place(kind, rest) {
                    Ok(place) => Ok(Self::Object(place)),
                    Err(why) => bad(why),
                };
            }
        }
        if let Some(advice) = advice(text) {
            return bad(&advice);
        }
        let host_end = if text[0] == b'[' || text.contains(&b'@') && find(text, b"@[").is_some() {
            find(text, b"]:").map(|at| at + 1)
        } else {
            let slash = text.iter().position(|b| *b == b'/').unwrap_or(text.len());
            text[..slash].iter().position(|b| *b == b':')
        };
        match host_end {
            None => Ok(Self::Local(text.to_vec())),
            Some(at) => match ssh_host(&text[..at], false) {
                Ok(host) => Ok(Self::Ssh { host, path: text[at + 1..].to_vec() }),
                Err(why) => bad(why),
            },
        }
    }

    /// The path of any kind.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        match self {
            Self::Local(path) | Self::Ssh { path, .. } | Self::Sftp { path, .. } | Self::Smb { path, .. } => {
                path
            }
            Self::Object(place) => place.key.as_bytes(),
        }
    }

    /// Whether the location means the contents of a directory: it ends in a slash, or in a component that is no name
    /// (`.`, `..`, `~`, nothing).
    #[must_use]
    pub fn means_contents(&self) -> bool {
        let path = self.path();
        let last = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
        matches!(last, b"" | b"." | b"..") || path == b"~"
    }

    /// The last component of the path: the name at the destination of a directory without trailing slash.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.path().rsplit(|b| *b == b'/').next().unwrap_or_default()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => f.write_str(&printable(path)),
            Self::Ssh { host, path } if is_only_url(host, path) => {
                write!(f, "ssh://{host}{}", below_host(path))
            }
            Self::Ssh { host, path } => write!(f, "{host}:{}", printable(path)),
            Self::Sftp { host, path } => write!(f, "sftp://{host}{}", below_host(path)),
            Self::Smb { server, path } => write!(f, "{server}{}", printable(path)),
            Self::Object(place) => place.fmt(f),
        }
    }
}

/// Whether `host:path` would be another location: the host has a port, or its name is a scheme.
fn is_only_url(host: &SshHost, path: &[u8]) -> bool {
    let scheme = || ObjectKind::of_scheme(&host.destination).is_some();
    host.port.is_some() || scheme() && path.starts_with(b"/")
}

/// A path behind the host of a URL.
fn below_host(path: &[u8]) -> String {
    let slash = if path.starts_with(b"~") { "/" } else { "" };
    format!("{slash}{}", printable(path))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}

/// The name of a bucket becomes part of a host name, so characters that could lead to another host are refused. HTTP
/// clients and proxies remove components `.` and `..` from URLs, so these are refused too.
fn object_place(kind: ObjectKind, rest: &[u8]) -> std::result::Result<ObjectPlace, &'static str> {
    let Ok(text) = std::str::from_utf8(rest) else { return Err("the name of an object is text in UTF-8") };
    let (bucket, key) = text.split_once('/').unwrap_or((text, ""));
    // Azure's own containers are $web, $root and $logs.
    let plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') || c == '$' && kind == ObjectKind::Az
    };
    if bucket.is_empty() {
        return Err("the bucket is missing behind `//`");
    }
    if !bucket.chars().all(plain) || bucket.starts_with(['-', '.']) {
        return Err("the name of the bucket holds other characters than letters, digits, `-`, `.` and `_`");
    }
    if key.split('/').any(|part| part == "." || part == "..") {
        return Err("a name with a component `.` or `..` cannot be asked for");
    }
    if key.len() > 1024 {
        return Err("the name of an object is at most 1,024 bytes long");
    }
    let (bucket, key) = (bucket.to_owned(), key.to_owned());
    Ok(ObjectPlace { kind, bucket, key, store: StoreNumber::default() })
}

/// `[domain;][user@]host[:port]/share/path`.
fn smb_share(rest: &[u8]) -> std::result::Result<(SmbServer, Vec<u8>), &'static str> {
    let slash = rest.iter().position(|b| *b == b'/').unwrap_or(rest.len());
    let (Ok(authority), below) =
        (std::str::from_utf8(&rest[..slash]), rest.get(slash + 1..).unwrap_or_default())
    else {
        return Err("the host is no text");
    };
    let (login, address) =
        authority.rsplit_once('@').map_or((None, authority), |(login, at)| (Some(login), at));
    if login.is_some_and(|login| login.contains(':')) {
        return Err(
            "it has a password in it, which other users could see: name a file with --smb-credentials",
        );
    }
    let (domain, user) = match login.and_then(|login| login.split_once(';')) {
        Some((domain, user)) => (Some(domain.to_owned()), Some(user.to_owned())),
        None => (None, login.map(str::to_owned)),
    };
    if user.as_ref().is_some_and(String::is_empty) || domain.as_ref().is_some_and(String::is_empty) {
        return Err("the user or the domain before the host is missing");
    }
    let SshHost { destination: host, port } = ssh_host(address.as_bytes(), true)?;
    let end = below.iter().position(|b| *b == b'/').unwrap_or(below.len());
    let (Ok(share), path) = (std::str::from_utf8(&below[..end]), below[end..].to_vec()) else {
        return Err("the name of the share is no text");
    };
    if share.is_empty() || share == "." || share == ".." || share.contains(['\\', '\u{0}']) {
        return Err("the share is missing: write smb://host/share/path");
    }
    if path.split(|b| *b == b'/').any(|part| part == b"..") {
        return Err("a path on a share cannot have a component `..`");
    }
    Ok((SmbServer { domain, user, host, port, share: share.to_owned() }, path))
}

/// A host that begins with `-` is refused, as ssh takes it for an option (compare CVE-2017-1000117 in git).
fn ssh_host(authority: &[u8], port_allowed: bool) -> std::result::Result<SshHost, &'static str> {
    let Ok(text) = std::str::from_utf8(authority) else { return Err("the host is no text") };
    let (mut destination, mut port) = (text, None);
    if port_allowed
        && let Some((host, digits)) = text.rsplit_once(':')
        && !digits.contains(']')
    {
        let Ok(number) = digits.parse() else { return Err("the port is no number from 1 to 65535") };
        (destination, port) = (host, Some(number));
    }
    let (user, host) = destination.rsplit_once('@').map_or((None, destination), |(u, h)| (Some(u), h));
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if bare.is_empty() || user == Some("") {
        return Err("the host, or the user before `@`, is missing");
    }
    if destination.starts_with('-') || bare.starts_with('-') {
        return Err("the host begins with `-`");
    }
    if destination.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("the host holds a space or a control character");
    }
    let destination = user.map_or(bare.to_owned(), |user| format!("{user}@{bare}"));
    Ok(SshHost { destination, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssh(destination: &str, port: Option<u16>, path: &str) -> Location {
        let host = SshHost { destination: destination.to_owned(), port };
        Location::Ssh { host, path: path.as_bytes().to_vec() }
    }

    #[test]
    fn parses_locations_of_all_kinds() {
        let read = |text: &str| Location::parse(text.as_bytes()).unwrap();
        assert_eq!(read("/a b/c"), Location::Local(b"/a b/c".to_vec()));
        assert_eq!(read("./a:b"), Location::Local(b"./a:b".to_vec()));
        assert_eq!(read("db1:/var/lib/mysql/"), ssh("db1", None, "/var/lib/mysql/"));
        assert_eq!(read("me@db1:"), ssh("me@db1", None, ""));
        assert_eq!(read("db1:~/x:y"), ssh("db1", None, "~/x:y"));
        assert_eq!(read("[::1]:/x"), ssh("::1", None, "/x"));
        assert_eq!(read("me@[fe80::1]:x"), ssh("me@fe80::1", None, "x"));
        assert_eq!(read("ssh://me@db1:2222/srv/x"), ssh("me@db1", Some(2222), "/srv/x"));
        assert_eq!(read("ssh://[::1]:22/x"), ssh("::1", Some(22), "/x"));
        assert_eq!(read("ssh://db1/~/x"), ssh("db1", None, "~/x"));
        let Location::Sftp { host, path } = read("sftp://me@db1:2222/srv/x") else { panic!() };
        assert_eq!((&host.destination[..], host.port, &path[..]), ("me@db1", Some(2222), &b"/srv/x"[..]));
        for text in ["sftp://me@db1:2222/srv/x/", "sftp://db1/~/x", "sftp://db1/~bob"] {
            assert_eq!(read(text).to_string(), text);
        }
    }

    #[test]
    fn refuses_invalid_locations() {
        for bad in [
            "",
            ":/x",
            "-oProxyCommand=x:/y",
            "a@-x:/y",
            "ssh://h:0x/y",
            "ssh:///x",
            "sftp:///x",
            "s3://",
            "s3:///k",
            "s3://b@h/k",
            "s3://b:1/k",
            "s3://b/../k",
            "gs://b:1/k",
            "s3://$web/k",
            "smb://h",
            "smb://h/",
            "smb:///share/x",
            "smb://me:secret@h/share",
            "smb://;me@h/share",
            "smb://@h/share",
            "smb://h:0x/share",
            "smb://h/share/../x",
            "word://h/k",
            "s3:bucket/key",
            "host::module/x",
            "C:\\x",
            "file:///x",
        ] {
            assert!(Location::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn parses_objects() {
        let read = |text: &str| Location::parse(text.as_bytes()).unwrap();
        let Location::Object(place) = read("s3://my.bucket/a b//c:d@e/") else { panic!() };
        assert_eq!((&place.bucket[..], &place.key[..]), ("my.bucket", "a b//c:d@e/"));
        for text in ["s3://bucket/a b", "s3://bucket/", "gs://b/a//b", "az://$web/index.html"] {
            assert_eq!(read(text).to_string(), text);
        }
        assert_eq!(read("s3://bucket").to_string(), "s3://bucket/");
    }

    #[test]
    fn parses_shares() {
        let read = |text: &str| match Location::parse(text.as_bytes()) {
            Ok(Location::Smb { server, path }) => (server, String::from_utf8(path).unwrap()),
            other => panic!("{other:?}"),
        };
        let (server, path) = read("smb://WORK;me@nas:4450/disk/a b/c:d@e/");
        assert_eq!((server.domain.as_deref(), server.user.as_deref()), (Some("WORK"), Some("me")));
        assert_eq!((&server.host[..], server.port, &server.share[..]), ("nas", Some(4450), "disk"));
        assert_eq!(path, "/a b/c:d@e/");
        assert_eq!(read("smb://nas/disk").1, "");
        assert_eq!(read("smb://[fe80::1]/disk").0.host, "fe80::1");
        for text in ["smb://WORK;me@nas:4450/disk/a/", "smb://[fe80::1]:445/disk", "smb://nas/disk/"] {
            assert_eq!(Location::parse(text.as_bytes()).unwrap().to_string(), text);
        }
        let secret = Location::parse(b"smb://me:secret@nas/disk").unwrap_err();
        assert!(secret.cause().contains("--smb-credentials"));
    }

    #[test]
    fn a_trailing_slash_means_the_contents() {
        let contents = |text: &str| Location::parse(text.as_bytes()).unwrap().means_contents();
        assert!(contents("a/") && contents(".") && contents("a/..") && contents("h:") && contents("h:~"));
        assert!(!contents("a") && !contents("h:x/y") && !contents(".hidden"));
    }
}
