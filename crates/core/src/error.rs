//! The error type of all crates: kind, side, operation, subject, cause, and whether a retry can help.

use std::fmt;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::path::printable;
use crate::retry::Retry;
use crate::text::{Clean, shown, without_errno};

/// The result of an operation that can fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, by which callers act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The entry does not exist, or no longer.
    NotFound,
    /// The user has no permission.
    PermissionDenied,
    /// The source changed while it was read.
    SourceChanged,
    /// The content does not match its digest.
    Corrupt,
    /// The destination is full or over quota.
    NoSpace,
    /// The remote host is unreachable, the login failed, or the connection was lost.
    Unreachable,
    /// The peer violated the protocol, or has another version.
    Protocol,
    /// The command or an option is invalid.
    Usage,
    /// Another haul process is writing the same entry.
    Busy,
    /// The end or its file system does not support the operation.
    Unsupported,
    /// The run was interrupted.
    Cancelled,
    /// Any other error of the system.
    Io,
    /// A directory that is not empty is in the way.
    NotEmpty,
    /// The name belongs to an entry that this run has written or found up to date, so it is not removed.
    InUse,
    /// Another program has the file open and shares it with nobody.
    Locked,
    /// Pages of a database file do not match their checksums.
    BadPages,
}

/// The end that an error comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The end that is read.
    Source,
    /// The end that is written to.
    Destination,
    /// The connection between them.
    Wire,
    /// This process.
    Local,
}

/// An error: kind, side, operation, subject and cause.
///
/// It prints as `failed to OPERATION SUBJECT: CAUSE` on one line, with all bytes escaped that are no printable text.
/// Its text may come from another machine, so it is cleaned ([`crate::text`]) when an error is created and when it is
/// decoded.
///
/// An error of the operating system keeps that error as its source, but only within its process: on the wire there is
/// its text alone. Two errors that differ in nothing but the source are equal.
///
/// ```
/// use std::error::Error as _;
/// use std::io;
/// use haul_core::{Error, ErrorKind, Side};
///
/// let refused = io::Error::from_raw_os_error(13);
/// let error = Error::io(Side::Source, "open", &refused).on("a\nb");
/// assert_eq!(error.to_string(), "failed to open `a\\x0ab` (source): Permission denied");
/// assert_eq!((error.kind(), error.errno()), (ErrorKind::PermissionDenied, Some(13)));
/// assert!(error.source().is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error(Box<ErrorInner>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ErrorInner {
    kind: ErrorKind,
    side: Side,
    retry: Retry,
    #[serde(deserialize_with = "shown")]
    operation: String,
    #[serde(with = "serde_bytes")]
    subject: Vec<u8>,
    #[serde(deserialize_with = "shown")]
    cause: String,
    #[serde(deserialize_with = "shown")]
    hint: Option<String>,
    #[serde(skip)]
    source: SystemError,
}

/// The error of the operating system behind an error, known only in the process where it occurred.
#[derive(Clone, Debug, Default)]
struct SystemError(Option<Arc<io::Error>>);

impl SystemError {
    /// `io::Error` cannot be cloned, so this is another one with the same number, or the same kind and text.
    fn copy_of(error: &io::Error) -> Self {
        let copy = match error.raw_os_error() {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::new(error.kind(), error.to_string()),
        };
        Self(Some(Arc::new(copy)))
    }
}

impl PartialEq for SystemError {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SystemError {}

impl Error {
    /// An error of `kind` during `operation`, which completes the words "failed to". Corrupt content may be sent again
    /// ([`Retry::Again`]); every other error is final unless [`Self::with_retry`] says otherwise.
    #[must_use]
    pub fn new(kind: ErrorKind, side: Side, operation: &str, cause: impl Into<String>) -> Self {
        let retry = if kind == ErrorKind::Corrupt { Retry::Again } else { Retry::Never };
        Self(Box::new(ErrorInner {
            kind,
            side,
            retry,
            operation: operation.to_owned().clean(),
            subject: Vec::new(),
            cause: without_errno(&cause.into()).clean(),
            hint: None,
            source: SystemError::default(),
        }))
    }

    /// An error of the operating system. Reading at the source may be repeated after a temporary one
    /// ([`Retry::of_read`]). After any other operation the caller has to know the state that the operation left behind,
    /// so the error says [`Retry::Never`] unless the caller decides otherwise ([`Self::or_retry`]).
    #[must_use]
    pub fn io(side: Side, operation: &str, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            // A mounted share reports a file that another program has open as EBUSY or ETXTBSY.
            io::ErrorKind::ResourceBusy | io::ErrorKind::ExecutableFileBusy => ErrorKind::Locked,
            _ => ErrorKind::Io,
        };
        let mut made = Self::new(kind, side, operation, error.to_string());
        if let (Side::Source, Some(errno)) = (side, error.raw_os_error()) {
            made.0.retry = Retry::of_read(errno);
        }
        made.0.source = SystemError::copy_of(error);
        made
    }

    /// A list on disk could not be written or read; `of` names its entries.
    #[must_use]
    pub fn list(of: &str, error: &io::Error) -> Self {
        Self::new(ErrorKind::Io, Side::Local, &format!("keep the list of {of}"), error.to_string())
            .with_hint("haul keeps long lists in TMPDIR; is it full?")
    }

    /// A directory that is not empty is in the place of an entry.
    #[must_use]
    pub fn not_empty(side: Side) -> Self {
        Self::new(ErrorKind::NotEmpty, side, "replace", "a directory that is not empty is in its place")
            .with_hint("move the directory away, or give another destination")
    }

    /// The file of which an entry is a hard link does not exist.
    #[must_use]
    pub fn no_first_name(side: Side) -> Self {
        let cause = "the file that it is another name of is not there";
        Self::new(ErrorKind::NotFound, side, "link", cause)
    }

    /// Sets the subject of the operation, such as a path.
    #[must_use]
    pub fn on(mut self, subject: impl AsRef<[u8]>) -> Self {
        self.0.subject = subject.as_ref().to_vec();
        self
    }

    /// Sets the end that the error comes from, for code that serves both.
    #[must_use]
    pub fn with_side(mut self, side: Side) -> Self {
        self.0.side = side;
        self
    }

    /// Sets whether a retry can help.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Allows the retry that `table` gives for the error of the operating system, unless a retry is allowed already.
    #[must_use]
    pub fn or_retry(self, table: impl Fn(i32) -> Retry) -> Self {
        match self.errno() {
            Some(errno) if self.retry() == Retry::Never => self.with_retry(table(errno)),
            _ => self,
        }
    }

    /// Adds advice, which is printed on a line of its own.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into().clean());
        self
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The number of the operating system's error, where it occurred in this process.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.0.source.0.as_ref().and_then(|error| error.raw_os_error())
    }

    /// The end that the error comes from.
    #[must_use]
    pub fn side(&self) -> Side {
        self.0.side
    }

    /// Whether a retry can help.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// The subject of the operation; empty if there is none.
    #[must_use]
    pub fn subject(&self) -> &[u8] {
        &self.0.subject
    }

    /// The operation: the words after "failed to".
    #[must_use]
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// The cause.
    #[must_use]
    pub fn cause(&self) -> &str {
        &self.0.cause
    }

    /// The advice, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to {}", self.0.operation)?;
        if !self.0.subject.is_empty() {
            write!(f, " `{}`", printable(&self.0.subject))?;
        }
        match self.0.side {
            Side::Source => f.write_str(" (source)")?,
            Side::Destination => f.write_str(" (destination)")?,
            Side::Wire | Side::Local => {}
        }
        write!(f, ": {}", self.0.cause)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.0.as_deref().map(|error| error as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_and_over_quota_are_the_same_kind() {
        // ENOSPC and EDQUOT of Linux.
        for code in [28, 122] {
            let error = Error::io(Side::Destination, "write", &io::Error::from_raw_os_error(code));
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{code}");
        }
    }

    #[test]
    fn keeps_the_error_of_the_system_out_of_the_encoding() {
        use std::error::Error as _;

        let io = Error::io(Side::Destination, "write", &io::Error::from_raw_os_error(5));
        let plain = Error::new(ErrorKind::Io, Side::Destination, "write", io.cause());
        let bytes = postcard::to_allocvec(&io).unwrap();
        assert_eq!(bytes, postcard::to_allocvec(&plain).unwrap());
        let decoded: Error = postcard::from_bytes(&bytes).unwrap();
        assert_eq!((io.errno(), decoded.errno()), (Some(5), None));
        assert!(io.source().is_some() && decoded.source().is_none() && io == decoded);
        let custom = Error::io(Side::Local, "read", &io::Error::other("short"));
        assert_eq!((custom.errno(), custom.source().unwrap().to_string()), (None, "short".to_owned()));
    }

    #[test]
    fn only_reading_at_the_source_is_repeated() {
        let retry = |side, errno| Error::io(side, "do", &io::Error::from_raw_os_error(errno)).retry();
        for errno in [4, 5, 11, 12, 23, 24, 105, 110, 116] {
            assert_eq!(retry(Side::Source, errno), Retry::Again, "{errno}");
            for side in [Side::Destination, Side::Wire, Side::Local] {
                assert_eq!(retry(side, errno), Retry::Never, "{errno} {side:?}");
            }
        }
        assert_eq!(retry(Side::Source, 2), Retry::Never);
    }

    #[test]
    fn text_of_a_peer_is_cleaned_when_made_and_when_decoded() {
        let evil = "\x1b]0;t\x07\u{9b}2J\nhaul: all there\u{202e}";
        let made = Error::new(ErrorKind::Io, Side::Wire, evil, evil).on(evil).with_hint(evil);
        // A hostile peer does not clean its text.
        let raw = ErrorInner {
            operation: evil.into(),
            cause: evil.into(),
            hint: Some(evil.into()),
            ..*made.0.clone()
        };
        let decoded: Error = postcard::from_bytes(&postcard::to_allocvec(&raw).unwrap()).unwrap();
        for error in [made, decoded] {
            let text = format!("{error} {} {} {}", error.operation(), error.cause(), error.hint().unwrap());
            assert!(!text.chars().any(crate::text::is_unsafe), "{text}");
        }
    }
}
