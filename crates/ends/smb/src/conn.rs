//! One connection: negotiated, logged in, and connected to the share.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use haul_core::{Error, Result, SLICE_LEN};
use smb2::client::{Cipher, Connection};
use smb2::msg::echo::EchoRequest;
use smb2::msg::tree_connect::{ShareType, TreeConnectRequest, TreeConnectRequestFlags, TreeConnectResponse};
use smb2::pack::{ReadCursor, Unpack};
use smb2::types::flags::{Capabilities, ShareFlags};
use smb2::types::status::NtStatus;
use smb2::types::{Command, Dialect, FileId, TreeId};
use smb2::{CompoundOp, Frame, Session};

use super::greeting::{self, ShareWire};
use super::handover::NumberedWrite;
use super::kerberos;
use super::login::ShareLogin;
use super::login_errors::{lost, not_logged_in, refused};
use super::reply::Replies;
use super::signature::WriteSigner;
use super::step::ChainStep;
use super::ticket::KerberosTicket;

/// The usual port.
const PORT: u16 = 445;
/// How long the server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(3);
/// A pause before a request that the server has not granted credits for yet.
const CREDIT_PAUSE: Duration = Duration::from_millis(10);

/// A connection to a share.
pub(super) struct Conn {
    wire: Connection,
    /// The wire below the library, as long as the library has it.
    below: Weak<ShareWire>,
    /// Signs large writes; `None` if the library must see their content, such as to encrypt it.
    signer: Option<WriteSigner>,
    tree: TreeId,
    /// The ticket of the session; `None` if it has a password.
    ticket: Option<Arc<KerberosTicket>>,
    /// Whether entries are opened to back them up.
    backup_intent: bool,
    /// The most bytes of one command for which the server granted credits after the login. The library learns that limit
    /// anew in the course of a run, and forgets it at times.
    most: u64,
    in_flight: AtomicUsize,
}

/// A chain in flight.
pub(super) struct Busy(Arc<Conn>);

impl Busy {
    pub(super) fn conn(&self) -> &Arc<Conn> {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Conn {
    /// Connects, logs in once, and connects to the share.
    ///
    /// # Errors
    /// `Unreachable`: with [`Retry::Again`](haul_core::Retry::Again) if haul could not reach the server, else with the refusal as the cause.
    pub(super) async fn open(login: &ShareLogin) -> Result<Self> {
        let host = &login.server.host;
        let port = login.server.port.unwrap_or(PORT);
        let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let connected = greeting::connect(&address, host, CONNECT, login.timeout).await;
        let (mut wire, below) = connected.map_err(|error| no_answer(login, &error))?;
        wire.set_response_timeout(Some(login.timeout));
        // The library would limit the time of a whole frame; the socket limits that without progress.
        wire.set_send_timeout(None);
        let greeted = below.negotiate(&mut wire).await;
        let server_time = greeted.map_err(|error| not_negotiated(login, &error))?;
        let (session, ticket) = match &login.tickets {
            Some(tickets) => {
                let (session, ticket) = kerberos::log_in(login, tickets, &mut wire, server_time).await?;
                (session, Some(ticket))
            }
            None => {
                let session = Session::setup(&mut wire, login.user(), login.password(), login.domain()).await;
                (session.map_err(|error| not_logged_in(login, &error))?, None)
            }
        };
        if !session.should_sign && !login.is_guest() {
            return Err(refused(login, "log in to", "the server does not sign its answers"));
        }
        if login.options.encrypt {
            encrypt(login, &mut wire, &session)?;
        }
        let tree = connect_tree(login, &mut wire, &session).await?;
        let signer = if wire.should_encrypt() { None } else { WriteSigner::of(&session) };
        let (backup_intent, most) = (login.options.backup_intent, wire.compound_write_limit());
        let (below, in_flight) = (Arc::downgrade(&below), AtomicUsize::new(0));
        Ok(Self { wire, below, signer, tree, ticket, backup_intent, most, in_flight })
    }

    /// The quickest answer to a small request so far.
    pub(super) fn round_trip(&self) -> Duration {
        self.wire.estimated_rtt().unwrap_or_default()
    }

    /// The chains that wait for answers.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts a chain as in flight.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    /// The ticket of the session; `None` if it has a password.
    pub(super) fn ticket(&self) -> Option<&Arc<KerberosTicket>> {
        self.ticket.as_ref()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.wire.is_disconnected()
    }

    /// The most bytes of one command.
    pub(super) fn most(&self) -> usize {
        let params = self.wire.params();
        let read = params.map_or(65_536, |params| params.max_read_size.min(params.max_transact_size));
        let most = self.wire.compound_write_limit().min(self.most).min(read.into()).min(SLICE_LEN);
        usize::try_from(most).unwrap_or(65_536).max(65_536)
    }

    /// Sends a chain and waits for all answers. `hands_over`: the content of a large write leaves on this thread, which
    /// must not block meanwhile.
    ///
    /// # Errors
    /// If the connection is of no use any more.
    pub(super) async fn run(
        &self,
        chain: &[ChainStep<'_>],
        hands_over: bool,
        timeout: Duration,
    ) -> Result<Replies, smb2::Error> {
        let intended =
            |step: &ChainStep<'_>| if self.backup_intent { step.with_backup_intent() } else { None };
        let opens: Vec<Option<ChainStep<'static>>> = chain.iter().map(intended).collect();
        let steps = chain.iter().zip(&opens).map(|(step, open)| open.as_ref().unwrap_or(step));
        let steps: Vec<&ChainStep<'_>> = steps.collect();
        let begun = Instant::now();
        let frames = loop {
            match self.send(&steps, hands_over).await {
                // Nothing was sent.
                Err(smb2::Error::CreditStarvation { .. }) if begun.elapsed() < timeout => {
                    tokio::time::sleep(CREDIT_PAUSE).await;
                    // Only answers bring more credits, and nothing may be in flight.
                    if self.wire.credits() > 0 {
                        let _answer = self.wire.execute(Command::Echo, &EchoRequest, None).await;
                    }
                }
                frames => break frames?,
            }
        };
        let replies = Replies::new(frames.into_iter().collect::<Result<_, _>>()?);
        self.close_handles_that_stayed_open(chain, &replies).await;
        Ok(replies)
    }

    async fn send(
        &self,
        steps: &[&ChainStep<'_>],
        hands_over: bool,
    ) -> Result<Vec<Result<Frame, smb2::Error>>, smb2::Error> {
        let mut ops: Vec<CompoundOp<'_>> = steps.iter().map(|step| step.op(self.tree)).collect();
        let large = steps.iter().enumerate().find_map(|(at, step)| Some((at, step.large_write()?)));
        let below = self.below.upgrade().filter(|_| hands_over);
        let Some((((at, write), signer), below)) = large.zip(self.signer.as_ref()).zip(below) else {
            return self.wire.execute_compound(&ops).await;
        };
        let expected = below.handovers.expect();
        let numbered = NumberedWrite { write, number: expected.number };
        ops[at].body = &numbered;
        let sent = pin!(expected.send(&below.socket, signer, write.data));
        match select(pin!(self.wire.execute_compound(&ops)), sent).await {
            Either::Left((frames, _)) => frames,
            Either::Right(((), frames)) => frames.await,
        }
    }

    /// Whether the library holds the content of frames while they are in flight.
    pub(super) fn holds_content(&self) -> bool {
        self.signer.is_none()
    }

    /// Closes a handle. A connection that was lost has no handles.
    pub(super) async fn close(&self, handle: FileId) {
        let _closed = self.wire.execute_compound(&[ChainStep::close_of(handle).op(self.tree)]).await;
    }

    /// A server may leave out the end of a chain after an error.
    async fn close_handles_that_stayed_open(&self, chain: &[ChainStep<'_>], replies: &Replies) {
        let closes = chain.len() > 1 && chain.last().is_some_and(|step| step.command == Command::Close);
        if closes
            && replies.ok(chain.len() - 1).is_err()
            && let Ok(opened) = replies.opened()
        {
            self.close(opened.file_id).await;
        }
    }
}

fn encrypt(login: &ShareLogin, wire: &mut Connection, session: &Session) -> Result<()> {
    if wire.should_encrypt() {
        return Ok(());
    }
    let params = wire.params();
    let cipher = params.and_then(|params| match params.dialect {
        Dialect::Smb3_1_1 => params.cipher,
        _ if params.capabilities.contains(Capabilities::ENCRYPTION) => Some(Cipher::Aes128Ccm),
        _ => None,
    });
    let keys = session.encryption_key.clone().zip(session.decryption_key.clone());
    match (cipher, keys) {
        (Some(cipher), Some((encrypt, decrypt))) if session.should_sign => {
            wire.activate_encryption(encrypt, decrypt, cipher);
            Ok(())
        }
        _ => Err(refused(login, "encrypt the connection to", "the server does not encrypt with AES-128")),
    }
}

async fn connect_tree(login: &ShareLogin, wire: &mut Connection, session: &Session) -> Result<TreeId> {
    let path = format!("\\\\{}\\{}", login.server.host, login.server.share);
    let request = TreeConnectRequest { flags: TreeConnectRequestFlags::default(), path };
    let answer = wire.execute(Command::TreeConnect, &request, None).await;
    let frame = answer.map_err(|error| lost(login, &error.to_string()))?;
    match frame.header.status {
        NtStatus::SUCCESS => {}
        NtStatus::BAD_NETWORK_NAME => {
            let cause = "the server has no share of this name";
            let hint = format!("`smbclient -L {}` lists the shares", login.server.host);
            return Err(refused(login, "reach", cause).with_hint(hint));
        }
        NtStatus::ACCESS_DENIED => {
            let cause = "the user may not use this share, or only with encryption (--smb-encrypt)";
            return Err(refused(login, "reach", cause));
        }
        other => return Err(refused(login, "reach", &format!("the server says {other}"))),
    }
    let answer = TreeConnectResponse::unpack(&mut ReadCursor::new(&frame.body));
    let share = answer.map_err(|error| lost(login, &error.to_string()))?;
    if share.share_type != ShareType::Disk {
        return Err(refused(login, "reach", "the share holds no files"));
    }
    if share.share_flags.contains(ShareFlags::ENCRYPT_DATA) {
        encrypt(login, wire, session)?;
    }
    frame.header.tree_id.ok_or_else(|| lost(login, "the server did not name the tree"))
}

fn no_answer(login: &ShareLogin, error: &io::Error) -> Error {
    let cause = match error.kind() {
        io::ErrorKind::ConnectionRefused => "nothing listens there (Connection refused)".to_owned(),
        io::ErrorKind::TimedOut => "the host does not answer".to_owned(),
        io::ErrorKind::HostUnreachable => "No route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "Network is unreachable".to_owned(),
        _ => error.to_string(),
    };
    if cause.contains("failed to lookup address") {
        return lost(login, &format!("no host is known as {}", login.server.host));
    }
    let port = login.server.port.unwrap_or(PORT);
    lost(login, &cause)
        .with_hint(format!("is it the right host, and does a firewall let port {port} through?"))
}

fn not_negotiated(login: &ShareLogin, error: &smb2::Error) -> Error {
    let cause = format!("the server does not agree to SMB 2 or 3 ({error})");
    let error = match error {
        // An answer is the last word. Servers may also end the connection, as a broken network does.
        smb2::Error::Protocol { .. } | smb2::Error::InvalidData { .. } => refused(login, "reach", &cause),
        smb2::Error::Timeout | smb2::Error::ServerUnresponsive { .. } => {
            return lost(login, "the host takes the connection and says nothing");
        }
        _ => lost(login, &cause),
    };
    error.with_hint(
        "haul needs SMB 2 or later, and does not speak SMB 1: enable it at the server (Samba: `server max protocol = \
         SMB3`; Windows: `Set-SmbServerConfiguration -EnableSMB2Protocol $true`), or upgrade the server",
    )
}

#[cfg(test)]
mod tests {
    use haul_core::location::SmbServer;
    use haul_core::{ErrorKind, Retry};

    use super::*;
    use crate::login::{ShareCredentials, ShareOptions};

    #[test]
    fn a_server_that_refuses_the_dialects_is_not_asked_again() {
        let server = SmbServer {
            domain: None,
            user: None,
            host: "nas".to_owned(),
            port: None,
            share: "disk".to_owned(),
        };
        let (credentials, options) = (ShareCredentials::default(), ShareOptions::default());
        let login = ShareLogin { server, credentials, options, tickets: None, timeout: CONNECT };
        let refusal = smb2::Error::Protocol { status: NtStatus::NOT_SUPPORTED, command: Command::Negotiate };
        for (error, retry, hint) in [
            (refusal, Retry::Never, "haul needs SMB 2 or later"),
            (smb2::Error::Disconnected, Retry::Again, "haul needs SMB 2 or later"),
            (smb2::Error::Timeout, Retry::Again, ""),
        ] {
            let told = not_negotiated(&login, &error);
            assert_eq!((told.kind(), told.retry()), (ErrorKind::Unreachable, retry), "{error}");
            assert!(told.hint().unwrap_or_default().starts_with(hint), "{error}");
        }
    }
}
