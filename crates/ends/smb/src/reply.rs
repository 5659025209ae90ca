//! The answers to a chain, and their meaning.

use haul_core::{Error, ErrorKind, Result, Retry, Side};
use smb2::Frame;
use smb2::msg::close::CloseResponse;
use smb2::msg::create::CreateResponse;
use smb2::msg::ioctl::IoctlResponse;
use smb2::msg::query_directory::QueryDirectoryResponse;
use smb2::msg::query_info::QueryInfoResponse;
use smb2::msg::read::ReadResponse;
use smb2::msg::write::WriteResponse;
use smb2::pack::{ReadCursor, Unpack};
use smb2::types::status::NtStatus;

const QUOTA_EXCEEDED: NtStatus = NtStatus(0xC000_0044);
const MEDIA_WRITE_PROTECTED: NtStatus = NtStatus(0xC000_00A2);
const NOT_SAME_DEVICE: NtStatus = NtStatus(0xC000_00D4);
pub(super) const PRIVILEGE_NOT_HELD: NtStatus = NtStatus(0xC000_0061);
const OBJECT_PATH_SYNTAX_BAD: NtStatus = NtStatus(0xC000_003B);
const NAME_TOO_LONG: NtStatus = NtStatus(0xC000_0106);

/// Why a command has no usable answer.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The server refused.
    Status(NtStatus),
    /// Haul refused, the connection is lost for good, or the answer makes no sense.
    Failed(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Fault {
    pub(super) fn is(&self, status: NtStatus) -> bool {
        matches!(self, Self::Status(told) if *told == status)
    }

    /// Whether there is no such entry.
    pub(super) fn is_missing(&self) -> bool {
        let missing = [
            NtStatus::OBJECT_NAME_NOT_FOUND,
            NtStatus::OBJECT_PATH_NOT_FOUND,
            NtStatus::NO_SUCH_FILE,
            NtStatus::NOT_FOUND,
            NtStatus::NOT_A_DIRECTORY,
            NtStatus::DELETE_PENDING,
        ];
        matches!(self, Self::Status(status) if missing.contains(status))
    }

    /// Whether the name is taken.
    pub(super) fn is_collision(&self) -> bool {
        self.is(NtStatus::OBJECT_NAME_COLLISION)
    }

    /// Whether the server denies it, which it also does for entries that may not be changed.
    pub(super) fn is_denied(&self) -> bool {
        self.is(NtStatus::ACCESS_DENIED) || self.is(NtStatus::CANNOT_DELETE)
    }

    /// The error for the entry `subject`.
    pub(super) fn error(self, side: Side, operation: &str, subject: &[u8]) -> Error {
        let status = match self {
            Self::Failed(error) => return error,
            Self::Status(status) => status,
        };
        let (kind, cause) = meaning(status);
        let retry = if kind == ErrorKind::Locked { Retry::Again } else { Retry::Never };
        Error::new(kind, side, operation, cause).on(subject).with_retry(retry)
    }
}

fn meaning(status: NtStatus) -> (ErrorKind, String) {
    let (kind, cause) = match status {
        NtStatus::OBJECT_NAME_NOT_FOUND
        | NtStatus::OBJECT_PATH_NOT_FOUND
        | NtStatus::NO_SUCH_FILE
        | NtStatus::NOT_FOUND
        | NtStatus::NOT_A_DIRECTORY => (ErrorKind::NotFound, "No such file or directory"),
        NtStatus::ACCESS_DENIED | PRIVILEGE_NOT_HELD => (ErrorKind::PermissionDenied, "Permission denied"),
        NtStatus::CANNOT_DELETE => (ErrorKind::PermissionDenied, "the server does not let it be removed"),
        MEDIA_WRITE_PROTECTED => (ErrorKind::PermissionDenied, "the share is read-only"),
        // Samba also answers so where the quota of the user is used up.
        NtStatus::DISK_FULL => {
            (ErrorKind::NoSpace, "No space left on device, or in the quota of this user on the share")
        }
        QUOTA_EXCEEDED => (ErrorKind::NoSpace, "Disk quota exceeded"),
        NtStatus::SHARING_VIOLATION | NtStatus::FILE_LOCK_CONFLICT | NtStatus::DELETE_PENDING => {
            (ErrorKind::Locked, "another program has it open")
        }
        NtStatus::OBJECT_NAME_INVALID | OBJECT_PATH_SYNTAX_BAD | NAME_TOO_LONG => {
            (ErrorKind::Unsupported, "the server does not take this name")
        }
        NtStatus::NOT_SUPPORTED
        | NtStatus::NOT_IMPLEMENTED
        | NtStatus::INVALID_DEVICE_REQUEST
        | NtStatus::INVALID_INFO_CLASS
        | NOT_SAME_DEVICE => (ErrorKind::Unsupported, "the server cannot do this"),
        NtStatus::FILE_SYSTEM_LIMITATION => (ErrorKind::Unsupported, "the disk of the server cannot hold it"),
        NtStatus::DIRECTORY_NOT_EMPTY => (ErrorKind::NotEmpty, "the directory is not empty"),
        NtStatus::OBJECT_NAME_COLLISION => (ErrorKind::Io, "something else has its name"),
        NtStatus::FILE_IS_A_DIRECTORY => (ErrorKind::Io, "it is a directory"),
        other => return (ErrorKind::Io, format!("the server says {other}")),
    };
    (kind, cause.to_owned())
}

/// The error of an answer that makes no sense.
pub(super) fn nonsense(cause: &str) -> Error {
    Error::new(ErrorKind::Protocol, Side::Wire, "read the answer of the server", cause)
}

/// The answers to a chain, one for each command.
pub(super) struct Replies(Vec<Frame>);

impl Replies {
    pub(super) fn new(frames: Vec<Frame>) -> Self {
        Self(frames)
    }

    /// The status of a command.
    fn status(&self, at: usize) -> Option<NtStatus> {
        self.0.get(at).map(|frame| frame.header.status)
    }

    /// Whether the command succeeded.
    pub(super) fn ok(&self, at: usize) -> Result<(), Fault> {
        match self.status(at) {
            Some(NtStatus::SUCCESS) => Ok(()),
            Some(status) => Err(Fault::Status(status)),
            None => Err(nonsense("an answer is missing").into()),
        }
    }

    /// Whether all commands succeeded; the first error.
    pub(super) fn all_ok(&self) -> Result<(), Fault> {
        (0..self.0.len()).try_for_each(|at| self.ok(at))
    }

    fn body<T: Unpack>(&self, at: usize) -> Result<T, Fault> {
        self.ok(at)?;
        let frame = self.0.get(at).ok_or_else(|| nonsense("an answer is missing"))?;
        T::unpack(&mut ReadCursor::new(&frame.body)).map_err(|error| nonsense(&error.to_string()).into())
    }

    /// The answer to the first command, which opened a file.
    pub(super) fn opened(&self) -> Result<CreateResponse, Fault> {
        self.body(0)
    }

    pub(super) fn closed(&self, at: usize) -> Result<CloseResponse, Fault> {
        self.body(at)
    }

    pub(super) fn data(&self, at: usize) -> Result<Vec<u8>, Fault> {
        match self.body::<ReadResponse>(at) {
            Ok(read) => Ok(read.data),
            Err(fault) if fault.is(NtStatus::END_OF_FILE) => Ok(Vec::new()),
            Err(fault) => Err(fault),
        }
    }

    pub(super) fn written(&self, at: usize) -> Result<u64, Fault> {
        Ok(self.body::<WriteResponse>(at)?.count.into())
    }

    /// The answer to a question about the open entry.
    pub(super) fn info(&self, at: usize) -> Result<Vec<u8>, Fault> {
        Ok(self.body::<QueryInfoResponse>(at)?.output_buffer)
    }

    /// The answer to a control code.
    pub(super) fn controlled(&self, at: usize) -> Result<Vec<u8>, Fault> {
        Ok(self.body::<IoctlResponse>(at)?.output_data)
    }

    /// The names of a listing; `None` if there are no more.
    pub(super) fn names(&self, at: usize) -> Result<Option<Vec<u8>>, Fault> {
        match self.body::<QueryDirectoryResponse>(at) {
            Ok(some) => Ok(Some(some.output_buffer)),
            Err(fault) if fault.is(NtStatus::NO_MORE_FILES) || fault.is(NtStatus::NO_SUCH_FILE) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Whether a command has this status.
    pub(super) fn has(&self, status: NtStatus) -> bool {
        self.0.iter().any(|frame| frame.header.status == status)
    }

    /// Whether the session or the share is gone, though the connection is not.
    pub(super) fn has_lost_session(&self) -> bool {
        [NtStatus::USER_SESSION_DELETED, NtStatus::NETWORK_NAME_DELETED]
            .into_iter()
            .any(|status| self.has(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_quota_are_the_same_kind() {
        for status in [NtStatus::DISK_FULL, QUOTA_EXCEEDED] {
            let error = Fault::Status(status).error(Side::Destination, "write", b"x");
            assert_eq!(error.kind(), ErrorKind::NoSpace);
        }
    }

    #[test]
    fn a_file_in_use_may_be_tried_again() {
        let error = Fault::Status(NtStatus::SHARING_VIOLATION).error(Side::Source, "read", b"x");
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Locked, Retry::Again));
        let other = Fault::Status(NtStatus(0xC000_9999)).error(Side::Source, "read", b"x");
        assert_eq!((other.kind(), other.retry()), (ErrorKind::Io, Retry::Never));
    }
}
