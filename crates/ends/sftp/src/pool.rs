//! The connections to one server: opened as work comes, replaced when they die.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::{Duration, Instant};

use haul_core::{Error, ErrorKind, Ops, Result, Retry, Side};

use super::conn::{Answers, Conn, Server};
use super::pipe::Life;
use haul_ssh::Note;
use haul_ssh::dial::{Dial, LOGIN, Refused, Trouble, Way, watched};
use haul_ssh::{Pipes, SshDialer};

/// How often connections are looked at.
const TICK: Duration = Duration::from_secs(1);
/// If this process itself was held up for longer, silence says nothing about the others.
const HELD_UP: Duration = Duration::from_secs(4);
/// Logins under way at once. sshd begins to refuse at 10 that are not logged in yet (MaxStartups).
const DIALS_AT_ONCE: u32 = 8;
/// How often a run logs in again after all connections were lost.
const RESTARTS: usize = 3;
/// A restart counts no more after this time.
const RESTARTS_WITHIN: Duration = Duration::from_secs(120);
/// Over such a distance further connections are opened at once: logging in takes longer than most of what is asked.
const REMOTE: Duration = Duration::from_millis(20);
/// How long a process may take to end once its connection has.
const COLLECT: Duration = Duration::from_millis(500);

/// The connections to one server.
pub(super) struct Pool {
    dialer: SshDialer,
    note: Note,
    timeout: Duration,
    /// Connections asked for; 0 lets the round trip decide.
    streams: u32,
    /// What lets requests through.
    ops: Arc<Ops>,
    /// Bytes of listings that nobody has looked at yet, beyond what was expected.
    held: Arc<AtomicU64>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    conns: Vec<Arc<Conn>>,
    dialing: u32,
    /// There is work for more than one.
    wanted: bool,
    may_grow: bool,
    not_before: Option<Instant>,
    backoff: Duration,
    told: bool,
    closed: bool,
    /// Why there will be no connection any more.
    fatal: Option<Error>,
    /// Why the last connection was lost.
    last: Option<Error>,
    /// Threads that read and have not ended.
    readers: u32,
}

impl Pool {
    /// Opens the first connection; ssh may ask for a password here.
    pub(super) fn open(
        dialer: SshDialer,
        note: Note,
        timeout: Duration,
        streams: u32,
        ops: Arc<Ops>,
    ) -> Result<Arc<Self>> {
        let state = State { may_grow: true, backoff: TICK, ..State::default() };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let pool =
            Arc::new(Self { dialer, note, timeout, streams, ops, held: Arc::default(), state, changed });
        pool.dial(Way::First).map_err(|refused| refused.error)?;
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The remote end's name, for people.
    pub(super) fn name(&self) -> String {
        self.dialer.name()
    }

    /// Says something to the person.
    pub(super) fn note(&self, text: &str) {
        (self.note)(text);
    }

    /// Connections that are up.
    pub(super) fn streams(&self) -> u32 {
        u32::try_from(self.lock().conns.len()).unwrap_or(u32::MAX)
    }

    /// There is work for several connections.
    pub(super) fn want(&self) {
        let mut state = self.lock();
        if !std::mem::replace(&mut state.wanted, true) {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The connection that has least to do; waits while there is none and one may come.
    pub(super) fn pick(&self) -> Result<Arc<Conn>> {
        let mut state = self.lock();
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

    /// What the server can do.
    pub(super) fn server(&self) -> Result<Server> {
        Ok(self.pick()?.server.clone())
    }

    /// Does `work` on one connection, and again on another one if that was lost.
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
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.conns)
        };
        self.changed.notify_all();
        self.dialer.stop();
        conns.iter().for_each(|conn| conn.close());
        let begun = Instant::now();
        let mut state = self.lock();
        while (state.readers > 0 || state.dialing > 0) && begun.elapsed() < Duration::from_secs(5) {
            state = self.changed.wait_timeout(state, TICK).0;
        }
        drop(state);
        self.dialer.clean();
    }

    /// Opens one connection.
    fn dial(self: &Arc<Self>, way: Way) -> Result<(), Refused> {
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

    /// Greets. Nobody may take longer than the timeout, except to log in for the first time: then a person may be asked
    /// for something, and where nobody is, sshd itself bounds it.
    fn greet(&self, pipes: Pipes, way: Way) -> Result<(Conn, Answers), Refused> {
        let helper = pipes.helper.clone();
        let life = Life::new();
        let (begun, watching, looked) = (Instant::now(), life.clone(), helper.clone());
        let look = move || {
            let given_up = match way {
                Way::First if watching.was_heard() => watching.silent_for() > self.timeout,
                Way::First => {
                    if looked.is_asking() {
                        watching.heard();
                    }
                    watching.silent_for() > self.timeout * LOGIN
                }
                Way::Again | Way::Further => begun.elapsed() > self.timeout,
            };
            if given_up {
                watching.end();
            }
            !given_up
        };
        let greet = || Conn::greet(pipes, &self.name(), life.clone(), self.ops.clone(), self.held.clone());
        let greeted =
            watched(look, greet).unwrap_or_else(|error| Err(std::io::Error::other(error.to_string())));
        greeted.map_err(|error| {
            let refused = |why: &str| Refused {
                trouble: Trouble::Later,
                error: Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", why).on(self.name()),
            };
            if life.is_ended() {
                return refused("it did not answer in time");
            }
            let ended = error.kind() != std::io::ErrorKind::InvalidData;
            let told = if ended { helper.explain() } else { None };
            told.unwrap_or_else(|| Refused {
                trouble: if ended { Trouble::Later } else { Trouble::Fatal },
                ..refused(&error.to_string())
            })
        })
    }

    fn add(self: &Arc<Self>, conn: Conn, answers: Answers) -> Result<(), Refused> {
        let conn = Arc::new(conn);
        let mut state = self.lock();
        if state.closed {
            let error = Error::new(ErrorKind::Cancelled, Side::Wire, "connect to", "the run has ended");
            return Err(Refused { trouble: Trouble::Fatal, error: error.on(self.name()) });
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
            pool.lock().readers -= 1;
            pool.changed.notify_all();
        });
        if let Err(error) = spawned {
            self.remove(&conn, conn.lose(super::conn::lost(&self.name(), &error.to_string())));
            self.lock().readers -= 1;
            let error = Error::io(Side::Local, "start a thread", &error);
            return Err(Refused { trouble: Trouble::Later, error });
        }
        Ok(())
    }

    fn remove(&self, gone: &Arc<Conn>, error: Error) {
        let mut state = self.lock();
        state.conns.retain(|conn| !Arc::ptr_eq(conn, gone));
        state.last = Some(error);
        drop(state);
        self.changed.notify_all();
    }

    /// Watches the connections until the end.
    fn keep(self: Arc<Self>) {
        let mut restarted: Vec<Instant> = Vec::new();
        let mut last = Instant::now();
        loop {
            let mut state = self.lock();
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
            let held_up = last.elapsed() > HELD_UP;
            last = Instant::now();
            for conn in &conns {
                if held_up {
                    conn.heard();
                } else if conn.silent_for() > self.timeout {
                    let why = format!("no sign of life for {} seconds", conn.silent_for().as_secs());
                    conn.lose(super::conn::lost(&self.name(), &why));
                }
            }
            for _ in 0..room {
                self.spawn_dial();
            }
            if conns.is_empty() {
                self.recover(&mut restarted);
            }
        }
    }

    /// How many connections are to be dialled now.
    fn room(&self, state: &State, up: u32) -> u32 {
        let wait = state.not_before.is_some_and(|at| Instant::now() < at);
        if !state.wanted || !state.may_grow || wait || up == 0 {
            return 0;
        }
        let round_trip = state.conns.first().map(|conn| conn.server.round_trip);
        let wanted = if self.streams == 0 { automatic(round_trip.unwrap_or_default()) } else { self.streams };
        // After a refusal they are tried one by one.
        let at_once = if state.backoff > TICK { 1 } else { DIALS_AT_ONCE };
        at_once.saturating_sub(state.dialing).min(wanted.saturating_sub(up + state.dialing))
    }

    /// Dials one more in the background; it was counted already.
    fn spawn_dial(self: &Arc<Self>) {
        let pool = self.clone();
        let spawned = thread::Builder::new().name("haul-dial".to_owned()).spawn(move || {
            let dialed = pool.dial(Way::Further);
            pool.learn(dialed.err());
        });
        if spawned.is_err() {
            let mut state = self.lock();
            state.dialing -= 1;
            state.may_grow = false;
        }
    }

    /// Learns from an attempt that has ended.
    fn learn(&self, refused: Option<Refused>) {
        let mut state = self.lock();
        state.dialing -= 1;
        let mut tell = None;
        match refused {
            None => state.backoff = TICK,
            Some(refused) => match refused.trouble {
                Trouble::Later => {
                    state.backoff = (state.backoff * 2).min(Duration::from_secs(60));
                    state.not_before = Some(Instant::now() + state.backoff);
                }
                Trouble::Login if self.dialer.fall_back() => {
                    tell = Some(("goes on through the first connection", refused.error));
                }
                Trouble::Login | Trouble::Fatal => {
                    state.may_grow = false;
                    tell = Some(("goes on with those that it has", refused.error));
                }
            },
        }
        let tell = tell.filter(|_| !state.closed && !std::mem::replace(&mut state.told, true));
        drop(state);
        self.changed.notify_all();
        if let Some((what, error)) = tell {
            let name = self.name();
            let cause = error.cause().to_owned();
            self.note(&format!("no further connection to {name} could be opened, haul {what} ({cause})"));
        }
    }

    /// All connections are gone: logs in again, as nobody can be asked for a password by now.
    fn recover(self: &Arc<Self>, restarted: &mut Vec<Instant>) {
        restarted.retain(|at| at.elapsed() < RESTARTS_WITHIN);
        let mut error = self.lock().last.clone();
        if restarted.len() < RESTARTS {
            restarted.push(Instant::now());
            for wait in [0, 1, 3] {
                if self.pause(Duration::from_secs(wait)) {
                    return;
                }
                match self.dial(Way::Again) {
                    Ok(()) => return,
                    Err(refused) => {
                        let fatal = refused.trouble != Trouble::Later;
                        error = Some(refused.error);
                        if fatal {
                            break;
                        }
                    }
                }
            }
        }
        let lost = || Error::new(ErrorKind::Unreachable, Side::Wire, "reach", "the connection was lost");
        let error = error.unwrap_or_else(|| lost().on(self.name())).with_retry(Retry::Never);
        self.lock().fatal = Some(error);
        self.changed.notify_all();
    }

    /// Waits; `true` if the pool was closed meanwhile.
    fn pause(&self, time: Duration) -> bool {
        let state = self.lock();
        let open = |state: &mut State| !state.closed;
        let (state, _) = self.changed.wait_timeout_while(state, time, open);
        state.closed
    }
}

/// A channel of OpenSSH has a window of 2 MiB: one connection carries at most that in a round trip.
fn automatic(round_trip: Duration) -> u32 {
    u32::try_from(4 + round_trip.as_millis() / 5).unwrap_or(u32::MAX).clamp(4, 16)
}
