//! The lanes of a session: how many there are, and which one a request goes on.

use std::sync::Arc;
use std::time::Duration;

use haul_core::{HeldBy, Tcp};
use haul_transport::tcp::TcpInfo;

use super::lane::Lane;
use super::session::{Pick, State, Up};
use super::straggler::Seen;

/// A round trip that makes further connections worth opening before the first one is seen to be too slow.
const FAR: Duration = Duration::from_millis(5);
/// It is said again within this time as long as it is so.
const SAID: Duration = Duration::from_millis(300);

impl State {
    /// The lanes that are up.
    pub(super) fn lanes(&self) -> Vec<Arc<Lane>> {
        self.lanes.iter().map(|up| up.lane.clone()).collect()
    }

    pub(super) fn lane_count(&self) -> u32 {
        u32::try_from(self.lanes.len()).unwrap_or(u32::MAX)
    }

    /// How many lanes go around ssh (`true`) or through it.
    pub(super) fn count(&self, direct: bool) -> u32 {
        let lanes = self.lanes.iter().filter(|up| up.lane.direct == direct);
        u32::try_from(lanes.count()).unwrap_or(u32::MAX)
    }

    /// What the kernel knows of the lanes that go around ssh.
    pub(super) fn tcp(&self) -> Option<Tcp> {
        let lanes = self.lanes.iter().filter_map(|up| up.lane.helper.as_ref()?.tcp());
        let lanes: Vec<TcpInfo> = lanes.collect();
        let count = u32::try_from(lanes.len()).ok().filter(|count| *count > 0)?;
        let sum = |of: fn(&TcpInfo) -> Duration| lanes.iter().map(of).sum::<Duration>();
        let busy = sum(|lane| lane.busy);
        let held_by = if sum(|lane| lane.window_limited) * 2 > busy {
            Some(HeldBy::Window)
        } else if sum(|lane| lane.buffer_limited) * 2 > busy {
            Some(HeldBy::Buffer)
        } else {
            None
        };
        Some(Tcp {
            rtt_micros: u32::try_from((sum(|lane| lane.rtt) / count).as_micros()).unwrap_or(u32::MAX),
            retransmits: lanes.iter().map(|lane| u64::from(lane.retransmits)).sum(),
            held_by: held_by.filter(|_| !busy.is_zero()),
        })
    }

    /// Whether the lanes have all that is to be done.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some_and(|said| said.elapsed() < SAID)
    }

    /// What the lanes that go around ssh look like.
    pub(super) fn seen(&self) -> Vec<Seen> {
        // One through ssh may carry all others.
        let lanes = self.lanes.iter().filter(|up| up.lane.direct);
        let seen = |up: &Up| {
            let moved = up.lane.pulse.moved();
            Seen { number: up.lane.number, moved, due: up.due.max(moved), owes: up.owes }
        };
        lanes.map(seen).collect()
    }

    /// Whether a round trip takes its time.
    pub(super) fn is_far(&self) -> bool {
        self.round_trip.is_some_and(|time| time >= FAR)
    }

    /// How many lanes content goes over.
    pub(super) fn streams(&self) -> u32 {
        let direct = self.count(true);
        if direct > 0 { direct.min(self.active) } else { self.count(false) }
    }

    /// Which lane a request goes on. Content goes around ssh where it can; what is small goes through ssh, where it
    /// has no content before it.
    pub(super) fn pick(&mut self, pick: Pick, content_through_ssh: bool) -> Option<usize> {
        let lanes = self.lanes.iter().enumerate();
        let (direct, active) = (self.count(true) > 0, self.active as usize);
        let content = || {
            let allowed = direct || content_through_ssh;
            let lanes = self.lanes.iter().enumerate();
            let lanes = lanes.filter(move |(_, up)| allowed && up.lane.direct == direct);
            lanes.take(if direct { active } else { usize::MAX })
        };
        let (best, waits) = match pick {
            Pick::Small => {
                (lanes.min_by_key(|(_, up)| (up.writing, up.lane.direct, up.pending.len())), false)
            }
            Pick::Read(_) => {
                let best = content().min_by_key(|(_, up)| (up.owes, up.pending.len()));
                (best, best.is_none_or(|(_, up)| up.owes > 0))
            }
            Pick::Write(_) => {
                let best = content().filter(|(_, up)| !up.writing).min_by_key(|(_, up)| up.owes);
                (best, best.is_none())
            }
            Pick::Lane(number) => {
                (self.lanes.iter().enumerate().find(|(_, up)| up.lane.number == number), false)
            }
        };
        let best = best.map(|(at, _)| at);
        // Over a distance one connection will not do, and a login takes several round trips: begin at once.
        let far = self.is_far();
        let is_content = matches!(pick, Pick::Read(_) | Pick::Write(_));
        self.wants_lanes |= waits || (far && is_content);
        self.waited |= waits;
        best
    }

    /// Lanes that writes without response are on.
    pub(super) fn lanes_owing(&self) -> Vec<u64> {
        self.lanes.iter().filter(|up| up.owes > 0).map(|up| up.lane.number).collect()
    }
}
