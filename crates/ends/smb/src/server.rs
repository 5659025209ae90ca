//! All connections to a share: opened as work comes, replaced when they are lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::sync::Mutex;
use haul_core::{Error, Note, Ops, Result, Retry};

use super::conn::Conn;
use super::login::ShareLogin;
use super::login_errors::lost;
use super::reply::Replies;
use super::runtime::runtime;
use super::step::ChainStep;
use smb2::types::FileId;
use smb2::types::status::NtStatus;
use tokio::sync::RwLock;

/// The most connections unless the user gives another number. Each is a process at a Samba server.
const CONNECTIONS: usize = 4;
/// Chains in flight on each connection before another one is opened.
const ENOUGH: usize = 8;
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
    most: usize,
    state: Mutex<ShareState>,
    /// Held for each handle that is being closed.
    closing: Arc<RwLock<()>>,
    /// Held while a connection is opened in the place of one that was lost.
    opening: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct ShareState {
    conns: Vec<Arc<Conn>>,
    /// Whether a login has succeeded.
    reached: bool,
    /// Whether another connection is being opened.
    growing: bool,
    /// Whether another connection was refused.
    full: bool,
    /// The error that ended the session.
    failed: Option<Error>,
}

impl ShareConns {
    pub(super) fn new(login: ShareLogin, ops: Arc<Ops>, streams: u32, note: Note) -> Arc<Self> {
        let most = if streams == 0 { CONNECTIONS } else { streams as usize };
        let (state, closing, opening) = (Mutex::default(), Arc::default(), tokio::sync::Mutex::default());
        Arc::new(Self { login, ops, note, most, state, closing, opening })
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
    pub(super) async fn run(self: &Arc<Self>, chain: &[ChainStep]) -> Result<Replies> {
        let mut why = String::new();
        let mut is_doubted = false;
        for _ in 0..REPEATS {
            let conn = self.pick().await?;
            match self.run_on(&conn, chain).await {
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
    pub(super) async fn run_on(&self, conn: &Arc<Conn>, chain: &[ChainStep]) -> Result<Replies> {
        self.ops.one();
        let _busy = conn.busy();
        let why = match conn.run(chain, self.login.timeout).await {
            Ok(replies) if replies.has_lost_session() => "the server has ended the session".to_owned(),
            Ok(replies) => return Ok(replies),
            Err(error) => error.to_string(),
        };
        self.state.lock().conns.retain(|other| !Arc::ptr_eq(other, conn));
        Err(lost(&self.login, &why))
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
                    Ok(conn) => state.conns.push(Arc::new(conn)),
                    Err(error) => state.failed = Some(error),
                }
                state.reached = true;
            }
        }
    }

    fn least_busy(self: &Arc<Self>) -> Result<Option<Arc<Conn>>> {
        let mut state = self.state.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        state.conns.retain(|conn| !conn.is_lost());
        let Some(best) = state.conns.iter().min_by_key(|conn| conn.in_flight()).cloned() else {
            return Ok(None);
        };
        let grows =
            best.in_flight() >= ENOUGH && state.conns.len() < self.most && !state.growing && !state.full;
        if grows {
            state.growing = true;
            drop(state);
            self.grow()?;
        }
        Ok(Some(best))
    }

    /// Begins to open another connection.
    fn grow(self: &Arc<Self>) -> Result<()> {
        let server = Arc::clone(self);
        runtime()?.spawn(async move {
            let opened = Conn::open(&server.login).await;
            let mut state = server.state.lock();
            state.growing = false;
            match opened {
                Ok(conn) => state.conns.push(Arc::new(conn)),
                Err(_) => state.full = true,
            }
        });
        Ok(())
    }

    /// Opens a connection: the first one at once or not at all, a later one as soon as the server answers again.
    async fn open(&self) -> Result<Conn> {
        let first = !self.state.lock().reached;
        if !first {
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
