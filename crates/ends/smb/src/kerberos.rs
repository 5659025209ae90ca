//! The login with a Kerberos ticket.

use std::sync::Arc;

use haul_core::text::Clean;
use haul_core::{Error, ErrorKind, Result, Side, Timestamp};
use smb2::client::Connection;
use smb2::types::status::NtStatus;
use smb2::{KerberosCredentials, Session};

use super::login::ShareLogin;
use super::login_errors::not_logged_in;
use super::ticket::{KerberosTicket, Tickets};

/// How far apart Kerberos lets clocks be, in seconds.
const SKEW: u64 = 5 * 60;
const TIME_DIFFERENCE_AT_DC: NtStatus = NtStatus(0xC000_0133);

/// Logs in once, and returns the ticket of the session. `server_time` is the time that the server has named before.
///
/// # Errors
/// `Unreachable`, with the refusal as the cause.
pub(super) async fn log_in(
    login: &ShareLogin,
    tickets: &Arc<dyn Tickets>,
    wire: &mut Connection,
    server_time: Option<Timestamp>,
) -> Result<(Session, Arc<KerberosTicket>)> {
    let host = &login.server.host;
    let tickets = Arc::clone(tickets);
    let got = tokio::task::spawn_blocking(move || tickets.ticket()).await;
    let stopped = |_| refused(login, "the thread that gets tickets has ended");
    let ticket = got.map_err(stopped)??;
    let (user, realm) = ticket.principal();
    let credentials = KerberosCredentials {
        username: user.to_owned(),
        password: String::new(),
        realm: realm.to_owned(),
        // The library asks nobody, as the ticket is there.
        kdc_address: String::new(),
    };
    let session = Session::setup_kerberos_from_ccache(wire, &credentials, host, &ticket.cache(host)).await;
    let session = session.map_err(|error| not_accepted(login, &ticket, server_time, &error))?;
    Ok((session, ticket))
}

fn refused(login: &ShareLogin, cause: &str) -> Error {
    Error::new(ErrorKind::Unreachable, Side::Wire, "log in to", cause).on(login.server.to_string())
}

fn not_accepted(
    login: &ShareLogin,
    ticket: &KerberosTicket,
    server_time: Option<Timestamp>,
    error: &smb2::Error,
) -> Error {
    let status = if let smb2::Error::Protocol { status, .. } = error { Some(*status) } else { None };
    let is_refusal = matches!(error, smb2::Error::Auth { .. } | smb2::Error::SignatureInvalid { .. })
        || matches!(
            status,
            Some(
                NtStatus::LOGON_FAILURE
                    | NtStatus::ACCESS_DENIED
                    | NtStatus::INVALID_PARAMETER
                    | NtStatus::MORE_PROCESSING_REQUIRED
                    | TIME_DIFFERENCE_AT_DC
            )
        );
    if !is_refusal {
        return not_logged_in(login, error);
    }
    let apart = server_time.map_or(0, |time| time.sec.abs_diff(Timestamp::now().sec));
    if apart > SKEW {
        let cause =
            format!("its clock differs from the one here by {} minutes, and Kerberos allows 5", apart / 60);
        return refused(login, &cause).with_hint("set both clocks, such as with chrony, and run haul again");
    }
    let (user, realm) = ticket.principal();
    let user = format!("{user}@{realm}").clean();
    let hint = "`kinit` gets a new ticket; haul tries no password after a ticket that was refused: name a file with \
                one with --smb-credentials";
    refused(login, &format!("the server does not accept the Kerberos ticket of {user}")).with_hint(hint)
}
