//! A session: the state that the threads of a [`super::Peer`] share, and how it begins and ends.
//!
//! The requests are in `requests`, the state behind the lock in `state`. Only these three files lock it.

use haul_codec::LinkTime;
use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::{BufferPool, Error, ErrorKind, Note, Pace, Retry, Side, Tcp};
use haul_ssh::dial::Dial;
use haul_wire::{DirectAnswer, Request, RootId, SessionId};

use super::connection::Connection;
use super::state::{DirectRoute, DirectState, SessionState};
use super::straggler::ConnectionProgress;

/// How long to wait for a remote end that has nothing left to do.
const GOODBYE: Duration = Duration::from_millis(20);

/// The state that the supervisor finds when it wakes up.
pub(super) struct Wakeup {
    pub(super) connections: Vec<Arc<Connection>>,
    /// Whether more connections are wanted.
    pub(super) wants_connections: bool,
    /// Whether the last connection is lost, and another one may help.
    pub(super) is_cut_off: bool,
}

/// The facts that decide how the supervisor opens further connections.
pub(super) struct Dialing {
    pub(super) direct: DirectState,
    /// Connections of the kind that carries content.
    pub(super) up: u32,
    pub(super) dialing: u32,
    pub(super) round_trip: Option<Duration>,
}

/// The progress of the connections that carry content, for the tuner.
pub(super) struct ContentProgress {
    /// Bytes since the session began.
    pub(super) moved: u64,
    /// Of these, the bytes that this end has sent.
    pub(super) sent: u64,
    /// Bytes that the direct connections have moved, also of content that has not arrived as a whole.
    pub(super) carried: u64,
    /// Whether all direct connections wait for more.
    pub(super) all_wait: bool,
    /// Direct connections.
    pub(super) direct: u32,
    /// Whether content had to wait for a connection since the last look.
    pub(super) waited: bool,
    pub(super) tcp: Option<Tcp>,
    pub(super) round_trip: Option<Duration>,
    pub(super) is_remote: bool,
}

/// The state that the threads of a peer share.
pub(super) struct Session {
    pub(super) dialer: Box<dyn Dial>,
    pub(super) ways: Ways,
    pub(super) pool: BufferPool,
    pub(super) note: Note,
    pub(super) timeout: Duration,
    pub(super) pace: Pace,
    state: Mutex<SessionState>,
    /// Signals that a connection may be free, or that there will be none.
    pub(super) free: Condvar,
    /// Signals that the supervisor has something to do.
    supervisor: Condvar,
}

/// The ways of content.
#[derive(Clone, Copy)]
pub(super) struct Ways {
    /// Content may go through ssh.
    pub(super) through_ssh: bool,
    /// Notes also say why a way cannot be used.
    pub(super) explains: bool,
}

impl Session {
    pub(super) fn new(
        dialer: Box<dyn Dial>,
        ways: Ways,
        pool: BufferPool,
        note: Note,
        timeout: Duration,
        pace: Pace,
    ) -> Self {
        Self {
            dialer,
            ways,
            pool,
            note,
            timeout,
            pace,
            state: Mutex::default(),
            free: Condvar::new(),
            supervisor: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock()
    }

    /// An error that ends the session.
    pub(super) fn unreachable(&self, cause: &str) -> Error {
        Error::new(ErrorKind::Unreachable, Side::Wire, "reach", cause)
            .on(self.dialer.name())
            .with_hint("run the same command again: it goes on where it was")
    }

    /// The error of a request to a root that the remote end does not know.
    pub(super) fn root_is_gone(&self) -> Error {
        self.unreachable("the remote end lost its open source or destination")
    }

    /// Adds a connection; `None` if the session was closed meanwhile.
    pub(super) fn add(&self, make: impl FnOnce(u64) -> Connection) -> Option<Arc<Connection>> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        let connection = state.add(make);
        state.readers += 1;
        self.free.notify_all();
        Some(connection)
    }

    /// Ends a connection. The requests on it fail with an error that allows another connection.
    pub(super) fn lose(&self, number: u64, error: Error) {
        let up = {
            let mut state = self.lock();
            let Some(up) = state.take(number) else { return };
            let words = up.connection.helper.as_ref().map(|helper| helper.last_words()).unwrap_or_default();
            let cause = if words.is_empty() { error.cause().to_owned() } else { words };
            state.last_lost = Some(self.unreachable(&cause));
            self.free.notify_all();
            self.wake_supervisor(&mut state);
            up
        };
        up.connection.kill();
        let error = error.on(self.dialer.name()).with_retry(Retry::OtherStream);
        // A requester that reads content meets the end of the connection itself.
        for on_reply in up.pending.into_values().filter_map(|pending| pending.on_reply) {
            on_reply(Err(error.clone()));
        }
    }

    pub(super) fn wake_supervisor(&self, state: &mut SessionState) {
        state.urgent = true;
        self.supervisor.notify_all();
    }

    /// Remembers the request that opens a root, to repeat it to a remote process that was started again.
    pub(super) fn remember_root(&self, root: RootId, request: Request) {
        self.lock().roots.insert(root, request);
    }

    pub(super) fn forget_root(&self, root: RootId) {
        self.lock().roots.remove(&root);
    }

    /// The requests to open the roots that are open now.
    pub(super) fn roots(&self) -> Vec<Request> {
        self.lock().roots.values().cloned().collect()
    }

    /// The name of the session at the remote end, once there is one.
    pub(super) fn id(&self) -> Option<SessionId> {
        self.lock().session
    }

    /// The answer of the remote end about direct connections.
    pub(super) fn answer(&self) -> Option<DirectAnswer> {
        self.lock().answer.clone()
    }

    /// How often the remote process had to be started again.
    pub(super) fn restarts(&self) -> u32 {
        self.lock().restarts
    }

    /// Connections that carry content.
    pub(super) fn streams(&self) -> u32 {
        self.lock().streams()
    }

    pub(super) fn tcp(&self) -> Option<Tcp> {
        self.lock().tcp()
    }

    /// The time of the direct connections; `None` without any.
    pub(super) fn link_time(&self) -> Option<LinkTime> {
        let infos = self.lock().tcp_infos();
        LinkTime::sum(infos.iter().map(|info| (info.busy, info.window_limited)))
    }

    pub(super) fn connections(&self) -> Vec<Arc<Connection>> {
        self.lock().connections()
    }

    pub(super) fn has_connections(&self) -> bool {
        !self.lock().connections.is_empty()
    }

    /// The numbers of the connections that owe answers to content.
    pub(super) fn connections_owing(&self) -> Vec<u64> {
        self.lock().connections_owing()
    }

    /// The remote end has greeted as this session. A new name means that its process was started again.
    pub(super) fn welcomed(&self, id: SessionId, answer: Option<DirectAnswer>) {
        let mut state = self.lock();
        let started_again = state.session.is_some_and(|known| known != id);
        state.restarts += u32::from(started_again);
        state.session = Some(id);
        state.answer = answer;
        drop(state);
        if started_again {
            let name = self.dialer.name();
            (self.note)(&format!(
                "the connection to {name} was lost, and haul was started there again: continuing"
            ));
        }
    }

    /// Whether a remote end that does not know the session `asked` is on another machine: connections of this session
    /// are up. Otherwise it may just have ended, and a new one may be known in a moment.
    pub(super) fn is_elsewhere(&self, asked: Option<SessionId>) -> bool {
        let state = self.lock();
        !state.connections.is_empty() && state.session == asked
    }

    /// The connections have everything that is left to do.
    pub(super) fn ends(&self) {
        let mut state = self.lock();
        if !state.is_ending() {
            self.wake_supervisor(&mut state);
        }
        state.ending = Some(Instant::now());
    }

    /// Waits for something to do, for `tick` at most, or `end_tick` at the end of a run. `None`: the session is closed.
    pub(super) fn next_wakeup(&self, tick: Duration, end_tick: Duration) -> Option<Wakeup> {
        let state = self.lock();
        let idle = |state: &mut SessionState| !state.closed && !state.urgent;
        let tick = if state.is_ending() { tick.min(end_tick) } else { tick };
        let (mut state, _) = self.supervisor.wait_timeout_while(state, tick, idle);
        if state.closed {
            return None;
        }
        state.urgent = false;
        let connections = state.connections();
        let is_cut_off = connections.is_empty() && state.fatal.is_none();
        Some(Wakeup { connections, wants_connections: state.wants_connections, is_cut_off })
    }

    /// Waits; `true` if the session was closed meanwhile.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let open = |state: &mut SessionState| !state.closed;
        let (state, _) = self.supervisor.wait_timeout_while(self.lock(), time, open);
        state.closed
    }

    /// Why the last connection was lost.
    pub(super) fn last_lost(&self) -> Error {
        let last = self.lock().last_lost.clone();
        last.unwrap_or_else(|| self.unreachable("the connection was lost"))
    }

    /// The facts that decide how many connections to open.
    pub(super) fn dialing(&self) -> Dialing {
        let state = self.lock();
        let is_direct = matches!(state.direct, DirectState::On(_));
        Dialing {
            direct: state.direct.clone(),
            up: state.count(is_direct),
            dialing: state.dialing,
            round_trip: state.round_trip,
        }
    }

    /// Connections that do not go through ssh.
    pub(super) fn direct_count(&self) -> u32 {
        self.lock().count(true)
    }

    /// The progress of content until now, for the tuner.
    pub(super) fn progress(&self) -> ContentProgress {
        let mut state = self.lock();
        let (carried, all_wait) = state.carried();
        ContentProgress {
            carried,
            all_wait,
            moved: state.moved,
            sent: state.sent,
            direct: state.count(true),
            waited: std::mem::take(&mut state.waited),
            tcp: state.tcp(),
            round_trip: state.round_trip,
            is_remote: state.is_remote(),
        }
    }

    /// On how many direct connections content may go from now on.
    pub(super) fn set_active(&self, active: u32) {
        let mut state = self.lock();
        let before = state.active.replace(active);
        drop(state);
        // Content that waits for a connection may use one more.
        if before.is_some_and(|before| active > before) {
            self.free.notify_all();
        }
    }

    /// The direct connections as they are now, whether the run is at its end, and the round trip.
    pub(super) fn seen(&self) -> (Vec<ConnectionProgress>, bool, Duration) {
        let state = self.lock();
        (state.seen(), state.is_ending(), state.round_trip.unwrap_or_default())
    }

    /// The search for a direct connection begins.
    pub(super) fn looks_for_direct(&self) {
        self.lock().direct = DirectState::Trying;
    }

    /// The search for a direct connection has ended: with a route, or with the reasons why there is none.
    pub(super) fn found(&self, found: std::result::Result<DirectRoute, Vec<String>>) {
        let name = self.dialer.name();
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let (said, reasons) = match found {
            Ok(DirectRoute { dialer, how, other_way }) => {
                state.direct = DirectState::On(dialer);
                // Over a distance it pays to open connections before there is content for them: that takes several
                // round trips, and they are slow at first.
                state.wants_connections |= state.is_remote();
                let said = format!("content goes directly, over TLS connections {how}");
                (said, other_way.into_iter().collect())
            }
            Err(reasons) => {
                state.direct = DirectState::Off;
                if !self.ways.through_ssh {
                    drop(state);
                    let error =
                        Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", reasons.join("; "));
                    let nobody_listens = reasons.iter().all(|why| why.contains("cannot listen"));
                    let way_out =
                        if nobody_listens { "choose other ports" } else { "open a port between the two" };
                    let hint = format!("{way_out} (`--ports`), or leave `--transport tls` out");
                    return self.fail(error.on(name).with_hint(hint));
                }
                (format!("content goes through ssh: no direct connection to {name} is possible"), reasons)
            }
        };
        self.wake_supervisor(&mut state);
        let reasons = reasons.into_iter().filter(|_| self.ways.explains);
        let notes = state.notes_of_way(std::iter::once(said).chain(reasons).collect());
        drop(state);
        notes.iter().for_each(|note| (self.note)(note));
    }

    /// An attempt to open a connection begins.
    pub(super) fn dials(&self) {
        self.lock().dialing += 1;
    }

    /// An attempt to open a connection has ended.
    pub(super) fn dialed(&self) {
        let mut state = self.lock();
        state.dialing -= 1;
        self.wake_supervisor(&mut state);
        self.free.notify_all();
    }

    /// A reader thread has ended.
    pub(super) fn reader_ended(&self) {
        self.lock().readers -= 1;
        self.free.notify_all();
    }

    /// The session fails: all requests get this error.
    pub(super) fn fail(&self, error: Error) {
        self.lock().fatal.get_or_insert(error);
        self.free.notify_all();
    }

    /// Closes the writing direction of all connections, gives the remote end `timeout` to exit, and kills the
    /// connections that are left.
    pub(super) fn close(&self, timeout: Duration) {
        let (connections, idle) = {
            let mut state = self.lock();
            state.closed = true;
            self.free.notify_all();
            self.supervisor.notify_all();
            (state.connections(), state.connections_owing().is_empty())
        };
        self.dialer.stop();
        if let DirectState::On(dialer) = std::mem::replace(&mut self.lock().direct, DirectState::Off) {
            dialer.stop();
        }
        for connection in &connections {
            connection.close();
        }
        // A remote end that owes no answer exits by itself, and nobody has to wait for that.
        let timeout = if idle { GOODBYE } else { timeout };
        if !self.wait_readers(timeout) {
            for connection in &connections {
                self.lose(connection.number, Connection::lost("it did not end"));
            }
            self.wait_readers(Duration::from_secs(3));
        }
        self.dialer.clean();
    }

    fn wait_readers(&self, timeout: Duration) -> bool {
        let state = self.lock();
        let busy = |state: &mut SessionState| state.readers + state.dialing > 0;
        let waited = self.free.wait_timeout_while(state, timeout, busy);
        !waited.1.timed_out()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use haul_ssh::dial::{AfterRefusal, DialPurpose, DialRefused, DialedLink};

    /// A host that nobody can connect to.
    pub(crate) struct UnreachableHost;

    impl Dial for UnreachableHost {
        fn dial(&self, _way: DialPurpose) -> std::result::Result<DialedLink, DialRefused> {
            let error = Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", "not in this test");
            Err(DialRefused { trouble: AfterRefusal::Fatal, error })
        }

        fn name(&self) -> String {
            "db1".to_owned()
        }
    }

    /// The notes of a session about a search for a direct connection.
    fn noted(explains: bool, found: std::result::Result<DirectRoute, Vec<String>>) -> Vec<String> {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let note: Note = Arc::new(move |text: &str| heard.lock().push(text.to_owned()));
        let pool = BufferPool::new(16 << 20);
        let seconds = Duration::from_secs(1);
        let session = Session::new(
            Box::new(UnreachableHost),
            Ways { through_ssh: true, explains },
            pool,
            note,
            seconds,
            Pace::default(),
        );
        session.found(found);
        assert!(notes.lock().is_empty(), "there is no content yet");
        let said = session.lock().content_goes();
        assert!(session.lock().content_goes().is_empty(), "once");
        let later = session.lock().notes_of_way(said.clone());
        assert_eq!(later, said, "there is content by now");
        said
    }

    #[test]
    fn the_way_of_content_is_one_plain_line_and_its_reasons_are_others() {
        let reasons = ["db1 cannot listen: no address", "this end cannot listen: no port"].map(str::to_owned);
        let through_ssh = "content goes through ssh: no direct connection to db1 is possible";
        assert_eq!(noted(false, Err(reasons.to_vec())), [through_ssh]);
        assert_eq!(noted(true, Err(reasons.to_vec())), [through_ssh, &reasons[0], &reasons[1]]);

        let back = || DirectRoute {
            dialer: Arc::new(UnreachableHost),
            how: "from db1 to our port 5".to_owned(),
            other_way: Some(reasons[0].clone()),
        };
        let directly = "content goes directly, over TLS connections from db1 to our port 5";
        assert_eq!(noted(false, Ok(back())), [directly]);
        assert_eq!(noted(true, Ok(back())), [directly, &reasons[0]]);
    }
}
