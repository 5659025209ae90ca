//! The thread that keeps a session's connections alive, and opens more.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use haul_core::{Error, ErrorKind, Result};
use haul_wire::Hello;

use super::admit::{open, open_direct};
use super::connection::Connection;
use super::direct::Finder;
use super::hint::Hint;
use super::session::{Direct, Session, State, lost};
use super::straggler::Stragglers;
use super::tuner::{self, Tuner};
use haul_ssh::dial::{Dial, Refused, Trouble, Way};

/// How often connections are looked at when only what they have is to be done.
const END_TICK: Duration = Duration::from_millis(100);
/// How often heartbeats are sent and connections looked at.
const TICK: Duration = Duration::from_secs(1);
/// A connection is given up after so long without a sign of life if others go on: what was on it goes elsewhere.
const STALLED: Duration = Duration::from_secs(6);
/// The same for one that takes nothing of what is written to it. A limit may hold up each for some seconds.
const STUCK: Duration = Duration::from_secs(18);
/// A connection that showed signs of life within this time goes on.
const LIVELY: Duration = Duration::from_secs(2);
/// If this process itself was held up for longer, silence says nothing about the others.
const HELD_UP: Duration = Duration::from_secs(4);
/// Attempts to open connections through ssh at once. sshd begins to refuse at 10 that are not logged in yet (MaxStartups).
const DIALS_AT_ONCE: u32 = 8;
/// Direct attempts at once.
const DIRECT_AT_ONCE: u32 = 16;
/// How often a direct connection may be refused while there is none before content goes through ssh for good.
const DIRECT_TRIES: u32 = 3;
/// How often the remote end is started again before the run gives up.
const RESTARTS: u32 = 3;
/// A restart counts no more after this time.
const RESTARTS_WITHIN: Duration = Duration::from_secs(120);

/// What a supervisor knows.
pub(super) struct Supervisor {
    session: Arc<Session>,
    hello: Hello,
    /// Looks for a way around ssh, if that is wanted.
    finder: Option<Finder>,
    /// Connections asked for; 0 lets haul find out how many help.
    streams: u32,
    tuner: Option<Tuner>,
    hint: Option<Hint>,
    stragglers: Stragglers,
    begun: Instant,
    /// Bytes that had been moved at the tuner's last tick, and when that was.
    tuned: (u64, Instant),
    /// Until when no further connection is tried.
    not_before: Instant,
    backoff: Duration,
    /// Whether further connections through ssh may be tried at all.
    may_grow: bool,
    /// Direct connections that were refused since one was opened.
    direct_refused: u32,
    told: bool,
    restarted: Vec<Instant>,
    outcomes: crossbeam_channel::Receiver<Outcome>,
    tell: crossbeam_channel::Sender<Outcome>,
}

/// How many direct connections to begin with.
fn first(hint: Option<&Hint>, round_trip: Option<Duration>) -> u32 {
    let known = hint.and_then(|hint| hint.load(round_trip));
    known.map_or_else(|| tuner::first(round_trip), |known| known.clamp(1, tuner::MOST))
}

/// What became of an attempt to open a connection.
struct Outcome {
    direct: bool,
    refused: Option<Refused>,
}

impl Supervisor {
    pub(super) fn new(
        session: Arc<Session>,
        hello: Hello,
        streams: u32,
        finder: Option<Finder>,
        hint: Option<Hint>,
    ) -> Self {
        let (tell, outcomes) = crossbeam_channel::unbounded();
        Self {
            session,
            hello,
            finder,
            streams,
            tuner: None,
            hint,
            stragglers: Stragglers::default(),
            begun: Instant::now(),
            tuned: (0, Instant::now()),
            not_before: Instant::now(),
            backoff: TICK,
            may_grow: true,
            direct_refused: 0,
            told: false,
            restarted: Vec::new(),
            outcomes,
            tell,
        }
    }

    /// Opens the first connection.
    pub(super) fn first(&mut self) -> Result<()> {
        open(&self.session, Way::First, &self.hello).map_err(|refused| refused.error)?;
        self.find_direct();
        Ok(())
    }

    /// Keeps the connections until the session is closed.
    pub(super) fn run(mut self) {
        let mut last = Instant::now();
        loop {
            let (connections, wants, gone) = {
                let state = self.session.lock();
                let idle = |state: &mut State| !state.closed && !state.urgent;
                let next = TICK.saturating_sub(last.elapsed());
                let next = next.min(tuner::TICK.saturating_sub(self.tuned.1.elapsed()));
                let next = if state.is_ending() { next.min(END_TICK) } else { next };
                let (mut state, _) = self.session.supervisor.wait_timeout_while(state, next, idle);
                if state.closed {
                    return;
                }
                state.urgent = false;
                let connections = state.connections();
                let gone = connections.is_empty() && state.fatal.is_none();
                (connections, state.wants_connections, gone)
            };
            let elapsed = last.elapsed();
            if elapsed >= TICK {
                last = Instant::now();
                self.look_after(&connections, elapsed);
            }
            self.hear_outcomes();
            self.tune();
            let ending = self.hurry();
            if gone {
                self.recover();
            } else if wants && !ending {
                self.grow();
            }
        }
    }

    fn look_after(&self, connections: &[Arc<Connection>], elapsed: Duration) {
        let is_lively = |connection: &&Arc<Connection>| connection.liveness.silent_for() < LIVELY;
        let lively = connections.iter().filter(is_lively).count();
        for connection in connections {
            if elapsed > HELD_UP {
                connection.liveness.heard();
            }
            connection.heartbeat();
            let silent = connection.liveness.silent_for();
            // A remote end that is held up is silent on all.
            let limit = if lively > 0 { STALLED.min(self.session.timeout) } else { self.session.timeout };
            let hung = if lively > 1 { connection.stuck_for() } else { Duration::ZERO };
            if silent > limit {
                let why = format!("no sign of life for {} seconds", silent.as_secs());
                self.session.lose(connection.number, lost(&why));
            } else if hung > STUCK {
                let why = format!("it has taken nothing for {} seconds", hung.as_secs());
                self.session.lose(connection.number, lost(&why));
            }
        }
    }

    /// Looks for a way around ssh, on a thread of its own.
    fn find_direct(&self) {
        let Some(finder) = self.finder.clone() else { return };
        self.session.lock().direct = Direct::Trying;
        let session = self.session.clone();
        let spawned = thread::Builder::new().name("haul-direct".to_owned()).spawn(move || {
            let answer = session.lock().answer.clone();
            let found = match answer {
                Some(answer) => finder.find(&session, &answer),
                None => Err("the far haul has no key".to_owned()),
            };
            session.found(found);
        });
        if let Err(error) = spawned {
            self.session.found(Err(error.to_string()));
        }
    }

    /// At the end, gives up a connection that would take far longer than others that are free. Whether it is the end.
    fn hurry(&mut self) -> bool {
        let (connections, ending, round_trip) = {
            let state = self.session.lock();
            (state.seen(), state.is_ending(), state.round_trip.unwrap_or_default())
        };
        self.stragglers.watch(self.begun.elapsed().as_secs_f64(), &connections);
        if ending && let Some(slow) = self.stragglers.find(&connections, round_trip.as_secs_f64()) {
            self.session.lose(slow, lost("the others have nothing to do, and it is far slower"));
        }
        ending
    }

    /// Lets the tuner see what was moved.
    fn tune(&mut self) {
        if self.tuned.1.elapsed() < tuner::TICK {
            return;
        }
        let mut state = self.session.lock();
        let moved = state.moved - self.tuned.0;
        self.tuned = (state.moved, Instant::now());
        let waited = std::mem::take(&mut state.waited);
        if self.streams > 0 || state.count(true) == 0 {
            return;
        }
        let held = state.tcp().is_some_and(|tcp| tcp.held_by.is_some());
        let first = || Tuner::new(first(self.hint.as_ref(), state.round_trip), state.is_remote());
        let tuner = self.tuner.get_or_insert_with(first);
        tuner.tick(moved, state.count(true).min(tuner.active()), waited, held);
        state.active = tuner.active();
        let round_trip = state.round_trip;
        drop(state);
        if let (Some(found), Some(hint)) = (tuner.found(), &self.hint) {
            hint.save(found, round_trip);
        }
    }

    /// Opens further connections as far as it is wanted.
    fn grow(&mut self) {
        let (direct, up, dialing, round_trip) = {
            let state = self.session.lock();
            let around = matches!(state.direct, Direct::On(_));
            (state.direct.clone(), state.count(around), state.dialing, state.round_trip)
        };
        if Instant::now() < self.not_before {
            return;
        }
        let (dialer, wanted, at_once) = match direct {
            Direct::Trying => return,
            Direct::On(dialer) => {
                let first = || first(self.hint.as_ref(), round_trip);
                let tuned = self.tuner.as_ref().map_or_else(first, Tuner::active);
                (Some(dialer), tuned, DIRECT_AT_ONCE)
            }
            Direct::Off if self.may_grow => (None, through_ssh(round_trip), DIALS_AT_ONCE),
            Direct::Off => return,
        };
        let wanted = if self.streams > 0 { self.streams } else { wanted.min(self.session.pace.streams()) };
        // After a refusal they are tried one by one.
        let at_once = if self.backoff > TICK { 1 } else { at_once };
        let room = at_once.saturating_sub(dialing).min(wanted.saturating_sub(up + dialing));
        for _ in 0..room {
            self.dial(dialer.clone());
        }
    }

    /// Opens one more connection, on a thread of its own.
    fn dial(&mut self, dialer: Option<Arc<dyn Dial>>) {
        let session = self.session.clone();
        let hello = self.hello(false);
        let tell = self.tell.clone();
        session.lock().dialing += 1;
        let spawned = thread::Builder::new().name("haul-dial".to_owned()).spawn(move || {
            let direct = dialer.is_some();
            let opened = match dialer {
                Some(dialer) => open_direct(&session, &*dialer, Way::Further, &hello),
                None => open(&session, Way::Further, &hello),
            };
            let refused = opened.err();
            let _ = tell.send(Outcome { direct, refused });
            session.dialed();
        });
        if spawned.is_err() {
            self.session.dialed();
            self.may_grow = false;
        }
    }

    fn hello(&self, fresh: bool) -> Hello {
        Hello { session: self.session.lock().session, fresh, ..self.hello.clone() }
    }

    /// Learns from the attempts that have ended.
    fn hear_outcomes(&mut self) {
        while let Ok(Outcome { direct, refused }) = self.outcomes.try_recv() {
            let Some(refused) = refused else {
                self.backoff = TICK;
                if direct {
                    self.direct_refused = 0;
                }
                continue;
            };
            match refused.trouble {
                _ if direct => self.direct_failed(&refused.error),
                Trouble::Login if self.session.dialer.fall_back() => {
                    self.tell_once("goes on through the first connection", &refused.error);
                }
                Trouble::Login | Trouble::Fatal => {
                    if self.may_grow {
                        self.tell_once("goes on with those that it has", &refused.error);
                    }
                    self.may_grow = false;
                }
                Trouble::Later => self.wait_longer(),
            }
        }
    }

    fn wait_longer(&mut self) {
        self.backoff = (self.backoff * 2).min(Duration::from_secs(60));
        self.not_before = Instant::now() + self.backoff;
    }

    /// A direct connection was refused: those that are there go on; without any, content goes through ssh after a few tries.
    fn direct_failed(&mut self, error: &Error) {
        if self.session.lock().count(true) > 0 {
            return self.wait_longer();
        }
        self.direct_refused += 1;
        if self.direct_refused < DIRECT_TRIES {
            self.not_before = Instant::now() + TICK;
        } else {
            self.direct_refused = 0;
            self.session.found(Err(error.cause().to_owned()));
        }
    }

    fn tell_once(&mut self, what: &str, error: &Error) {
        if !std::mem::replace(&mut self.told, true) {
            let name = self.session.dialer.name();
            (self.session.note)(&format!(
                "no further connection to {name} could be opened, haul {what} ({})",
                error.cause()
            ));
        }
    }

    /// The last connection is gone: logs in again, as nobody can be asked for a password by now.
    fn recover(&mut self) {
        self.restarted.retain(|at| at.elapsed() < RESTARTS_WITHIN);
        let last = self.session.lock().last_lost.clone();
        let mut error = last.unwrap_or_else(|| self.session.unreachable("the connection was lost"));
        if self.restarted.len() < RESTARTS as usize {
            self.restarted.push(Instant::now());
            for wait in [0, 1, 3] {
                if self.pause(Duration::from_secs(wait)) {
                    return;
                }
                let hello = self.hello(true);
                match open(&self.session, Way::Again, &hello) {
                    Ok(()) => {
                        self.may_grow = true;
                        self.find_direct();
                        return;
                    }
                    Err(refused) => {
                        error = self.session.unreachable(refused.error.cause());
                        if refused.trouble != Trouble::Later {
                            break;
                        }
                    }
                }
            }
        }
        self.session.fail(error);
    }

    /// Waits; `true` if the session was closed meanwhile.
    fn pause(&self, time: Duration) -> bool {
        let state = self.session.lock();
        let open = |state: &mut State| !state.closed;
        let (state, _) = self.session.supervisor.wait_timeout_while(state, time, open);
        state.closed
    }
}

impl Session {
    /// A way around ssh was found, or there is none.
    fn found(&self, found: std::result::Result<(Arc<dyn Dial>, String), String>) {
        let name = self.dialer.name();
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let said = match found {
            Ok((dialer, how)) => {
                state.direct = Direct::On(dialer);
                // Over a distance connections are better opened before there is content for them: they take several
                // round trips, and begin slowly.
                state.wants_connections |= state.is_remote();
                format!("content goes around ssh, over TLS connections {how}")
            }
            Err(why) => {
                state.direct = Direct::Off;
                if !self.content_through_ssh {
                    drop(state);
                    let error = Error::new(ErrorKind::Unreachable, haul_core::Side::Wire, "connect to", why);
                    let hint = "open a port between the two (`--ports`), or leave `--transport tls` out";
                    return self.fail(error.on(name).with_hint(hint));
                }
                format!("content goes to {name} through ssh, as there is no direct way ({why})")
            }
        };
        state.urgent = true;
        drop(state);
        self.supervisor.notify_all();
        (self.note)(&said);
    }
}

/// A channel of OpenSSH has a window of 2 MiB: one connection carries at most that in a round trip.
fn through_ssh(round_trip: Option<Duration>) -> u32 {
    let ms = round_trip.map_or(0, |time| time.as_millis());
    u32::try_from(4 + ms / 5).unwrap_or(u32::MAX).clamp(4, 16)
}
