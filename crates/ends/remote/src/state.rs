//! The state of a session: its connections, the requests on them, and which connection a request goes on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::{Buffer, Error, HeldBy, Result, Tcp};
use haul_ssh::dial::Dial;
use haul_transport::tcp::TcpInfo;
use haul_wire::{DirectAnswer, Request, RootId, SessionId};

use super::connection::Connection;
use super::reply_content::ReplyContent;
use super::straggler::ConnectionProgress;

/// From this round trip on, further connections are opened before the first one proves too slow.
const REMOTE: Duration = Duration::from_millis(5);
/// The end of a run is announced again within this time for as long as it lasts.
const SAID: Duration = Duration::from_millis(300);

/// The response to a request, not decoded yet.
pub(super) struct RawReply {
    pub(super) body: Vec<u8>,
    /// The content, if there is any. It is still on the connection.
    pub(super) content: Option<ReplyContent>,
    pub(super) payload_len: usize,
    /// Which connection it came on.
    pub(super) connection: u64,
}

/// Gets the reply to a request, or the error of its connection. Called once, from any thread.
pub(super) type OnReply = Box<dyn FnOnce(Result<RawReply>) + Send>;

/// The choice of a connection for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// The least busy one.
    Small,
    /// The one that owes the least content. It will owe this many bytes more.
    Read(u64),
    /// One that no thread writes to. Waits for it.
    Write(u64),
    /// This one.
    Connection(u64),
}

/// A request that has no response yet.
pub(super) struct PendingRequest {
    /// `None` once the response has begun.
    pub(super) on_reply: Option<OnReply>,
    /// The buffer for the content of the response. It is taken before the request is sent, so that a connection never
    /// waits for memory.
    pub(super) buffer: Option<Buffer>,
    pub(super) owes: u64,
    /// Whether the request asks for content.
    pub(super) read: bool,
}

impl PendingRequest {
    pub(super) fn new(pick: Pick, owes: u64, buffer: Option<Buffer>, on_reply: OnReply) -> Self {
        Self { on_reply: Some(on_reply), buffer, owes, read: matches!(pick, Pick::Read(_)) }
    }
}

/// A connection that is up.
pub(super) struct LiveConnection {
    pub(super) connection: Arc<Connection>,
    /// Whether content is being written to it.
    pub(super) writing: bool,
    /// Bytes of content in requests without response.
    pub(super) owes: u64,
    /// The bytes that the connection will have moved in all when it owes nothing more.
    pub(super) due: u64,
    pub(super) pending: HashMap<u64, PendingRequest>,
}

#[derive(Default)]
pub(super) struct SessionState {
    pub(super) connections: Vec<LiveConnection>,
    pub(super) last_request: u64,
    pub(super) next_connection: u64,
    /// The name of the session, once there is one.
    pub(super) session: Option<SessionId>,
    /// How often the remote process had to be started again.
    pub(super) restarts: u32,
    /// Whether content goes around ssh.
    pub(super) direct: DirectState,
    /// Whether content has gone, or is about to.
    has_content: bool,
    /// Notes about the way of content, for when there is some.
    way: Vec<String>,
    /// The remote end's parameters for direct connections.
    pub(super) answer: Option<DirectAnswer>,
    /// The most direct connections that may carry content, once the tuner has said it.
    pub(super) active: Option<u32>,
    /// Bytes of content that all connections have moved, in both directions.
    pub(super) moved: u64,
    /// Of these, the bytes that this end has sent.
    pub(super) sent: u64,
    /// Whether content had to wait for a connection since the tuner's last tick.
    pub(super) waited: bool,
    /// The requests that opened the roots, to repeat them to a new remote process.
    pub(super) roots: BTreeMap<RootId, Request>,
    /// The error that ended the session.
    pub(super) fatal: Option<Error>,
    /// The error of the last lost connection.
    pub(super) last_lost: Option<Error>,
    pub(super) closed: bool,
    /// Whether more connections are wanted: content waited for one.
    pub(super) wants_connections: bool,
    /// The quickest answer to a request so far.
    pub(super) round_trip: Option<Duration>,
    /// Whether the supervisor has to act before its next tick.
    pub(super) urgent: bool,
    /// Attempts to open a further connection that are in progress.
    pub(super) dialing: u32,
    /// Threads that read from a connection.
    pub(super) readers: u32,
    /// When the end of the run was last announced: the connections have everything that is left to do.
    pub(super) ending: Option<Instant>,
}

/// A way around ssh.
pub(super) struct DirectRoute {
    pub(super) dialer: Arc<dyn Dial>,
    /// Between which ends and ports it is.
    pub(super) how: String,
    /// Why it is not the other way, which was tried first.
    pub(super) other_way: Option<String>,
}

/// Whether content goes around ssh.
#[derive(Clone, Default)]
pub(super) enum DirectState {
    /// Direct connections are not wanted, or not possible.
    #[default]
    Off,
    /// The search is in progress.
    Trying,
    /// This dialer opens direct connections.
    On(Arc<dyn Dial>),
}

impl SessionState {
    /// Content is about to go. Returns the notes about its way that were not said yet.
    pub(super) fn content_goes(&mut self) -> Vec<String> {
        self.has_content = true;
        std::mem::take(&mut self.way)
    }

    /// Returns these notes if there is content, else keeps them until there is some: a plan moves none.
    pub(super) fn notes_of_way(&mut self, notes: Vec<String>) -> Vec<String> {
        if self.has_content {
            return notes;
        }
        self.way = notes;
        Vec::new()
    }

    /// The connections that are up.
    pub(super) fn connections(&self) -> Vec<Arc<Connection>> {
        self.connections.iter().map(|up| up.connection.clone()).collect()
    }

    /// Adds a connection under a new number.
    pub(super) fn add(&mut self, make: impl FnOnce(u64) -> Connection) -> Arc<Connection> {
        let number = self.next_connection;
        self.next_connection += 1;
        let connection = Arc::new(make(number));
        let up = LiveConnection {
            connection: connection.clone(),
            writing: false,
            owes: 0,
            due: 0,
            pending: HashMap::new(),
        };
        self.connections.push(up);
        connection
    }

    /// Takes a connection out, with the requests on it.
    pub(super) fn take(&mut self, number: u64) -> Option<LiveConnection> {
        let at = self.connections.iter().position(|up| up.connection.number == number)?;
        Some(self.connections.swap_remove(at))
    }

    /// The connection with this number.
    pub(super) fn up(&mut self, number: u64) -> Option<&mut LiveConnection> {
        self.connections.iter_mut().find(|up| up.connection.number == number)
    }

    /// How many connections are direct (`true`) or go through ssh.
    pub(super) fn count(&self, direct: bool) -> u32 {
        let connections = self.connections.iter().filter(|up| up.connection.direct == direct);
        u32::try_from(connections.count()).unwrap_or(u32::MAX)
    }

    /// The state of each direct connection, from the kernel.
    pub(super) fn tcp_infos(&self) -> Vec<TcpInfo> {
        self.connections.iter().filter_map(|up| up.connection.helper.as_ref()?.tcp()).collect()
    }

    /// The state of all direct connections together.
    pub(super) fn tcp(&self) -> Option<Tcp> {
        let connections = self.tcp_infos();
        let count = u32::try_from(connections.len()).ok().filter(|count| *count > 0)?;
        let sum = |of: fn(&TcpInfo) -> Duration| connections.iter().map(of).sum::<Duration>();
        let busy = sum(|connection| connection.busy);
        let held_by = if sum(|connection| connection.window_limited) * 2 > busy {
            Some(HeldBy::Window)
        } else if sum(|connection| connection.buffer_limited) * 2 > busy {
            Some(HeldBy::Buffer)
        } else {
            None
        };
        Some(Tcp {
            rtt_micros: u32::try_from((sum(|connection| connection.rtt) / count).as_micros())
                .unwrap_or(u32::MAX),
            retransmits: connections.iter().map(|connection| u64::from(connection.retransmits)).sum(),
            held_by: held_by.filter(|_| !busy.is_zero()),
        })
    }

    /// Whether the connections have everything that is left to do.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some_and(|said| said.elapsed() < SAID)
    }

    /// The progress of the direct connections.
    pub(super) fn seen(&self) -> Vec<ConnectionProgress> {
        // A connection through ssh may carry all others, so it is not compared.
        let connections = self.connections.iter().filter(|up| up.connection.direct);
        let seen = |up: &LiveConnection| {
            let liveness = &up.connection.liveness;
            let moved = liveness.moved();
            // A connection that this end does not read, because its disk is slow, is not late.
            let due = if liveness.is_listening() { up.due.max(moved) } else { moved };
            ConnectionProgress { number: up.connection.number, moved, due, owes: up.owes }
        };
        connections.map(seen).collect()
    }

    /// The bytes that the direct connections have moved, and whether all of them wait for more.
    pub(super) fn carried(&self) -> (u64, bool) {
        let direct = || self.connections.iter().filter(|up| up.connection.direct);
        let moved = direct().map(|up| up.connection.liveness.moved()).sum();
        (moved, direct().all(|up| up.connection.liveness.is_listening()))
    }

    /// Whether a round trip takes its time.
    pub(super) fn is_remote(&self) -> bool {
        self.round_trip.is_some_and(|time| time >= REMOTE)
    }

    /// How many connections carry content.
    pub(super) fn streams(&self) -> u32 {
        let direct = self.count(true);
        if direct > 0 { direct.min(self.most()) } else { self.count(false) }
    }

    /// The most direct connections that may carry content.
    fn most(&self) -> u32 {
        self.active.unwrap_or(u32::MAX)
    }

    /// The connection for a request. Content uses direct connections where there are any. Small requests go through
    /// ssh, where no content is before them.
    pub(super) fn pick(&mut self, pick: Pick, content_through_ssh: bool) -> Option<usize> {
        let connections = self.connections.iter().enumerate();
        let (direct, active) = (self.count(true) > 0, self.most() as usize);
        let content = || {
            let allowed = direct || content_through_ssh;
            let connections = self.connections.iter().enumerate();
            let connections = connections.filter(move |(_, up)| allowed && up.connection.direct == direct);
            connections.take(if direct { active } else { usize::MAX })
        };
        let (best, waits) = match pick {
            Pick::Small => (
                connections.min_by_key(|(_, up)| (up.writing, up.connection.direct, up.pending.len())),
                false,
            ),
            Pick::Read(_) => {
                let best = content().min_by_key(|(_, up)| (up.owes, up.pending.len()));
                (best, best.is_none_or(|(_, up)| up.owes > 0))
            }
            Pick::Write(_) => {
                let best = content().filter(|(_, up)| !up.writing).min_by_key(|(_, up)| up.owes);
                (best, best.is_none())
            }
            Pick::Connection(number) => {
                (self.connections.iter().enumerate().find(|(_, up)| up.connection.number == number), false)
            }
        };
        let best = best.map(|(at, _)| at);
        // Over a distance one connection will not do, and a login takes several round trips: begin at once.
        let remote = self.is_remote();
        let is_content = matches!(pick, Pick::Read(_) | Pick::Write(_));
        self.wants_connections |= waits || (remote && is_content);
        self.waited |= waits;
        best
    }

    /// The connections that owe answers to content.
    pub(super) fn connections_owing(&self) -> Vec<u64> {
        self.connections.iter().filter(|up| up.owes > 0).map(|up| up.connection.number).collect()
    }
}
