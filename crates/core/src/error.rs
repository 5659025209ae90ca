//! One error type: kind, side, operation, subject, cause, and whether to try again.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use crate::path::printable;
use crate::text::{Clean, shown};

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in the classes that callers act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The name does not exist (any more).
    NotFound,
    /// The user may not do this.
    PermissionDenied,
    /// The source changed while it was read.
    SourceChanged,
    /// Content did not verify.
    Corrupt,
    /// The destination is full or over quota.
    NoSpace,
    /// The other side could not be reached, or the login failed, or the connection was lost.
    Unreachable,
    /// The other side said something that the protocol does not allow, or speaks another version.
    Protocol,
    /// The command or an option makes no sense.
    Usage,
    /// Another haul is at work on the same name.
    Busy,
    /// This end or file system cannot do it.
    Unsupported,
    /// The run was interrupted.
    Cancelled,
    /// Any other failure of the system.
    Io,
    /// A folder with something in it is in the way.
    NotEmpty,
    /// The name is to stay: it stands for something that this run has written or found to be right.
    InUse,
}

/// Which end an error comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Where the data comes from.
    Source,
    /// Where the data goes to.
    Destination,
    /// The connection between them.
    Wire,
    /// This process itself.
    Local,
}

/// Whether trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Retry {
    /// It would fail again.
    Never,
    /// The same operation may succeed, at once.
    Again,
    /// The stream is gone; the same operation may succeed on another one.
    OtherStream,
    /// The whole file may succeed if it is offered again: what the destination had of it is gone.
    Anew,
}

/// An error: kind, side, what was being done, to what, and why it failed.
///
/// It prints as `failed to OPERATION SUBJECT: CAUSE`, one line, with bytes that are no text escaped. Its words may come
/// from another machine: they are cleaned ([`crate::text`]) when it is made and when it is decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Inner {
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
}

impl Error {
    /// An error of `kind` while doing `operation` (words that follow "failed to").
    #[must_use]
    pub fn new(kind: ErrorKind, side: Side, operation: &str, cause: impl Into<String>) -> Self {
        let retry = if kind == ErrorKind::Corrupt { Retry::Again } else { Retry::Never };
        Self(Box::new(Inner {
            kind,
            side,
            retry,
            operation: operation.to_owned().clean(),
            subject: Vec::new(),
            cause: cause.into().clean(),
            hint: None,
        }))
    }

    /// An error of the operating system.
    #[must_use]
    pub fn io(side: Side, operation: &str, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        Self::new(kind, side, operation, error.to_string())
    }

    /// A list that is kept outside of memory failed; `of` says what it lists.
    #[must_use]
    pub fn list(of: &str, error: &io::Error) -> Self {
        Self::new(ErrorKind::Io, Side::Local, &format!("keep the list of {of}"), error.to_string())
            .with_hint("haul keeps long lists in TMPDIR; is it full?")
    }

    /// A folder with something in it is in the place of an entry.
    #[must_use]
    pub fn not_empty(side: Side) -> Self {
        Self::new(ErrorKind::NotEmpty, side, "replace", "a folder that is not empty is in its place")
            .with_hint("move the folder away, or give another destination")
    }

    /// The file is not there that an entry is a further name of.
    #[must_use]
    pub fn no_first_name(side: Side) -> Self {
        let cause = "the file that it is another name of is not there";
        Self::new(ErrorKind::NotFound, side, "link", cause)
    }

    /// Names what the operation was done to.
    #[must_use]
    pub fn on(mut self, subject: impl AsRef<[u8]>) -> Self {
        self.0.subject = subject.as_ref().to_vec();
        self
    }

    /// Says which end it comes from: what looks at a tree does not know whether that is the source.
    #[must_use]
    pub fn with_side(mut self, side: Side) -> Self {
        self.0.side = side;
        self
    }

    /// Says whether trying again can help.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Adds the way out, printed on a line of its own.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into().clean());
        self
    }

    /// The class of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Which end it comes from.
    #[must_use]
    pub fn side(&self) -> Side {
        self.0.side
    }

    /// Whether trying again can help.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// What it was done to; empty where there is no one thing.
    #[must_use]
    pub fn subject(&self) -> &[u8] {
        &self.0.subject
    }

    /// What was being done: the words after "failed to".
    #[must_use]
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// Why it failed.
    #[must_use]
    pub fn cause(&self) -> &str {
        &self.0.cause
    }

    /// The way out, if there is one to tell.
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

impl std::error::Error for Error {}

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
    fn words_of_a_peer_are_cleaned_however_they_come() {
        let evil = "\x1b]0;t\x07\u{9b}2J\nhaul: all there\u{202e}";
        let made = Error::new(ErrorKind::Io, Side::Wire, evil, evil).on(evil).with_hint(evil);
        // What a peer sends that does not clean its own words.
        let raw =
            Inner { operation: evil.into(), cause: evil.into(), hint: Some(evil.into()), ..*made.0.clone() };
        let told: Error = postcard::from_bytes(&postcard::to_allocvec(&raw).unwrap()).unwrap();
        for error in [made, told] {
            let text = format!("{error} {} {} {}", error.operation(), error.cause(), error.hint().unwrap());
            assert!(!text.chars().any(crate::text::is_unsafe), "{text}");
        }
    }
}
