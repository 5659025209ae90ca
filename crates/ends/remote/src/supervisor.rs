//! The thread that watches the connections of a session and opens further ones.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use haul_codec::Packer;
use haul_core::{Error, HeldBy, Result};
use haul_wire::{Hello, Request};

use super::admit::{open, open_direct};
use super::carried::{CarriedRate, RateLimit, are_busy};
use super::connection::Connection;
use super::direct::Finder;
use super::hint::{Hint, KnownLink};
use super::session::{ContentProgress, Dialing, Session};
use super::state::DirectState;
use super::straggler::Stragglers;
use super::tuner::{self, Tuner};
use haul_ssh::dial::{Dial, DialPurpose, DialRefused};
use haul_ssh::supervisor::{
    ConnectionGrowth, DIALS_AT_ONCE, Restart, Restarts, TICK, connections_for, silence, was_held_up,
};

/// How often to check connections at the end of a run.
const END_TICK: Duration = Duration::from_millis(100);
/// A connection is closed after this long without a sign of life, if others are alive.
const STALLED: Duration = Duration::from_secs(6);
/// A connection is closed if it accepts no byte for this long. A rate limit may stop each for some seconds.
const STUCK: Duration = Duration::from_secs(18);
/// A connection with a sign of life within this time is alive.
const RESPONSIVE: Duration = Duration::from_secs(2);
/// Attempts to open direct connections at once.
const DIRECT_AT_ONCE: u32 = 16;
/// How often a direct connection may be refused, while none is up, before content goes through ssh for good.
const DIRECT_TRIES: u32 = 3;

/// The state of the supervisor.
pub(super) struct SessionSupervisor {
    session: Arc<Session>,
    hello: Hello,
    /// Finds a direct connection, if that is wanted.
    finder: Option<Finder>,
    /// Connections that were asked for; 0 lets the tuner decide.
    streams: u32,
    tuner: Option<Tuner>,
    hint: Option<Hint>,
    /// The facts of earlier runs, and the round trip for which they were looked up.
    known: KnownLink,
    known_for: Option<Duration>,
    /// The rates at which the connections carried content to the remote end, and from it.
    sent_rate: CarriedRate,
    received_rate: CarriedRate,
    packer: Arc<Packer>,
    stragglers: Stragglers,
    begun: Instant,
    /// Bytes moved up to the tuner's last tick, and the time of that tick.
    tuned: (u64, Instant),
    /// Bytes sent up to then, and bytes that the direct connections had moved.
    sent: u64,
    carried: u64,
    /// The time in which the connections had something to send, and the compressed batches, at the last tick.
    sending: Duration,
    packed: u64,
    growth: ConnectionGrowth,
    /// Direct connections that were refused since one was opened.
    direct_refused: u32,
    restarts: Restarts,
    outcomes: crossbeam_channel::Receiver<DialOutcome>,
    tell: crossbeam_channel::Sender<DialOutcome>,
}

/// The result of an attempt to open a connection.
struct DialOutcome {
    direct: bool,
    refused: Option<DialRefused>,
}

impl SessionSupervisor {
    pub(super) fn new(
        session: Arc<Session>,
        hello: Hello,
        streams: u32,
        finder: Option<Finder>,
        hint: Option<Hint>,
        packer: Arc<Packer>,
    ) -> Self {
        let (tell, outcomes) = crossbeam_channel::unbounded();
        Self {
            session,
            hello,
            finder,
            streams,
            tuner: None,
            hint,
            known: KnownLink::default(),
            known_for: None,
            sent_rate: CarriedRate::default(),
            received_rate: CarriedRate::default(),
            packer,
            stragglers: Stragglers::default(),
            begun: Instant::now(),
            tuned: (0, Instant::now()),
            sent: 0,
            carried: 0,
            sending: Duration::ZERO,
            packed: 0,
            growth: ConnectionGrowth::default(),
            direct_refused: 0,
            restarts: Restarts::default(),
            outcomes,
            tell,
        }
    }

    /// Opens the first connection.
    pub(super) fn first(&mut self) -> Result<()> {
        open(&self.session, DialPurpose::First, &self.hello).map_err(|refused| refused.error)?;
        self.find_direct();
        Ok(())
    }

    /// Runs until the session is closed.
    pub(super) fn run(mut self) {
        let mut last = Instant::now();
        loop {
            let tick = TICK.saturating_sub(last.elapsed());
            let tick = tick.min(tuner::TICK.saturating_sub(self.tuned.1.elapsed()));
            let Some(wakeup) = self.session.next_wakeup(tick, END_TICK) else { return };
            let elapsed = last.elapsed();
            if elapsed >= TICK {
                last = Instant::now();
                self.look_after(&wakeup.connections, elapsed);
            }
            self.hear_outcomes();
            let round_trip = self.session.dialing().round_trip;
            self.look_up(round_trip);
            self.tune();
            let ending = self.hurry();
            if wakeup.is_cut_off {
                self.recover();
            } else if wakeup.wants_connections && !ending {
                self.grow();
            }
        }
    }

    fn look_after(&self, connections: &[Arc<Connection>], elapsed: Duration) {
        let is_responsive = |connection: &&Arc<Connection>| connection.liveness.silent_for() < RESPONSIVE;
        let responsive = connections.iter().filter(is_responsive).count();
        for connection in connections {
            if was_held_up(elapsed, self.session.timeout) {
                connection.liveness.heard();
            }
            connection.heartbeat();
            // A remote process that does not run is silent on all connections.
            let limit = if responsive > 0 { STALLED.min(self.session.timeout) } else { self.session.timeout };
            let hung = if responsive > 1 { connection.stuck_for() } else { Duration::ZERO };
            if let Some(why) = silence(connection.liveness.silent_for(), limit) {
                self.session.lose(connection.number, Connection::lost(&why));
            } else if hung > STUCK {
                let why = format!("it has taken nothing for {} seconds", hung.as_secs());
                self.session.lose(connection.number, Connection::lost(&why));
            }
        }
    }

    /// Looks for a direct connection on a thread of its own.
    fn find_direct(&self) {
        let Some(finder) = self.finder.clone() else { return };
        self.session.looks_for_direct();
        let session = self.session.clone();
        let spawned = thread::Builder::new().name("haul-direct".to_owned()).spawn(move || {
            let found = match session.answer() {
                Some(answer) => finder.find(&session, &answer),
                None => Err(vec![format!("{} has no key", session.dialer.name())]),
            };
            session.found(found);
        });
        if let Err(error) = spawned {
            self.session.found(Err(vec![error.to_string()]));
        }
    }

    /// At the end of a run, closes a connection that would take far longer than idle ones. Returns whether it is the
    /// end.
    fn hurry(&mut self) -> bool {
        let (connections, ending, round_trip) = self.session.seen();
        self.stragglers.watch(self.begun.elapsed().as_secs_f64(), &connections);
        if ending && let Some(slow) = self.stragglers.find(&connections, round_trip.as_secs_f64()) {
            self.session.lose(slow, Connection::lost("the others have nothing to do, and it is far slower"));
        }
        ending
    }

    /// Reports progress to the tuner.
    fn tune(&mut self) {
        if self.tuned.1.elapsed() < tuner::TICK {
            return;
        }
        let progress = self.session.progress();
        let ContentProgress { direct, round_trip, is_remote, .. } = progress;
        let (moved, elapsed) = (progress.moved - self.tuned.0, self.tuned.1.elapsed());
        self.tuned = (progress.moved, Instant::now());
        let sent = progress.sent - std::mem::replace(&mut self.sent, progress.sent);
        let packed = self.packer.compressed();
        let compressed = packed != std::mem::replace(&mut self.packed, packed);
        // A limit of this run says nothing about the link, and neither does a receiver that is slower.
        if direct > 0 && self.session.pace.outbound.rate().is_none() {
            let is_receiver = progress.tcp.is_some_and(|tcp| tcp.held_by == Some(HeldBy::Window));
            let rate = self.known.sent.map(|rate| rate as f64);
            let sending = self.session.link_time().map_or(Duration::ZERO, |time| time.busy);
            let sending = sending.saturating_sub(std::mem::replace(&mut self.sending, sending));
            let active = self.tuner.as_ref().map_or(direct, |tuner| direct.min(tuner.active()));
            let waited = progress.waited && !is_receiver && are_busy(sending, elapsed, active);
            let limit = RateLimit::of(waited, compressed);
            if let Some(rate) = self.sent_rate.tick(sent, elapsed.as_secs_f64(), limit, rate) {
                self.learn(KnownLink { sent: Some(rate as u64), ..self.known }, round_trip);
            }
        }
        // Content counts when all of a slice has arrived, so the bytes of a tick are those of the connections.
        let carried = progress.carried.saturating_sub(std::mem::replace(&mut self.carried, progress.carried));
        if direct > 0 && progress.sent == 0 && self.session.pace.inbound.rate().is_none() {
            let rate = self.known.received.map(|rate| rate as f64);
            // If this end is the slower one, a lower rate says nothing about the link.
            let limit = RateLimit::of(progress.waited && progress.all_wait, compressed);
            if let Some(rate) = self.received_rate.tick(carried, elapsed.as_secs_f64(), limit, rate) {
                self.learn(KnownLink { received: Some(rate as u64), ..self.known }, round_trip);
            }
        }
        if self.streams > 0 || direct == 0 {
            return;
        }
        let held = progress.tcp.is_some_and(|tcp| tcp.held_by.is_some());
        let first = self.first_streams(round_trip);
        let tuner = self.tuner.get_or_insert_with(|| Tuner::new(first, is_remote));
        tuner.tick(moved, direct.min(tuner.active()), progress.waited, held);
        self.session.set_active(tuner.active());
        if let Some(found) = tuner.found() {
            self.learn(KnownLink { streams: Some(found), ..self.known }, round_trip);
        }
    }

    /// Looks for the facts of earlier runs.
    fn look_up(&mut self, round_trip: Option<Duration>) {
        let (Some(hint), Some(round_trip)) = (&self.hint, round_trip) else { return };
        // It is that of the quickest answer so far: the first one may have taken longer than the link does.
        if self.known == KnownLink::default() && self.known_for.is_none_or(|known_for| round_trip < known_for)
        {
            self.known_for = Some(round_trip);
            self.known = hint.load(round_trip);
            if let (Some(rate), None) = (self.known.sent, self.session.pace.outbound.rate()) {
                self.packer.expect(rate as f64);
            }
            if let (Some(bytes_per_second), None) = (self.known.received, self.session.pace.inbound.rate()) {
                self.expect_there(bytes_per_second);
            }
        }
    }

    /// Tells the remote end the rate that it can expect. On a thread of its own, as the connection may be stuck.
    fn expect_there(&self, bytes_per_second: u64) {
        let session = Arc::clone(&self.session);
        let tell = move || session.tell(&Request::ExpectRate { bytes_per_second });
        // Without a thread, the remote end finds out by itself.
        drop(thread::Builder::new().name("haul-tell".to_owned()).spawn(tell));
    }

    /// Saves facts for later runs.
    fn learn(&mut self, link: KnownLink, round_trip: Option<Duration>) {
        self.known = link;
        if let (Some(hint), Some(round_trip)) = (&self.hint, round_trip) {
            hint.save(&link, round_trip);
        }
    }

    /// The initial number of direct connections.
    fn first_streams(&self, round_trip: Option<Duration>) -> u32 {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.known
            .streams
            .map_or_else(|| tuner::first(round_trip, cores()), |known| known.clamp(1, tuner::MOST))
    }

    /// Opens further connections, as far as they are wanted.
    fn grow(&mut self) {
        let Dialing { direct, up, dialing, round_trip } = self.session.dialing();
        if self.growth.is_waiting(Instant::now()) {
            return;
        }
        let (dialer, wanted, at_once) = match direct {
            DirectState::Trying => return,
            DirectState::On(dialer) => {
                let first = self.first_streams(round_trip);
                (Some(dialer), self.tuner.as_ref().map_or(first, Tuner::active), DIRECT_AT_ONCE)
            }
            DirectState::Off if self.growth.is_allowed() => {
                (None, connections_for(round_trip.unwrap_or_default()), DIALS_AT_ONCE)
            }
            DirectState::Off => return,
        };
        let wanted = if self.streams > 0 { self.streams } else { wanted.min(self.session.pace.streams()) };
        for _ in 0..self.growth.dials(wanted, up, dialing, at_once) {
            self.dial(dialer.clone());
        }
    }

    /// Opens one more connection, on a thread of its own.
    fn dial(&mut self, dialer: Option<Arc<dyn Dial>>) {
        let session = self.session.clone();
        let hello = Hello { session: session.id(), fresh: false, ..self.hello.clone() };
        let tell = self.tell.clone();
        session.dials();
        let spawned = thread::Builder::new().name("haul-dial".to_owned()).spawn(move || {
            let direct = dialer.is_some();
            let opened = match dialer {
                Some(dialer) => open_direct(&session, &*dialer, DialPurpose::Further, &hello),
                None => open(&session, DialPurpose::Further, &hello),
            };
            let refused = opened.err();
            let _ = tell.send(DialOutcome { direct, refused });
            session.dialed();
        });
        if spawned.is_err() {
            self.session.dialed();
            self.growth.forbid();
        }
    }

    /// Learns from the attempts that have ended.
    fn hear_outcomes(&mut self) {
        while let Ok(DialOutcome { direct, refused }) = self.outcomes.try_recv() {
            let Some(refused) = refused else {
                self.growth.opened();
                if direct {
                    self.direct_refused = 0;
                }
                continue;
            };
            if direct {
                self.direct_failed(&refused.error);
                continue;
            }
            let dialer = &self.session.dialer;
            let fall_back = || dialer.fall_back();
            if let Some(said) = self.growth.refused(&refused, &dialer.name(), fall_back, Instant::now()) {
                (self.session.note)(&said);
            }
        }
    }

    /// A direct connection was refused. Others go on; without any, content goes through ssh after a few attempts.
    fn direct_failed(&mut self, error: &Error) {
        if self.session.direct_count() > 0 {
            return self.growth.wait_longer(Instant::now());
        }
        self.direct_refused += 1;
        if self.direct_refused < DIRECT_TRIES {
            self.growth.wait_a_tick(Instant::now());
        } else {
            self.direct_refused = 0;
            self.session.found(Err(vec![error.cause().to_owned()]));
        }
    }

    /// The last connection is lost: logs in again.
    fn recover(&mut self) {
        let before = self.session.last_lost();
        let (session, hello) = (&self.session, &self.hello);
        let open = || {
            let hello = Hello { session: session.id(), fresh: true, ..hello.clone() };
            open(session, DialPurpose::Again, &hello)
        };
        match self.restarts.run(Instant::now(), |time| session.pause(time), open) {
            Restart::Closed => {}
            Restart::Up => {
                self.growth.allow();
                self.find_direct();
            }
            Restart::Failed(Some(refused)) => session.fail(session.unreachable(refused.error.cause())),
            Restart::Failed(None) => session.fail(before),
        }
    }
}
