//! All connections to a share: opened as work comes, replaced when they are lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::sync::Mutex;
use haul_core::{Error, Note, Ops, Result, Retry, connections_for_link};

use super::conn::{Busy, Conn};
use super::login::ShareLogin;
use super::login_errors::lost;
use super::reply::Replies;
use super::runtime::runtime;
use super::step::ChainStep;
use smb2::types::FileId;
use smb2::types::status::NtStatus;
use tokio::sync::{RwLock, Semaphore};

/// The most connections unless the user gives another number, to a near server and to any. Each is a process at a Samba
/// server.
const CONNECTIONS: u32 = 4;
const MOST_CONNECTIONS: u32 = 16;
/// Chains in flight on each connection before another one is opened, to a near server and to a remote one. There a
/// connection carries no more than its buffers in each round trip.
const ENOUGH: usize = 8;
const ENOUGH_REMOTE: usize = 1;
/// A server with this round trip or a longer one is remote.
const REMOTE: Duration = Duration::from_millis(10);
/// Frames with content in flight, on all connections that encrypt. The library keeps each twice.
const CONTENT_FRAMES: usize = 12;
/// How long a frame waits for connections that are being opened, and the pause before it looks again.
const OPENING: Duration = Duration::from_secs(1);
const OPENING_PAUSE: Duration = Duration::from_millis(5);
/// How often a chain is sent before its connection is called lost for good.
const REPEATS: u32 = 8;
/// How long to wait for the answer when a handle is closed.
const CLOSE: Duration = Duration::from_secs(5);
/// How long to try to connect again.
const RECONNECT: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// The connections to a share.
pub(super) struct ShareConns {
    pub(super) login: ShareLogin,
    pub(super) ops: Arc<Ops>,
    note: Note,
    /// The most connections; 0 lets the round trip decide.
    asked: usize,
    state: Mutex<ShareState>,
    /// Held for each handle that is being closed.
    closing: Arc<RwLock<()>>,
    /// Held by each frame with content.
    content: Semaphore,
    /// Held while a connection is opened in the place of one that was lost.
    opening: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct ShareState {
    conns: Vec<Arc<Conn>>,
    /// Whether the library holds the content of frames that are in flight on them.
    holds_content: bool,
    /// Whether a login has succeeded.
    reached: bool,
    /// Whether the last session has expired, and there is no other one yet.
    expired: bool,
    /// Connections that are being opened.
    growing: usize,
    /// Whether another connection was refused.
    full: bool,
    /// The error that ended the session.
    failed: Option<Error>,
}

impl ShareState {
    fn add(&mut self, conn: Conn) {
        self.holds_content = conn.holds_content();
        self.expired = false;
        self.conns.push(Arc::new(conn));
    }

    fn least_busy(&self) -> Option<&Arc<Conn>> {
        self.conns.iter().min_by_key(|conn| conn.in_flight())
    }

    fn round_trip(&self) -> Duration {
        self.conns.iter().map(|conn| conn.round_trip()).min().unwrap_or_default()
    }
}

impl ShareConns {
    pub(super) fn new(login: ShareLogin, ops: Arc<Ops>, streams: u32, note: Note) -> Arc<Self> {
        let (state, closing, opening) = (Mutex::default(), Arc::default(), tokio::sync::Mutex::default());
        let (asked, content) = (streams as usize, Semaphore::new(CONTENT_FRAMES));
        Arc::new(Self { login, ops, note, asked, state, closing, content, opening })
    }

    /// The number of open connections.
    pub(super) fn streams(&self) -> u32 {
        u32::try_from(self.state.lock().conns.len()).unwrap_or(u32::MAX)
    }

    /// Tells the user something.
    pub(super) fn note(&self, text: &str) {
        (self.note)(text);
    }

    /// The most bytes of one command.
    pub(super) fn most(&self) -> usize {
        self.state.lock().conns.first().map_or(65_536, |conn| conn.most())
    }

    /// Sends a chain, again if a connection is lost, and waits for all answers.
    ///
    /// # Errors
    /// `Unreachable` if the server cannot be reached any more.
    pub(super) async fn run(self: &Arc<Self>, chain: &[ChainStep<'_>]) -> Result<Replies> {
        self.repeat(chain, async || Ok(self.pick().await?.busy())).await
    }

    /// The same for a chain with much content.
    ///
    /// # Errors
    /// As [`ShareConns::run`].
    pub(super) async fn run_large(self: &Arc<Self>, chain: &[ChainStep<'_>]) -> Result<Replies> {
        let holds_content = self.state.lock().holds_content || self.ops.is_limited();
        // Nobody closes it.
        let _one = if holds_content { self.content.acquire().await.ok() } else { None };
        self.repeat(chain, async || self.pick_for_content().await).await
    }

    async fn repeat(&self, chain: &[ChainStep<'_>], pick: impl AsyncFn() -> Result<Busy>) -> Result<Replies> {
        let mut why = String::new();
        let mut is_doubted = false;
        for _ in 0..REPEATS {
            let busy = pick().await?;
            match self.run_on(&busy, chain).await {
                // A server also answers so to a request that was changed on the way.
                Ok(replies) if replies.has(NtStatus::ACCESS_DENIED) && !is_doubted => {
                    is_doubted = true;
                }
                Ok(replies) => return Ok(replies),
                Err(error) => why = error.cause().to_owned(),
            }
        }
        Err(lost(&self.login, &why).with_retry(Retry::Never))
    }

    /// Sends a chain over this connection.
    ///
    /// # Errors
    /// `Unreachable` if the connection is lost.
    pub(super) async fn run_on(&self, busy: &Busy, chain: &[ChainStep<'_>]) -> Result<Replies> {
        self.ops.one();
        let conn = busy.conn();
        // A limit on operations blocks the thread.
        let ran = conn.run(chain, !self.ops.is_limited(), self.login.timeout).await;
        // A server may say so of a single command of a chain.
        let is_expired = match &ran {
            Ok(replies) => replies.has(NtStatus::NETWORK_SESSION_EXPIRED),
            Err(error) => error.kind() == smb2::ErrorKind::SessionExpired,
        };
        if is_expired {
            self.end_sessions_like(conn);
            return Err(lost(&self.login, "the server says that the session has expired"));
        }
        let why = match ran {
            Ok(replies) if replies.has_lost_session() => "the server has ended the session".to_owned(),
            Ok(replies) => return Ok(replies),
            Err(error) => error.to_string(),
        };
        self.state.lock().conns.retain(|other| !Arc::ptr_eq(other, conn));
        Err(lost(&self.login, &why))
    }

    /// Drops all connections whose sessions end with that of `conn`. The next one logs in anew, with a new ticket.
    fn end_sessions_like(&self, conn: &Conn) {
        if let (Some(tickets), Some(ticket)) = (&self.login.tickets, conn.ticket()) {
            tickets.ended(ticket);
        }
        let mut state = self.state.lock();
        state.conns.retain(|other| other.ticket() != conn.ticket());
        state.expired |= state.conns.is_empty();
    }

    /// Closes a handle. Nobody waits for the answer of the server, except [`ShareConns::closed`].
    pub(super) fn close_later(&self, conn: Arc<Conn>, handle: FileId) {
        // Without a runtime there is no connection.
        let Ok(runtime) = runtime() else { return };
        let (begun, closing) = (Arc::clone(&self.closing).try_read_owned(), Arc::clone(&self.closing));
        runtime.spawn(async move {
            let _open = match begun {
                Ok(open) => open,
                Err(_) => closing.read_owned().await,
            };
            let _answered = tokio::time::timeout(CLOSE, conn.close(handle)).await;
        });
    }

    /// Waits until the handles are closed that are being closed now.
    pub(super) async fn closed(&self) {
        drop(self.closing.write().await);
    }

    /// A connection with little work. Opens one if there is none, and begins to open another one if all have much to do.
    ///
    /// # Errors
    /// `Unreachable` if the server cannot be reached.
    pub(super) async fn pick(self: &Arc<Self>) -> Result<Arc<Conn>> {
        loop {
            if let Some(conn) = self.least_busy()? {
                return Ok(conn);
            }
            let _alone = self.opening.lock().await;
            if self.least_busy()?.is_none() {
                let opened = self.open().await;
                let mut state = self.state.lock();
                match opened {
                    Ok(conn) => state.add(conn),
                    Err(error) => state.failed = Some(error),
                }
                state.reached = true;
            }
        }
    }

    /// A connection for much content. A remote server gets no second frame on a connection while others are being opened:
    /// each connection comes to its rate by itself.
    async fn pick_for_content(self: &Arc<Self>) -> Result<Busy> {
        let begun = Instant::now();
        loop {
            let best = self.pick().await?;
            {
                let state = self.state.lock();
                let best = state.least_busy().unwrap_or(&best);
                let waits = best.in_flight() > 0 && state.growing > 0 && state.round_trip() >= REMOTE;
                if !waits || begun.elapsed() > OPENING {
                    return Ok(best.busy());
                }
            }
            tokio::time::sleep(OPENING_PAUSE).await;
        }
    }

    fn least_busy(self: &Arc<Self>) -> Result<Option<Arc<Conn>>> {
        let mut state = self.state.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        state.conns.retain(|conn| !conn.is_lost());
        let Some(best) = state.least_busy().cloned() else { return Ok(None) };
        let enough = if state.round_trip() >= REMOTE { ENOUGH_REMOTE } else { ENOUGH };
        if best.in_flight() >= enough {
            self.grow(&mut state, 1)?;
        }
        Ok(Some(best))
    }

    /// Large files come, of so many slices: begins to open the connections for them if the server is not near. Each takes
    /// a few round trips until it can be used, and some more to its full rate.
    ///
    /// # Errors
    /// `Io` if there are no threads for that.
    pub(super) fn expect(self: &Arc<Self>, slices: usize) -> Result<()> {
        let mut state = self.state.lock();
        let missing = slices.saturating_sub(state.conns.len() + state.growing);
        if state.round_trip() < REMOTE { Ok(()) } else { self.grow(&mut state, missing) }
    }

    /// Begins to open `more` connections, but not more than there may be.
    fn grow(self: &Arc<Self>, state: &mut ShareState, more: usize) -> Result<()> {
        let most = if self.asked > 0 { self.asked } else { most_for(state.round_trip()) };
        let free = if state.full { 0 } else { most.saturating_sub(state.conns.len() + state.growing) };
        let runtime = runtime()?;
        for _ in 0..more.min(free) {
            state.growing += 1;
            let growing = Growing(Arc::clone(self));
            runtime.spawn(async move {
                let opened = Conn::open(&growing.0.login).await;
                let mut state = growing.0.state.lock();
                match opened {
                    Ok(conn) => state.add(conn),
                    Err(_) => state.full = true,
                }
            });
        }
        Ok(())
    }

    /// Opens a connection: the first one at once or not at all, a later one as soon as the server answers again.
    async fn open(&self) -> Result<Conn> {
        let (first, expired) = {
            let state = self.state.lock();
            (!state.reached, state.expired)
        };
        // The user can do nothing about a session that expired.
        if !first && !expired {
            self.note(&format!("the connection to {} was lost: connecting again", self.login.server));
        }
        let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match Conn::open(&self.login).await {
                Err(error) if !first && error.retry() == Retry::Again && begun.elapsed() < RECONNECT => {
                    tokio::time::sleep(pause).await;
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
                opened => return opened.map_err(|error| error.with_retry(Retry::Never)),
            }
        }
    }
}

/// A connection that is being opened, whatever becomes of it.
struct Growing(Arc<ShareConns>);

impl Drop for Growing {
    fn drop(&mut self) {
        self.0.state.lock().growing -= 1;
    }
}

fn most_for(round_trip: Duration) -> usize {
    connections_for_link(round_trip).clamp(CONNECTIONS, MOST_CONNECTIONS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_connections_over_a_longer_way() {
        let most = [0, 4, 20, 60].map(|ms| most_for(Duration::from_millis(ms)));
        assert_eq!(most, [4, 4, 6, 16]);
    }
}
