//! The connections to one server: opened as work comes, replaced when they die.

use haul_core::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::{Duration, Instant};

use haul_core::{Error, ErrorKind, Note, Ops, Result, Retry, Side};

use super::conn::{Answers, Conn};
use super::greeting;
use super::pipe::Life;
use super::reply::lost;
use super::server::ServerFeatures;
use haul_ssh::dial::{AfterRefusal, DialPurpose, DialRefused, LOGIN, watched};
use haul_ssh::supervisor::{
    ConnectionGrowth, DIALS_AT_ONCE, Restart, Restarts, TICK, connections_for, silence, was_held_up,
};
use haul_ssh::{OpenPipes, Pipes};

/// From this round trip on, further connections are opened at once, as a login takes long.
const REMOTE: Duration = Duration::from_millis(20);
/// How long a process may take to exit after its connection has ended.
const COLLECT: Duration = Duration::from_millis(500);

/// The connections to one server.
pub(super) struct Pool {
    dialer: Box<dyn OpenPipes>,
    note: Note,
    timeout: Duration,
    /// Connections that were asked for; 0 lets the round trip decide.
    streams: u32,
    /// The limit of requests per second.
    ops: Arc<Ops>,
    /// Memory of unread answers of listings beyond their expected size.
    held: Arc<AtomicU64>,
    state: Mutex<ConnPoolState>,
    changed: Condvar,
}

#[derive(Default)]
struct ConnPoolState {
    conns: Vec<Arc<Conn>>,
    dialing: u32,
    /// Whether there is work for several connections.
    wanted: bool,
    growth: ConnectionGrowth,
    closed: bool,
    /// The error that ended the session.
    fatal: Option<Error>,
    /// The error of the last lost connection.
    last: Option<Error>,
    /// Reading threads that still run.
    readers: u32,
}

impl Pool {
    /// Opens the first connection; ssh may ask for a password here.
    pub(super) fn open(
        dialer: Box<dyn OpenPipes>,
        note: Note,
        timeout: Duration,
        streams: u32,
        ops: Arc<Ops>,
    ) -> Result<Arc<Self>> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let pool =
            Arc::new(Self { dialer, note, timeout, streams, ops, held: Arc::default(), state, changed });
        pool.dial(DialPurpose::First).map_err(|refused| refused.error)?;
        if pool.server()?.round_trip >= REMOTE {
            pool.want();
        }
        let supervisor = pool.clone();
        let spawned = thread::Builder::new().name("haul-sftp".to_owned()).spawn(move || supervisor.keep());
        if let Err(error) = spawned {
            pool.close();
            return Err(Error::io(Side::Local, "start a thread", &error));
        }
        Ok(pool)
    }

    /// The name of the server, for display.
    pub(super) fn name(&self) -> String {
        self.dialer.name()
    }

    /// Shows a message to the user.
    pub(super) fn note(&self, text: &str) {
        (self.note)(text);
    }

    /// Connections that are up.
    pub(super) fn streams(&self) -> u32 {
        u32::try_from(self.state.lock().conns.len()).unwrap_or(u32::MAX)
    }

    /// Whether requests wait because of the limit on operations per second.
    pub(super) fn is_held_by_iops(&self) -> bool {
        self.ops.is_waited_for()
    }

    /// There is work for several connections.
    pub(super) fn want(&self) {
        let mut state = self.state.lock();
        if !std::mem::replace(&mut state.wanted, true) {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The least busy connection. Waits while there is none but one may be opened.
    pub(super) fn pick(&self) -> Result<Arc<Conn>> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = &state.fatal {
                return Err(error.clone());
            }
            if state.closed {
                let cause = "the run has ended";
                return Err(Error::new(ErrorKind::Cancelled, Side::Wire, "reach", cause).on(self.name()));
            }
            let least = state.conns.iter().filter(|conn| !conn.is_lost()).min_by_key(|conn| conn.load());
            if let Some(conn) = least {
                return Ok(conn.clone());
            }
            state = self.changed.wait_timeout(state, TICK).0;
        }
    }

    /// The extensions and limits of the server.
    pub(super) fn server(&self) -> Result<ServerFeatures> {
        Ok(self.pick()?.server.clone())
    }

    /// Does `work` on one connection, and again on another one if the connection was lost.
    pub(super) fn on_one<T>(&self, work: impl Fn(&Conn) -> Result<T>) -> Result<T> {
        let mut left = 5;
        loop {
            left -= 1;
            let conn = self.pick()?;
            match work(&conn) {
                Err(error) if error.retry() == Retry::OtherStream && left > 0 => {}
                Err(error) if error.retry() == Retry::OtherStream => {
                    return Err(error.with_retry(Retry::Never));
                }
                other => return other,
            }
        }
    }

    /// Ends every connection.
    pub(super) fn close(&self) {
        let conns = {
            let mut state = self.state.lock();
            state.closed = true;
            std::mem::take(&mut state.conns)
        };
        self.changed.notify_all();
        self.dialer.stop();
        conns.iter().for_each(|conn| conn.close());
        let begun = Instant::now();
        let mut state = self.state.lock();
        while (state.readers > 0 || state.dialing > 0) && begun.elapsed() < Duration::from_secs(5) {
            state = self.changed.wait_timeout(state, TICK).0;
        }
        drop(state);
        self.dialer.clean();
    }

    /// Opens one connection.
    fn dial(self: &Arc<Self>, way: DialPurpose) -> Result<(), DialRefused> {
        let pipes = self.dialer.start(way)?;
        let helper = pipes.helper.clone();
        let greeted = self.greet(pipes, way);
        if greeted.is_err() {
            helper.kill();
            helper.collect(Duration::ZERO);
        }
        let (conn, answers) = greeted?;
        helper.settled();
        self.add(conn, answers)
    }

    /// Greets the server within the timeout. Only the first login may take longer, as ssh may ask the user; otherwise
    /// sshd limits it.
    fn greet(&self, pipes: Pipes, way: DialPurpose) -> Result<(Conn, Answers), DialRefused> {
        let helper = pipes.helper.clone();
        let life = Life::new();
        let (begun, watching, looked) = (Instant::now(), life.clone(), helper.clone());
        let look = move || {
            let given_up = match way {
                DialPurpose::First if watching.was_heard() => watching.silent_for() > self.timeout,
                DialPurpose::First => {
                    if looked.is_asking() {
                        watching.heard();
                    }
                    watching.silent_for() > self.timeout * LOGIN
                }
                DialPurpose::Again | DialPurpose::Further => begun.elapsed() > self.timeout,
            };
            if given_up {
                watching.end();
            }
            !given_up
        };
        let greet =
            || greeting::greet(pipes, &self.name(), life.clone(), self.ops.clone(), self.held.clone());
        let greeted =
            watched(look, greet).unwrap_or_else(|error| Err(std::io::Error::other(error.to_string())));
        greeted.map_err(|error| {
            let refused = |why: &str| {
                let error = Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", why).on(self.name());
                let error = match haul_ssh::no_login(why.as_bytes()) {
                    Some((_, hint)) => error.with_hint(hint),
                    None => error,
                };
                DialRefused { trouble: AfterRefusal::Later, error }
            };
            if life.is_ended() {
                return refused("it did not answer in time");
            }
            let ended = error.kind() != std::io::ErrorKind::InvalidData;
            let reported = if ended { helper.explain() } else { None };
            reported.unwrap_or_else(|| DialRefused {
                trouble: if ended { AfterRefusal::Later } else { AfterRefusal::Fatal },
                ..refused(&error.to_string())
            })
        })
    }

    fn add(self: &Arc<Self>, conn: Conn, answers: Answers) -> Result<(), DialRefused> {
        let conn = Arc::new(conn);
        let mut state = self.state.lock();
        if state.closed {
            let error = Error::new(ErrorKind::Cancelled, Side::Wire, "connect to", "the run has ended");
            return Err(DialRefused { trouble: AfterRefusal::Fatal, error: error.on(self.name()) });
        }
        state.conns.push(conn.clone());
        state.readers += 1;
        drop(state);
        self.changed.notify_all();
        let (pool, reading) = (self.clone(), conn.clone());
        let spawned = thread::Builder::new().name("haul-sftp-read".to_owned()).spawn(move || {
            let error = reading.listen(answers);
            pool.remove(&reading, error);
            reading.collect(COLLECT);
            pool.state.lock().readers -= 1;
            pool.changed.notify_all();
        });
        if let Err(error) = spawned {
            self.remove(&conn, conn.lose(lost(&self.name(), &error.to_string())));
            self.state.lock().readers -= 1;
            let error = Error::io(Side::Local, "start a thread", &error);
            return Err(DialRefused { trouble: AfterRefusal::Later, error });
        }
        Ok(())
    }

    fn remove(&self, gone: &Arc<Conn>, error: Error) {
        let mut state = self.state.lock();
        state.conns.retain(|conn| !Arc::ptr_eq(conn, gone));
        state.last = Some(error);
        drop(state);
        self.changed.notify_all();
    }

    /// Watches the connections until the end.
    fn keep(self: Arc<Self>) {
        let mut restarts = Restarts::default();
        let mut last = Instant::now();
        loop {
            let mut state = self.state.lock();
            if state.closed || state.fatal.is_some() {
                return;
            }
            let up = u32::try_from(state.conns.len()).unwrap_or(u32::MAX);
            let idle = up > 0 && self.room(&state, up) == 0;
            if idle {
                state = self.changed.wait_timeout(state, TICK).0;
            }
            let conns = state.conns.clone();
            let up = u32::try_from(conns.len()).unwrap_or(u32::MAX);
            let room = self.room(&state, up);
            state.dialing += room;
            drop(state);
            let held_up = was_held_up(last.elapsed(), self.timeout);
            last = Instant::now();
            for conn in &conns {
                if held_up {
                    conn.heard();
                } else if let Some(why) = silence(conn.silent_for(), self.timeout) {
                    conn.lose(lost(&self.name(), &why));
                }
            }
            for _ in 0..room {
                self.spawn_dial();
            }
            if conns.is_empty() {
                self.recover(&mut restarts);
            }
        }
    }

    /// How many connections to open now.
    fn room(&self, state: &ConnPoolState, up: u32) -> u32 {
        if !state.wanted || !state.growth.is_allowed() || state.growth.is_waiting(Instant::now()) || up == 0 {
            return 0;
        }
        let round_trip = state.conns.first().map(|conn| conn.server.round_trip).unwrap_or_default();
        let wanted = if self.streams == 0 { connections_for(round_trip) } else { self.streams };
        state.growth.dials(wanted, up, state.dialing, DIALS_AT_ONCE)
    }

    /// Opens one more connection on a thread of its own. The caller has counted it.
    fn spawn_dial(self: &Arc<Self>) {
        let pool = self.clone();
        let spawned = thread::Builder::new().name("haul-dial".to_owned()).spawn(move || {
            let dialed = pool.dial(DialPurpose::Further);
            pool.learn(dialed.err());
        });
        if spawned.is_err() {
            let mut state = self.state.lock();
            state.dialing -= 1;
            state.growth.forbid();
        }
    }

    /// Learns from an attempt that has ended.
    fn learn(&self, refused: Option<DialRefused>) {
        let name = self.name();
        let mut state = self.state.lock();
        state.dialing -= 1;
        let said = match refused {
            None => {
                state.growth.opened();
                None
            }
            Some(refused) => {
                state.growth.refused(&refused, &name, || self.dialer.fall_back(), Instant::now())
            }
        };
        let said = said.filter(|_| !state.closed);
        drop(state);
        self.changed.notify_all();
        if let Some(said) = said {
            self.note(&said);
        }
    }

    /// All connections are lost: logs in again.
    fn recover(self: &Arc<Self>, restarts: &mut Restarts) {
        let before = self.state.lock().last.clone();
        let refused =
            match restarts.run(Instant::now(), |time| self.pause(time), || self.dial(DialPurpose::Again)) {
                Restart::Up | Restart::Closed => return,
                Restart::Failed(refused) => refused,
            };
        let lost = || {
            let cause = "the connection was lost";
            Error::new(ErrorKind::Unreachable, Side::Wire, "reach", cause).on(self.name())
        };
        let error = refused.map(|refused| refused.error).or(before).unwrap_or_else(lost);
        self.state.lock().fatal = Some(error.with_retry(Retry::Never));
        self.changed.notify_all();
    }

    /// Waits; `true` if the pool was closed meanwhile.
    fn pause(&self, time: Duration) -> bool {
        let state = self.state.lock();
        let open = |state: &mut ConnPoolState| !state.closed;
        let (state, _) = self.changed.wait_timeout_while(state, time, open);
        state.closed
    }
}
