//! The answer to one request, or why there is none.

use haul_core::{Error, ErrorKind, Result, Retry, Side};

use super::checks::HeldMemory;
use super::packet::{self, Attrs, Data, DirNames, SftpResponse};

/// The error of a lost connection. The same request may succeed on another one.
pub(super) fn lost(name: &str, why: &str) -> Error {
    Error::new(ErrorKind::Unreachable, Side::Wire, "reach", why).on(name).with_retry(Retry::OtherStream)
}

/// Why a request has no usable answer.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The server refused: status code and message.
    Status(u32, String),
    /// The connection is lost, or the answer makes no sense.
    Lost(Error),
}

impl Fault {
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Status(packet::NO_SUCH_FILE, _))
    }
}

/// Separates the loss of the connection, which ends all work on it, from an answer or a refusal of one request.
///
/// # Errors
/// The error in [`Fault::Lost`].
pub(super) fn unless_lost<T>(answer: Result<T, Fault>) -> Result<Result<T, Fault>> {
    match answer {
        Err(Fault::Lost(error)) => Err(error),
        answer => Ok(answer),
    }
}

/// An answer, or why there is none.
#[derive(Debug)]
pub(super) struct Reply(
    pub(super) Result<SftpResponse>,
    #[expect(dead_code, reason = "it counts as long as it is there")] pub(super) Option<HeldMemory>,
);

impl Reply {
    /// A reply without an answer.
    pub(super) fn none(error: Error) -> Self {
        Self(Err(error), None)
    }

    fn take<T>(self, wanted: impl FnOnce(SftpResponse) -> Option<T>) -> Result<T, Fault> {
        match self.0 {
            Err(error) => Err(Fault::Lost(error)),
            Ok(SftpResponse::Status(code, words)) if code != packet::OK => {
                Err(Fault::Status(code, haul_core::path::printable(&words)))
            }
            Ok(response) => wanted(response).ok_or_else(|| {
                let cause = "the server sent another answer than was asked for";
                Fault::Lost(Error::new(ErrorKind::Protocol, Side::Wire, "talk to the SFTP server", cause))
            }),
        }
    }

    pub(super) fn ok(self) -> Result<(), Fault> {
        self.take(|response| matches!(response, SftpResponse::Status(..)).then_some(()))
    }

    pub(super) fn handle(self) -> Result<Vec<u8>, Fault> {
        self.take(|response| if let SftpResponse::Handle(handle) = response { Some(handle) } else { None })
    }

    pub(super) fn attrs(self) -> Result<Attrs, Fault> {
        self.take(|response| if let SftpResponse::Attrs(attrs) = response { Some(attrs) } else { None })
    }

    /// Content; `None` at the end of the file.
    pub(super) fn data(self) -> Result<Option<Data>, Fault> {
        if let Ok(SftpResponse::Status(packet::EOF, _)) = self.0 {
            return Ok(None);
        }
        self.take(|response| if let SftpResponse::Data(data) = response { Some(Some(data)) } else { None })
    }

    /// Names of a listing; `None` at its end.
    pub(super) fn names(self) -> Result<Option<DirNames>, Fault> {
        if let Ok(SftpResponse::Status(packet::EOF, _)) = self.0 {
            return Ok(None);
        }
        self.take(|response| if let SftpResponse::Names(names) = response { Some(Some(names)) } else { None })
    }

    /// The single name of an answer.
    pub(super) fn name(self) -> Result<Vec<u8>, Fault> {
        self.take(|response| match response {
            SftpResponse::Names(names) => names.into_iter().next().map(|(name, _)| name),
            _ => None,
        })
    }

    pub(super) fn extended(self) -> Result<Vec<u8>, Fault> {
        self.take(|response| if let SftpResponse::Extended(bytes) = response { Some(bytes) } else { None })
    }
}
