//! Finds the connection that delays the end of a run.
//!
//! Connections share a link unevenly. During a run this does no harm, as each takes the next batch when it has finished
//! the last one. At the end the run waits for the slowest connection. If it would take much longer than the idle ones,
//! it is closed, and they send its requests again.

use std::collections::HashMap;

/// The shortest time to measure a rate over, in seconds.
const WINDOW: f64 = 0.25;
/// A connection is closed if it would take this many times as long as another one.
const TIMES: f64 = 2.0;
/// The time to close a connection and to send its requests again, in seconds, without the round trips.
const MOVING: f64 = 0.2;
/// The most connections to close in one session. A request may be lost more often.
const MOST: u32 = 3;

/// The progress of a connection at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionProgress {
    pub(super) number: u64,
    /// Bytes that it has moved since it was opened.
    pub(super) moved: u64,
    /// The value of `moved` when it has moved everything that it has.
    pub(super) due: u64,
    /// Bytes of content without an answer.
    pub(super) owes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Track {
    /// Where the window began.
    at: f64,
    moved: u64,
    /// Whether the first byte of its content has moved.
    moving: bool,
    /// Bytes a second, when it last had content to move. `fresh`: that is the rate of its present content.
    rate: Option<f64>,
    fresh: bool,
}

/// Watches connections.
#[derive(Debug, Default)]
pub(super) struct Stragglers {
    tracks: HashMap<u64, Track>,
    given_up: u32,
}

impl Stragglers {
    /// Records the progress of the connections at the time `now`, in seconds.
    pub(super) fn watch(&mut self, now: f64, connections: &[ConnectionProgress]) {
        self.tracks.retain(|number, _| connections.iter().any(|connection| connection.number == *number));
        for connection in connections {
            let new = Track { at: now, moved: connection.moved, moving: false, rate: None, fresh: false };
            let track = self.tracks.entry(connection.number).or_insert(new);
            if connection.owes == 0 {
                // An idle connection keeps the rate that it had.
                *track = Track { at: now, moved: connection.moved, moving: false, fresh: false, ..*track };
            } else if !track.moving {
                // Before the first byte, the connection waits for the other end or its disk.
                let moving = connection.moved > track.moved;
                *track = Track { at: now, moved: connection.moved, moving, ..*track };
            } else if now - track.at >= WINDOW {
                let rate = (connection.moved - track.moved) as f64 / (now - track.at);
                // A connection that has moved everything waits for its answer.
                let rate = if connection.due > connection.moved { Some(rate) } else { track.rate };
                *track = Track { at: now, moved: connection.moved, moving: true, rate, fresh: true };
            }
        }
    }

    /// The connection to close at the end of a run, if any. `round_trip` is in seconds.
    pub(super) fn find(&mut self, connections: &[ConnectionProgress], round_trip: f64) -> Option<u64> {
        let mut idle: Vec<f64> = connections
            .iter()
            .filter(|connection| connection.owes == 0)
            .filter_map(|connection| self.tracks.get(&connection.number)?.rate)
            .collect();
        idle.sort_by(f64::total_cmp);
        let typical = *idle.get(idle.len() / 2)?;
        let late = |connection: &ConnectionProgress| {
            let rate = self.tracks.get(&connection.number).filter(|track| track.fresh)?.rate?;
            let left = connection.due.saturating_sub(connection.moved) as f64 / rate.max(1.0);
            let elsewhere = connection.owes as f64 / typical.max(1.0) + 2.0 * round_trip + MOVING;
            (left > TIMES * elsewhere).then_some((left, connection.number))
        };
        let (_, slowest) = connections.iter().filter_map(late).max_by(|a, b| a.0.total_cmp(&b.0))?;
        (self.given_up < MOST).then(|| {
            self.given_up += 1;
            slowest
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: u64 = 4 << 20;

    /// Three connections: two that have moved `fast` bytes and are done, and one that has moved `slow` and has a slice.
    fn connections(fast: u64, slow: u64) -> Vec<ConnectionProgress> {
        let done = |number| ConnectionProgress { number, moved: fast, due: fast, owes: 0 };
        vec![
            done(0),
            done(1),
            ConnectionProgress { number: 2, moved: slow, due: slow.max(1) + SLICE, owes: SLICE },
        ]
    }

    fn busy(moved: u64) -> Vec<ConnectionProgress> {
        (0..3).map(|number| ConnectionProgress { number, moved, due: moved + SLICE, owes: SLICE }).collect()
    }

    /// Three busy connections that were watched for a second, of which the last hardly moved, and how they stand then.
    fn one_slow() -> (Stragglers, Vec<ConnectionProgress>) {
        let mut stragglers = Stragglers::default();
        stragglers.watch(0.0, &busy(0));
        stragglers.watch(0.1, &busy(1000));
        let mut now = busy(10_000_000);
        now[2].moved = 100_000;
        stragglers.watch(1.0, &now);
        (stragglers, now)
    }

    #[test]
    fn a_connection_that_is_much_slower_is_given_up_at_the_end() {
        let (mut stragglers, now) = one_slow();
        assert_eq!(stragglers.find(&now, 0.06), None, "nobody else is free");
        assert_eq!(stragglers.find(&connections(12_000_000, 100_000), 0.06), Some(2));
        assert_eq!(
            stragglers.find(&connections(12_000_000, 100_000), 20.0),
            None,
            "it is done before it is asked again"
        );
    }

    #[test]
    fn a_connection_like_the_others_is_left_alone() {
        let mut stragglers = Stragglers::default();
        stragglers.watch(0.0, &busy(0));
        stragglers.watch(0.1, &busy(1000));
        stragglers.watch(1.0, &busy(5_000_000));
        assert_eq!(stragglers.find(&connections(6_000_000, 5_000_000), 0.06), None);
        // An idle connection keeps the rate that it had before.
        stragglers.watch(2.0, &connections(6_000_000, 9_000_000));
        stragglers.watch(9.0, &connections(6_000_000, 44_000_000));
        assert_eq!(stragglers.find(&connections(6_000_000, 44_000_000), 0.06), None);
    }

    #[test]
    fn one_that_has_not_begun_to_move_is_not_slow() {
        let mut stragglers = Stragglers::default();
        stragglers.watch(0.0, &busy(0));
        stragglers.watch(0.1, &busy(1000));
        stragglers.watch(1.0, &busy(9_000_000));
        // All were done; then one is asked for something that takes the remote end long to read.
        let mut connections = connections(12_000_000, 12_000_000);
        connections[2].owes = 0;
        stragglers.watch(1.1, &connections);
        connections[2].owes = SLICE;
        for tick in 12..60 {
            stragglers.watch(f64::from(tick) / 10.0, &connections);
            assert_eq!(stragglers.find(&connections, 0.06), None);
        }
        // Then it comes at the rate of the others.
        connections[2].moved += 1000;
        stragglers.watch(6.0, &connections);
        connections[2].moved += 3_000_000;
        stragglers.watch(6.3, &connections);
        assert_eq!(stragglers.find(&connections, 0.06), None);
    }

    #[test]
    fn no_more_are_given_up_than_a_request_may_be_lost_on() {
        let (mut stragglers, _) = one_slow();
        let found =
            (0..20).filter(|_| stragglers.find(&connections(12_000_000, 100_000), 0.06).is_some()).count();
        assert_eq!(found, MOST as usize);
    }
}
