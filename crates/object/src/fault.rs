//! What can go wrong with one request, and what follows from it.

use std::time::Duration;

use haul_core::{Error, ErrorKind, Side};

/// What to do about a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The connection failed, or the store did for a moment: ask again.
    Again,
    /// The store asks for less at a time.
    SlowDown,
    /// What arrived there was not what was sent.
    Damaged,
    /// The credentials are refused.
    Login,
    /// The credentials have run out; new ones may come.
    Expired,
    /// It may not be done.
    Denied,
    /// It is not there.
    NotFound,
    /// A condition of the request does not hold.
    Condition,
    /// The store does not know how.
    Unsupported,
    /// There is no room.
    Full,
    /// Nobody wants it any more.
    Abandoned,
    /// The answer is longer than it may be.
    TooLong,
    /// What answers is no store of this kind.
    Foreign,
    /// No host has this name.
    NoHost,
    /// The clocks of both sides differ by too much.
    Skewed,
    /// A secret would go over the network in the clear.
    Insecure,
    /// An answer that cannot be right.
    Nonsense,
    /// It makes no sense to ask again.
    Final,
}

/// A request that failed.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// What to do about it.
    pub(crate) class: Class,
    /// The store's word for it, or ours.
    pub(crate) code: String,
    /// Why, in words.
    pub(crate) message: String,
    /// The status of the answer; 0 without one.
    pub(crate) status: u16,
    /// How long the store asks to wait.
    pub(crate) retry_after: Option<Duration>,
}

impl Fault {
    /// Without an answer.
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, code: String::new(), message: message.into(), status: 0, retry_after: None }
    }

    /// An answer that cannot be right, and what is wrong with it.
    pub(crate) fn nonsense(cause: impl std::fmt::Display) -> Self {
        Self::new(Class::Nonsense, format!("the answer makes no sense: {cause}"))
    }

    /// An answer that says no.
    pub(crate) fn answer(status: u16, code: &str, message: &str) -> Self {
        let fallback = match status {
            404 => "it is not there",
            403 => "access is denied",
            412 => "the condition does not hold",
            _ => "the store gave no reason",
        };
        let message = if message.is_empty() { fallback } else { message };
        // Azurite gives a signature that does not fit the code of what may not be done.
        let unknown = code == "AuthorizationFailure" && message.contains("failed to authenticate");
        Self {
            class: if unknown { Class::Login } else { class_of(status, code) },
            code: code.to_owned(),
            message: message.trim_end_matches('.').to_owned(),
            status,
            retry_after: None,
        }
    }

    /// An answer that says no, and not why.
    pub(crate) fn is_bare(&self) -> bool {
        self.status != 0 && self.code.is_empty() && matches!(self.status, 300..=499)
    }

    /// What answers is no store of this kind.
    pub(crate) fn is_foreign(&self) -> bool {
        self.class == Class::Foreign
    }

    /// As an error of haul's; `credentials` says where those come from.
    pub(crate) fn error(&self, side: Side, operation: &str, subject: &str, credentials: &str) -> Error {
        let kind = match self.class {
            Class::Again
            | Class::SlowDown
            | Class::Login
            | Class::Expired
            | Class::Foreign
            | Class::NoHost
            | Class::Skewed
            | Class::Nonsense => ErrorKind::Unreachable,
            Class::Insecure => ErrorKind::Usage,
            Class::Damaged => ErrorKind::Corrupt,
            Class::Denied => ErrorKind::PermissionDenied,
            Class::NotFound => ErrorKind::NotFound,
            Class::Unsupported => ErrorKind::Unsupported,
            Class::Full => ErrorKind::NoSpace,
            Class::Abandoned => ErrorKind::Cancelled,
            Class::Condition | Class::TooLong | Class::Final => ErrorKind::Io,
        };
        let cause = match (self.status, &self.code[..]) {
            (0, _) => self.message.clone(),
            (status, "") => format!("{} (HTTP {status})", self.message),
            (status, code) => format!("{} ({code}, HTTP {status})", self.message),
        };
        let error = Error::new(kind, side, operation, cause).on(subject);
        match self.class {
            Class::Login | Class::Expired => error.with_hint(credentials),
            Class::Skewed => error.with_hint("set the clock of this machine"),
            _ => error,
        }
    }
}

/// Codes as AWS documents them (S3 API Reference, "Error responses"), and as others use them.
fn class_of(status: u16, code: &str) -> Class {
    match code {
        "SlowDown"
        | "RequestLimitExceeded"
        | "Throttling"
        | "ThrottlingException"
        | "TooManyRequests"
        | "ServiceUnavailable"
        | "ServerBusy" => Class::SlowDown,
        "BadDigest"
        | "Md5Mismatch"
        | "Crc64Mismatch"
        | "XAmzContentSHA256Mismatch"
        | "XAmzContentChecksumMismatch"
        | "InvalidDigest" => Class::Damaged,
        "ExpiredToken" | "TokenRefreshRequired" => Class::Expired,
        "RequestTimeTooSkewed" => Class::Skewed,
        "InvalidAccessKeyId"
        | "AuthenticationFailed"
        | "AuthenticationRequired"
        | "InvalidAuthenticationInfo"
        | "NoAuthenticationInformation"
        | "SignatureDoesNotMatch"
        | "InvalidToken"
        | "InvalidSecurity"
        | "NotSignedUp" => Class::Login,
        "NoSuchKey" | "NoSuchBucket" | "NoSuchUpload" | "NotFound" => Class::NotFound,
        "PreconditionFailed" | "BlobAlreadyExists" | "ConditionNotMet" | "ConditionalRequestConflict" => {
            Class::Condition
        }
        "AccessDenied" => Class::Denied,
        "BlobArchived" | "SnapshotsPresent" | "LeaseIdMissing" => Class::Final,
        "NotImplemented" | "FeatureNotSupported" | "MethodNotAllowed" | "UnsupportedOperation" => {
            Class::Unsupported
        }
        "QuotaExceeded" | "InsufficientStorage" | "XMinioStorageFull" | "InsufficientCapacity" => Class::Full,
        "RequestTimeout" | "InternalError" | "OperationAborted" | "IncompleteBody" => Class::Again,
        _ => match status {
            401 => Class::Login,
            403 => Class::Denied,
            404 => Class::NotFound,
            405 | 501 => Class::Unsupported,
            409 | 412 => Class::Condition,
            429 | 503 => Class::SlowDown,
            507 => Class::Full,
            408 | 500..=599 => Class::Again,
            _ => Class::Final,
        },
    }
}

impl From<std::io::Error> for Fault {
    /// What is to be sent cannot be read again.
    fn from(error: std::io::Error) -> Self {
        Self::new(Class::Final, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worth_another_try_is_told_apart() {
        for (status, code, class) in [
            (503, "SlowDown", Class::SlowDown),
            (503, "", Class::SlowDown),
            (500, "InternalError", Class::Again),
            (400, "RequestTimeout", Class::Again),
            (400, "BadDigest", Class::Damaged),
            (400, "ExpiredToken", Class::Expired),
            (403, "SignatureDoesNotMatch", Class::Login),
            (403, "AccessDenied", Class::Denied),
            (404, "", Class::NotFound),
            (412, "", Class::Condition),
            (501, "NotImplemented", Class::Unsupported),
            (400, "InvalidArgument", Class::Final),
        ] {
            assert_eq!(class_of(status, code), class, "{status} {code}");
        }
    }

    #[test]
    fn an_error_names_the_object_and_the_code() {
        let error =
            Fault::answer(403, "AccessDenied", "Access Denied.").error(Side::Source, "read", "s3://b/k", "");
        assert_eq!(
            error.to_string(),
            "failed to read `s3://b/k` (source): Access Denied (AccessDenied, HTTP 403)"
        );
    }
}
