//! The errors of a login, and of a server that cannot be reached.

use haul_core::{Error, ErrorKind, Retry, Side};
use smb2::types::status::NtStatus;

use super::login::ShareLogin;

/// The answer to NTLM where only Kerberos is allowed.
const NTLM_BLOCKED: NtStatus = NtStatus(0xC000_0418);

pub(super) fn refused(login: &ShareLogin, operation: &str, cause: &str) -> Error {
    Error::new(ErrorKind::Unreachable, Side::Wire, operation, cause).on(login.server.to_string())
}

/// The error of a connection that is lost, or cannot be opened now.
pub(super) fn lost(login: &ShareLogin, cause: &str) -> Error {
    refused(login, "reach", cause).with_retry(Retry::Again)
}

/// The error of a login that failed.
pub(super) fn not_logged_in(login: &ShareLogin, error: &smb2::Error) -> Error {
    let denied = |cause: &str| refused(login, "log in to", cause);
    match error {
        smb2::Error::Protocol { status, .. } => match *status {
            NtStatus::LOGON_FAILURE => denied("the server does not accept this user with this password")
                .with_hint("haul tries a password once, as servers lock accounts after some attempts"),
            NtStatus::PASSWORD_EXPIRED | NtStatus::PASSWORD_MUST_CHANGE => denied("the password has expired"),
            NTLM_BLOCKED => denied("the server takes no passwords (NTLM), only Kerberos tickets")
                .with_hint("run `kinit USER@REALM`, name the server as the KDC does, and give no password"),
            NtStatus::ACCOUNT_LOCKED_OUT => denied("the account is locked"),
            NtStatus::ACCOUNT_DISABLED | NtStatus::ACCOUNT_EXPIRED => denied("the account is disabled"),
            NtStatus::ACCOUNT_RESTRICTION | NtStatus::INVALID_LOGON_HOURS | NtStatus::INVALID_WORKSTATION => {
                denied("the server does not let this account log in from here or now")
            }
            other => denied(&format!("the server says {other}")),
        },
        smb2::Error::GuestSessionRefused { .. } => {
            denied("the server offers a guest session in place of this user")
                .with_hint("check user and password; to log in as a guest, name the user guest")
        }
        smb2::Error::Auth { message } => denied(message),
        smb2::Error::SignatureInvalid { .. } => denied("the answer of the server has a wrong signature"),
        other => lost(login, &other.to_string()),
    }
}
