//! The connections of a session: how many there are, and which one a request goes on.

use std::sync::Arc;
use std::time::Duration;

use haul_core::{HeldBy, Tcp};
use haul_transport::tcp::TcpInfo;

use super::connection::Connection;
use super::session::{Pick, State, Up};
use super::straggler::Seen;

/// A round trip that makes further connections worth opening before the first one is seen to be too slow.
const REMOTE: Duration = Duration::from_millis(5);
/// It is said again within this time as long as it is so.
const SAID: Duration = Duration::from_millis(300);

impl State {
    /// The connections that are up.
    pub(super) fn connections(&self) -> Vec<Arc<Connection>> {
        self.connections.iter().map(|up| up.connection.clone()).collect()
    }

    pub(super) fn connection_count(&self) -> u32 {
        u32::try_from(self.connections.len()).unwrap_or(u32::MAX)
    }

    /// How many connections go around ssh (`true`) or through it.
    pub(super) fn count(&self, direct: bool) -> u32 {
        let connections = self.connections.iter().filter(|up| up.connection.direct == direct);
        u32::try_from(connections.count()).unwrap_or(u32::MAX)
    }

    /// What the kernel knows of the connections that go around ssh.
    pub(super) fn tcp(&self) -> Option<Tcp> {
        let connections = self.connections.iter().filter_map(|up| up.connection.helper.as_ref()?.tcp());
        let connections: Vec<TcpInfo> = connections.collect();
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

    /// Whether the connections have all that is to be done.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some_and(|said| said.elapsed() < SAID)
    }

    /// What the connections that go around ssh look like.
    pub(super) fn seen(&self) -> Vec<Seen> {
        // One through ssh may carry all others.
        let connections = self.connections.iter().filter(|up| up.connection.direct);
        let seen = |up: &Up| {
            let moved = up.connection.liveness.moved();
            Seen { number: up.connection.number, moved, due: up.due.max(moved), owes: up.owes }
        };
        connections.map(seen).collect()
    }

    /// Whether a round trip takes its time.
    pub(super) fn is_remote(&self) -> bool {
        self.round_trip.is_some_and(|time| time >= REMOTE)
    }

    /// How many connections content goes over.
    pub(super) fn streams(&self) -> u32 {
        let direct = self.count(true);
        if direct > 0 { direct.min(self.active) } else { self.count(false) }
    }

    /// Which connection a request goes on. Content goes around ssh where it can; what is small goes through ssh, where it
    /// has no content before it.
    pub(super) fn pick(&mut self, pick: Pick, content_through_ssh: bool) -> Option<usize> {
        let connections = self.connections.iter().enumerate();
        let (direct, active) = (self.count(true) > 0, self.active as usize);
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

    /// Connections that writes without response are on.
    pub(super) fn connections_owing(&self) -> Vec<u64> {
        self.connections.iter().filter(|up| up.owes > 0).map(|up| up.connection.number).collect()
    }
}
