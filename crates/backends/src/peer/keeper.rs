//! The threads behind a session: one that reads for each lane, one that keeps the lanes alive and opens more.

use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use haul_core::{Error, ErrorKind, Result};
use haul_wire::{Hello, Kind, Request, Response, VERSION, check, decode_body, encode};

use super::dial::{Greeted, Refused, Trouble, Way, greet};
use super::lane::Lane;
use super::link::{FrameReader, LinkError};
use super::session::{Reply, Session, State, lost};

/// How often heartbeats are sent and lanes looked at.
const TICK: Duration = Duration::from_secs(1);
/// If this process itself was held up for longer, silence says nothing about the others.
const HELD_UP: Duration = Duration::from_secs(4);
/// Attempts to open lanes at once. sshd begins to refuse at 10 that are not logged in yet (MaxStartups).
const DIALS_AT_ONCE: u32 = 8;
/// How often the far end is started again before the run gives up.
const RESTARTS: u32 = 3;
/// A restart counts no more after this time.
const RESTARTS_WITHIN: Duration = Duration::from_secs(120);
/// How long a sink at the far end may be held by the process that just ended.
const BUSY_PATIENCE: Duration = Duration::from_secs(15);
/// How long a process may take to end once its lane has.
const COLLECT: Duration = Duration::from_millis(500);

/// What a keeper knows.
pub(super) struct Keeper {
    session: Arc<Session>,
    hello: Hello,
    /// Lanes asked for; 0 lets the round trip decide.
    streams: u32,
    /// Until when no further lane is tried.
    not_before: Instant,
    backoff: Duration,
    /// Whether further lanes may be tried at all.
    may_grow: bool,
    told: bool,
    restarted: Vec<Instant>,
    outcomes: crossbeam_channel::Receiver<Option<Refused>>,
    tell: crossbeam_channel::Sender<Option<Refused>>,
}

impl Keeper {
    pub(super) fn new(session: Arc<Session>, hello: Hello, streams: u32) -> Self {
        let (tell, outcomes) = crossbeam_channel::unbounded();
        Self {
            session,
            hello,
            streams,
            not_before: Instant::now(),
            backoff: TICK,
            may_grow: true,
            told: false,
            restarted: Vec::new(),
            outcomes,
            tell,
        }
    }

    /// Opens the first lane.
    pub(super) fn first(&mut self) -> Result<()> {
        let link = self.session.dialer.dial(Way::First).map_err(|refused| refused.error)?;
        let greeted =
            greet(link, &self.hello, None, &self.session.dialer.name()).map_err(|refused| refused.error)?;
        accept(&self.session, greeted, &self.hello).map_err(|refused| refused.error)
    }

    /// Keeps the lanes until the session is closed.
    pub(super) fn run(mut self) {
        let mut last = Instant::now();
        loop {
            let (lanes, dialing, wants, gone) = {
                let state = self.session.lock();
                let idle = |state: &mut State| !state.closed && !state.urgent;
                let wait = TICK.saturating_sub(last.elapsed());
                let (mut state, _) = self
                    .session
                    .keeper
                    .wait_timeout_while(state, wait, idle)
                    .unwrap_or_else(PoisonError::into_inner);
                if state.closed {
                    return;
                }
                state.urgent = false;
                let lanes = state.lanes();
                let gone = lanes.is_empty() && state.fatal.is_none();
                (lanes, state.dialing, state.wants_lanes, gone)
            };
            let elapsed = last.elapsed();
            if elapsed >= TICK {
                last = Instant::now();
                self.look_after(&lanes, elapsed);
            }
            self.hear_outcomes();
            if gone {
                self.recover();
            } else if wants {
                self.grow(u32::try_from(lanes.len()).unwrap_or(u32::MAX), dialing);
            }
        }
    }

    fn look_after(&self, lanes: &[Arc<Lane>], elapsed: Duration) {
        for lane in lanes {
            if elapsed > HELD_UP {
                lane.pulse.heard();
            }
            lane.heartbeat();
            let silent = lane.pulse.silent_for();
            if silent > self.session.timeout {
                let why = format!("no sign of life for {} seconds", silent.as_secs());
                self.session.lose(lane.number, lost(&why));
            }
        }
    }

    /// Opens further lanes as far as it is wanted and sshd lets us.
    fn grow(&mut self, up: u32, dialing: u32) {
        let wanted = match self.streams {
            0 => automatic(self.session.lock().round_trip).min(self.session.pace.streams()),
            n => n,
        };
        if !self.may_grow || Instant::now() < self.not_before {
            return;
        }
        // After a refusal they are tried one by one.
        let at_once = if self.backoff > TICK { 1 } else { DIALS_AT_ONCE };
        let room = at_once.saturating_sub(dialing).min(wanted.saturating_sub(up + dialing));
        for _ in 0..room {
            let session = self.session.clone();
            let hello = self.hello(false);
            let tell = self.tell.clone();
            session.lock().dialing += 1;
            let spawned = thread::Builder::new().name("haul-dial".to_owned()).spawn(move || {
                let refused = further(&session, &hello).err();
                let _ = tell.send(refused);
                session.dialed();
            });
            if spawned.is_err() {
                self.session.dialed();
                self.may_grow = false;
            }
        }
    }

    fn hello(&self, fresh: bool) -> Hello {
        Hello { session: self.session.lock().session, fresh, ..self.hello.clone() }
    }

    /// Learns from the attempts that have ended.
    fn hear_outcomes(&mut self) {
        while let Ok(outcome) = self.outcomes.try_recv() {
            let Some(refused) = outcome else {
                self.backoff = TICK;
                continue;
            };
            match refused.trouble {
                Trouble::Login if self.session.dialer.fall_back() => {
                    self.tell_once("goes on through the first connection", &refused.error);
                }
                Trouble::Login | Trouble::Fatal => {
                    if self.may_grow {
                        self.tell_once("goes on with those that it has", &refused.error);
                    }
                    self.may_grow = false;
                }
                Trouble::Later => {
                    self.backoff = (self.backoff * 2).min(Duration::from_secs(60));
                    self.not_before = Instant::now() + self.backoff;
                }
            }
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

    /// The last lane is gone: logs in again, as nobody can be asked for a password by now.
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
                match again(&self.session, &self.hello(true)) {
                    Ok(()) => {
                        self.may_grow = true;
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
        let (state, _) =
            self.session.keeper.wait_timeout_while(state, time, open).unwrap_or_else(PoisonError::into_inner);
        state.closed
    }
}

/// A channel of OpenSSH has a window of 2 MiB: one connection carries at most that in a round trip.
fn automatic(round_trip: Option<Duration>) -> u32 {
    let ms = round_trip.map_or(0, |time| time.as_millis());
    u32::try_from(4 + ms / 5).unwrap_or(u32::MAX).clamp(4, 16)
}

/// The greeting that this process sends.
pub(super) fn hello(max_memory: u64, lanes: u32, timeout: u32) -> Hello {
    Hello {
        version: VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        session: None,
        fresh: true,
        max_memory,
        lanes,
        timeout,
    }
}

fn further(session: &Arc<Session>, hello: &Hello) -> Result<(), Refused> {
    let link = session.dialer.dial(Way::Further)?;
    let greeted = greet(link, hello, Some(session.timeout), &session.dialer.name())?;
    accept(session, greeted, hello)
}

fn again(session: &Arc<Session>, hello: &Hello) -> Result<(), Refused> {
    let link = session.dialer.dial(Way::Again)?;
    let greeted = greet(link, hello, Some(session.timeout), &session.dialer.name())?;
    accept(session, greeted, hello)
}

/// Takes a greeted lane into the session. If the far process is a new one, it is told first what is open.
fn accept(session: &Arc<Session>, mut greeted: Greeted, hello: &Hello) -> Result<(), Refused> {
    let result = match &greeted.welcome.session {
        Ok(id) if hello.session.is_some_and(|known| known != *id) => reopen(session, &mut greeted),
        Ok(_) => Ok(()),
        Err(why) => {
            let error = Error::new(ErrorKind::Unreachable, haul_core::Side::Wire, "join the session at", why)
                .on(session.dialer.name());
            // It may just have ended, and its successor be known in a moment; else this is another machine.
            let state = session.lock();
            let other = state.lane_count() > 0 && state.session == hello.session;
            Err(Refused { trouble: if other { Trouble::Fatal } else { Trouble::Later }, error })
        }
    };
    let Greeted { mut reader, mut writer, pulse, helper, welcome } = greeted;
    reader.limit(session.pace.inbound.clone());
    writer.limit(session.pace.outbound.clone());
    let added = result.and_then(|()| {
        let mut state = session.lock();
        if let Ok(id) = welcome.session {
            state.restarts += u32::from(state.session.is_some_and(|known| known != id));
            state.session = Some(id);
        }
        drop(state);
        if let Some(helper) = &helper {
            helper.settled();
        }
        let closed = || Refused { trouble: Trouble::Fatal, error: session.unreachable("the run has ended") };
        let lane =
            session.add(|number| Lane::new(number, writer, pulse, helper.clone())).ok_or_else(closed)?;
        let reading = session.clone();
        let number = lane.number;
        let spawned = thread::Builder::new()
            .name(format!("haul-lane-{number}"))
            .spawn(move || read_lane(&reading, &lane, reader));
        spawned.map(drop).map_err(|error| {
            session.reader_ended();
            session.lose(number, lost(&error.to_string()));
            Refused {
                trouble: Trouble::Later,
                error: Error::io(haul_core::Side::Local, "start a thread", &error),
            }
        })
    });
    if added.is_err()
        && let Some(helper) = &helper
    {
        helper.kill();
        helper.collect(COLLECT);
    }
    added
}

/// Repeats to a new far process what the old one had open.
fn reopen(session: &Session, greeted: &mut Greeted) -> Result<(), Refused> {
    let roots: Vec<Request> = session.lock().roots.values().cloned().collect();
    let give_up = Instant::now() + BUSY_PATIENCE;
    for request in roots {
        loop {
            let response = ask(greeted, &request)
                .map_err(|error| Refused { trouble: Trouble::Later, error: error.into_error() })?;
            match response {
                Response::Done => break,
                Response::Failed(error) if error.kind() == ErrorKind::Busy && Instant::now() < give_up => {
                    thread::sleep(Duration::from_millis(500));
                }
                Response::Failed(error) => return Err(Refused { trouble: Trouble::Fatal, error }),
                _ => {
                    let error = haul_wire::FrameError::Rule("another answer than was asked for").into();
                    return Err(Refused { trouble: Trouble::Fatal, error });
                }
            }
        }
    }
    Ok(())
}

/// One request on a lane that is nobody else's yet.
fn ask(greeted: &mut Greeted, request: &Request) -> Result<Response, LinkError> {
    greeted.writer.write(&encode(Kind::Request, 0, request, 0)?, &[])?;
    loop {
        let (header, body) = greeted.reader.head()?;
        if header.kind == Kind::Response && header.payload_len == 0 {
            let response = decode_body(&body)?;
            check::response(&response, None, 0)?;
            return Ok(response);
        }
        if header.kind != Kind::Ping {
            return Err(haul_wire::FrameError::Kind.into());
        }
    }
}

fn read_lane(session: &Session, lane: &Lane, mut reader: FrameReader) {
    let error = match read_frames(session, lane, &mut reader) {
        LinkError::Closed => lost("the far end closed it"),
        other => other.into_error(),
    };
    drop(reader);
    lane.pulse.end();
    lane.close();
    // Before the lane is given up, so that what ssh says at its end is known by then.
    if let Some(helper) = &lane.helper {
        helper.collect(COLLECT);
    }
    session.lose(lane.number, error);
    session.reader_ended();
}

fn read_frames(session: &Session, lane: &Lane, reader: &mut FrameReader) -> LinkError {
    loop {
        let (header, body) = match reader.head() {
            Ok(frame) => frame,
            Err(error) => return error,
        };
        match header.kind {
            Kind::Ping => continue,
            Kind::Response => {}
            Kind::Hello | Kind::Welcome | Kind::Request => return haul_wire::FrameError::Kind.into(),
        }
        let unasked = haul_wire::FrameError::Rule("an answer to what was not asked");
        let mut content = None;
        if header.payload_len > 0 {
            let Some(Some(mut buffer)) = session.buffer_for(lane.number, header.id) else {
                return unasked.into();
            };
            if let Err(error) = reader.payload(&header, &mut buffer) {
                return error;
            }
            content = Some(buffer);
        }
        let reply = Reply { body, content, payload_len: header.payload_len as usize, lane: lane.number };
        if !session.answered(header.id, reply) {
            return unasked.into();
        }
    }
}
