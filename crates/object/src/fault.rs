//! The failure of one request, and whether to repeat it.

use std::time::Duration;

use haul_core::{Error, ErrorKind, Side};

/// The kind of a failure, which decides how it is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureClass {
    /// The connection failed, or the store did temporarily: retry.
    Again,
    /// The store asks for fewer requests at a time.
    SlowDown,
    /// The store received other data than was sent.
    Damaged,
    /// The credentials were refused.
    Login,
    /// The credentials have expired; new ones may appear.
    Expired,
    /// Access was denied.
    Denied,
    /// The object, upload or bucket does not exist.
    NotFound,
    /// A condition of the request does not hold.
    Condition,
    /// The store does not support the request.
    Unsupported,
    /// The store is full.
    Full,
    /// The request was cancelled.
    Abandoned,
    /// The answer is longer than allowed.
    TooLong,
    /// The answer is not from a store of this kind.
    Foreign,
    /// The host name does not resolve.
    NoHost,
    /// The local clock and the store's differ by too much.
    Skewed,
    /// A secret would be sent in plain text.
    Insecure,
    /// The answer is invalid.
    Nonsense,
    /// A retry would not help.
    Final,
}

/// A failed request.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// Decides how it is handled.
    pub(crate) class: FailureClass,
    /// The store's error code; empty if it sent none.
    pub(crate) code: String,
    /// The cause in words.
    pub(crate) message: String,
    /// The HTTP status; 0 without an answer.
    pub(crate) status: u16,
    /// How long the store asks to wait.
    pub(crate) retry_after: Option<Duration>,
    /// The region that the bucket is in, if the store named another one than was asked.
    pub(crate) region: Option<String>,
}

impl Fault {
    /// A failure without an answer.
    pub(crate) fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self {
            class,
            code: String::new(),
            message: message.into(),
            status: 0,
            retry_after: None,
            region: None,
        }
    }

    /// An invalid answer, and its error.
    pub(crate) fn nonsense(cause: impl std::fmt::Display) -> Self {
        Self::new(FailureClass::Nonsense, format!("the answer makes no sense: {cause}"))
    }

    /// A request that cannot be sent because of the named part.
    pub(crate) fn unsendable(what: &str) -> Self {
        Self::new(FailureClass::Final, format!("{what} cannot be sent in a request"))
    }

    /// An error answer.
    pub(crate) fn answer(status: u16, code: &str, message: &str) -> Self {
        let fallback = match status {
            404 => "not found",
            403 => "access is denied",
            412 => "the condition does not hold",
            // The standard words, as in `503 Service Unavailable`: a proxy answers so, without a body.
            500 => "Internal Server Error",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            504 => "Gateway Timeout",
            _ => "the store gave no reason",
        };
        let message = if message.is_empty() { fallback } else { message };
        // Azurite reports a wrong signature with the code for missing permission.
        let unknown = code == "AuthorizationFailure" && message.contains("failed to authenticate");
        Self {
            class: if unknown { FailureClass::Login } else { class_of(status, code) },
            code: code.to_owned(),
            message: message.trim_end_matches('.').to_owned(),
            status,
            retry_after: None,
            region: region_in(code, message),
        }
    }

    /// Whether it is an error answer without a reason.
    pub(crate) fn is_bare(&self) -> bool {
        self.status != 0 && self.code.is_empty() && matches!(self.status, 300..=499)
    }

    /// The cause, with the status if the store answered.
    pub(crate) fn reason(&self) -> String {
        match (self.status, &self.code[..]) {
            (0, _) => self.message.clone(),
            (status, "") => format!("{} (HTTP {status})", self.message),
            (status, code) => format!("{} ({code}, HTTP {status})", self.message),
        }
    }

    /// Whether the answer is not from a store of this kind.
    pub(crate) fn is_foreign(&self) -> bool {
        self.class == FailureClass::Foreign
    }

    /// Converts to an error; `credentials` is a hint on where credentials come from.
    pub(crate) fn error(&self, side: Side, operation: &str, subject: &str, credentials: &str) -> Error {
        let kind = match self.class {
            FailureClass::Again
            | FailureClass::SlowDown
            | FailureClass::Login
            | FailureClass::Expired
            | FailureClass::Foreign
            | FailureClass::NoHost
            | FailureClass::Skewed
            | FailureClass::Nonsense => ErrorKind::Unreachable,
            FailureClass::Insecure => ErrorKind::Usage,
            FailureClass::Damaged => ErrorKind::Corrupt,
            FailureClass::Denied => ErrorKind::PermissionDenied,
            FailureClass::NotFound => ErrorKind::NotFound,
            FailureClass::Unsupported => ErrorKind::Unsupported,
            FailureClass::Full => ErrorKind::NoSpace,
            FailureClass::Abandoned => ErrorKind::Cancelled,
            FailureClass::Condition | FailureClass::TooLong | FailureClass::Final => ErrorKind::Io,
        };
        let error = Error::new(kind, side, operation, self.reason()).on(subject);
        match self.class {
            FailureClass::Login | FailureClass::Expired => error.with_hint(credentials),
            FailureClass::NoHost => {
                error.with_hint("check the host of --endpoint, AWS_ENDPOINT_URL or the profile")
            }
            FailureClass::Skewed => error.with_hint("set the clock of this machine"),
            // A store says which of bucket and object is missing.
            FailureClass::NotFound if operation == "list" && self.is_bare() => error.with_hint(
                "the answer gives no reason: check the bucket, and that the endpoint is an object store",
            ),
            FailureClass::Denied if subject.starts_with("s3://") && self.code == "AccessDenied" => {
                error.with_hint(missing_permission(operation))
            }
            _ => match &self.region {
                Some(region) => {
                    error.with_hint(format!("the bucket is in another region: --region {region}"))
                }
                None => error,
            },
        }
    }
}

/// The permission that an operation needs.
fn missing_permission(operation: &str) -> String {
    let permission = match operation {
        "list" => "s3:ListBucket",
        "list the parts of" => "s3:ListMultipartUploadParts",
        "list the uploads under" => "s3:ListBucketMultipartUploads",
        "give up the upload of" => "s3:AbortMultipartUpload",
        "write" | "write a part of" => "s3:PutObject",
        "remove" => "s3:DeleteObject",
        "make" => "s3:CreateBucket",
        _ => "s3:GetObject",
    };
    format!("the credentials may lack the permission {permission}, or a policy of the bucket denies it")
}

/// The region in the message of a store that was asked for another one.
fn region_in(code: &str, message: &str) -> Option<String> {
    if code != "AuthorizationHeaderMalformed" {
        return None;
    }
    let (_, rest) = message.split_once("expecting '")?;
    let (region, _) = rest.split_once('\'')?;
    Some(region.to_owned())
}

/// Error codes documented by AWS (S3 API Reference, "Error responses"), and those of other providers.
fn class_of(status: u16, code: &str) -> FailureClass {
    match code {
        "SlowDown"
        | "RequestLimitExceeded"
        | "Throttling"
        | "ThrottlingException"
        | "TooManyRequests"
        | "ServiceUnavailable"
        | "ServerBusy" => FailureClass::SlowDown,
        "BadDigest"
        | "Md5Mismatch"
        | "Crc64Mismatch"
        | "XAmzContentSHA256Mismatch"
        | "XAmzContentChecksumMismatch"
        | "InvalidDigest" => FailureClass::Damaged,
        "ExpiredToken" | "TokenRefreshRequired" => FailureClass::Expired,
        "RequestTimeTooSkewed" => FailureClass::Skewed,
        "InvalidAccessKeyId"
        | "AuthenticationFailed"
        | "AuthenticationRequired"
        | "InvalidAuthenticationInfo"
        | "NoAuthenticationInformation"
        | "SignatureDoesNotMatch"
        | "InvalidToken"
        | "InvalidSecurity"
        | "NotSignedUp" => FailureClass::Login,
        "NoSuchKey" | "NoSuchBucket" | "NoSuchUpload" | "NotFound" => FailureClass::NotFound,
        "PreconditionFailed" | "BlobAlreadyExists" | "ConditionNotMet" | "ConditionalRequestConflict" => {
            FailureClass::Condition
        }
        "AccessDenied" => FailureClass::Denied,
        "BlobArchived" | "SnapshotsPresent" | "LeaseIdMissing" => FailureClass::Final,
        "NotImplemented" | "FeatureNotSupported" | "MethodNotAllowed" | "UnsupportedOperation" => {
            FailureClass::Unsupported
        }
        "QuotaExceeded" | "InsufficientStorage" | "XMinioStorageFull" | "InsufficientCapacity" => {
            FailureClass::Full
        }
        "RequestTimeout" | "InternalError" | "OperationAborted" | "IncompleteBody" => FailureClass::Again,
        _ => match status {
            401 => FailureClass::Login,
            403 => FailureClass::Denied,
            404 => FailureClass::NotFound,
            405 | 501 => FailureClass::Unsupported,
            409 | 412 => FailureClass::Condition,
            429 | 503 => FailureClass::SlowDown,
            507 => FailureClass::Full,
            408 | 500..=599 => FailureClass::Again,
            _ => FailureClass::Final,
        },
    }
}

impl From<std::io::Error> for Fault {
    /// The body of the request cannot be read again.
    fn from(error: std::io::Error) -> Self {
        Self::new(FailureClass::Final, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_code_decide_the_class() {
        for (status, code, class) in [
            (503, "SlowDown", FailureClass::SlowDown),
            (503, "", FailureClass::SlowDown),
            (500, "InternalError", FailureClass::Again),
            (400, "RequestTimeout", FailureClass::Again),
            (400, "BadDigest", FailureClass::Damaged),
            (400, "ExpiredToken", FailureClass::Expired),
            (403, "SignatureDoesNotMatch", FailureClass::Login),
            (403, "AccessDenied", FailureClass::Denied),
            (404, "", FailureClass::NotFound),
            (412, "", FailureClass::Condition),
            (501, "NotImplemented", FailureClass::Unsupported),
            (400, "InvalidArgument", FailureClass::Final),
        ] {
            assert_eq!(class_of(status, code), class, "{status} {code}");
        }
    }

    #[test]
    fn hints_name_the_missing_right() {
        let hint = |code: &str, message: &str, operation: &str| {
            let error = Fault::answer(400, code, message).error(Side::Source, operation, "s3://b/k", "");
            error.hint().unwrap_or_default().to_owned()
        };
        assert!(hint("AccessDenied", "", "list").contains("s3:ListBucket"));
        assert!(hint("AccessDenied", "", "write").contains("s3:PutObject"));
        let malformed = "the region 'us-east-1' is wrong; expecting 'eu-west-1'";
        assert!(hint("AuthorizationHeaderMalformed", malformed, "list").ends_with("--region eu-west-1"));
        assert_eq!(hint("InvalidArgument", "expecting 'x'", "list"), "");
    }

    #[test]
    fn an_error_names_the_object_and_the_code() {
        let error =
            Fault::answer(403, "AccessDenied", "Access Denied.").error(Side::Source, "read", "s3://b/k", "");
        assert_eq!(
            error.to_string(),
            "failed to read `s3://b/k` (source): Access Denied (AccessDenied, HTTP 403)"
        );
        for (status, reason) in [
            (503, "Service Unavailable (HTTP 503)"),
            (502, "Bad Gateway (HTTP 502)"),
            (504, "Gateway Timeout (HTTP 504)"),
            (599, "the store gave no reason (HTTP 599)"),
            (400, "the store gave no reason (HTTP 400)"),
        ] {
            assert_eq!(Fault::answer(status, "", "").reason(), reason);
        }
    }
}
