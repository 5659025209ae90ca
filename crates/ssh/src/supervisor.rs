//! When to open connections through ssh, when to try again, and when to give up.
//!
//! Every session with a remote host takes these decisions in the same way. The sessions own the threads, the
//! connections and the locks; this file owns the limits, the waits and the sentences for the person.

use std::time::{Duration, Instant};

use crate::dial::{AfterRefusal, DialRefused};

/// How often a session checks its connections.
pub const TICK: Duration = Duration::from_secs(1);
/// Logins in progress at once. By default sshd starts to refuse at 10 unauthenticated connections (`MaxStartups`).
pub const DIALS_AT_ONCE: u32 = 8;
/// If this process did not run for longer than this, or than the timeout, the silence of the other side proves nothing.
const HELD_UP: Duration = Duration::from_secs(4);
/// The longest wait between two attempts to open a further connection.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// How often a session may log in again after it lost every connection, within [`RESTARTS_WITHIN`].
const RESTARTS: usize = 3;
/// A restart older than this no longer counts.
const RESTARTS_WITHIN: Duration = Duration::from_secs(120);
/// The waits before the attempts of one restart, in seconds.
const RESTART_WAITS: [u64; 3] = [0, 1, 3];

/// How many connections through ssh a link with this round trip needs: an OpenSSH channel has a window of 2 MiB, so one
/// connection carries at most that much per round trip.
#[must_use]
pub fn connections_for(round_trip: Duration) -> u32 {
    u32::try_from(4 + round_trip.as_millis() / 5).unwrap_or(u32::MAX).clamp(4, 16)
}

/// Whether this process was held up (stopped by Ctrl-Z, for instance), as more than some seconds or `timeout` passed
/// between two checks.
#[must_use]
pub fn was_held_up(since_last_check: Duration, timeout: Duration) -> bool {
    since_last_check > HELD_UP.min(timeout)
}

/// Why a connection that was silent for this long is lost; `None` if it is not.
#[must_use]
pub fn silence(silent: Duration, limit: Duration) -> Option<String> {
    (silent > limit).then(|| format!("no sign of life for {} seconds", silent.as_secs()))
}

/// Decides when a session opens further connections.
#[derive(Debug)]
pub struct ConnectionGrowth {
    allowed: bool,
    backoff: Duration,
    not_before: Option<Instant>,
    /// Whether the person was told of a refusal.
    reported: bool,
}

impl Default for ConnectionGrowth {
    fn default() -> Self {
        Self { allowed: true, backoff: TICK, not_before: None, reported: false }
    }
}

impl ConnectionGrowth {
    /// Whether further connections through ssh may be opened at all.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Whether the wait after the last refusal is not over yet.
    #[must_use]
    pub fn is_waiting(&self, now: Instant) -> bool {
        self.not_before.is_some_and(|at| now < at)
    }

    /// How many connections to dial now, when `up` of `wanted` are up and `dialing` are being opened.
    #[must_use]
    pub fn dials(&self, wanted: u32, up: u32, dialing: u32, at_once: u32) -> u32 {
        // After a refusal they are tried one at a time.
        let at_once = if self.backoff > TICK { 1 } else { at_once };
        at_once.saturating_sub(dialing).min(wanted.saturating_sub(up.saturating_add(dialing)))
    }

    /// Further connections may be opened again: the session has just logged in.
    pub fn allow(&mut self) {
        self.allowed = true;
    }

    /// No further connection is opened.
    pub fn forbid(&mut self) {
        self.allowed = false;
    }

    /// A further connection was opened.
    pub fn opened(&mut self) {
        self.backoff = TICK;
    }

    /// The next attempt comes after one tick.
    pub fn wait_a_tick(&mut self, now: Instant) {
        self.not_before = Some(now + TICK);
    }

    /// Doubles the wait before the next attempt.
    pub fn wait_longer(&mut self, now: Instant) {
        self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
        self.not_before = Some(now + self.backoff);
    }

    /// A further connection to `name` was refused. Returns a sentence for the person, at most once in a session.
    /// `fall_back` switches to another way to open connections, and says whether there is one.
    pub fn refused(
        &mut self,
        refused: &DialRefused,
        name: &str,
        fall_back: impl FnOnce() -> bool,
        now: Instant,
    ) -> Option<String> {
        let haul = match refused.trouble {
            AfterRefusal::Later => {
                self.wait_longer(now);
                return None;
            }
            AfterRefusal::Login if fall_back() => "goes on through the first connection",
            AfterRefusal::Login | AfterRefusal::Fatal => {
                self.allowed = false;
                "goes on with those that it has"
            }
        };
        if std::mem::replace(&mut self.reported, true) {
            return None;
        }
        let cause = refused.error.cause();
        Some(format!("no further connection to {name} could be opened, haul {haul} ({cause})"))
    }
}

/// How a restart ended.
#[derive(Debug)]
pub enum Restart {
    /// A connection is up.
    Up,
    /// The session was closed meanwhile.
    Closed,
    /// No connection can be had. The last refusal, if there was an attempt.
    Failed(Option<DialRefused>),
}

/// Counts and carries out the restarts of a session that lost every connection.
#[derive(Debug, Default)]
pub struct Restarts(Vec<Instant>);

impl Restarts {
    /// Logs in again, after waits of 0, 1 and 3 seconds. `pause` waits and returns `true` if the session was closed;
    /// `dial` opens the first connection again. Nobody can be asked for a password by now.
    pub fn run(
        &mut self,
        now: Instant,
        mut pause: impl FnMut(Duration) -> bool,
        mut dial: impl FnMut() -> Result<(), DialRefused>,
    ) -> Restart {
        self.0.retain(|at| now.saturating_duration_since(*at) < RESTARTS_WITHIN);
        if self.0.len() >= RESTARTS {
            return Restart::Failed(None);
        }
        self.0.push(now);
        let mut last = None;
        for wait in RESTART_WAITS {
            if pause(Duration::from_secs(wait)) {
                return Restart::Closed;
            }
            match dial() {
                Ok(()) => return Restart::Up,
                Err(refused) => {
                    let is_final = refused.trouble != AfterRefusal::Later;
                    last = Some(refused);
                    if is_final {
                        break;
                    }
                }
            }
        }
        Restart::Failed(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{Error, ErrorKind, Side};

    fn refused(trouble: AfterRefusal) -> DialRefused {
        DialRefused {
            trouble,
            error: Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", "refused"),
        }
    }

    #[test]
    fn the_number_of_connections_follows_the_round_trip() {
        let at = |ms| connections_for(Duration::from_millis(ms));
        assert_eq!((at(0), at(5), at(30), at(60), at(3_600_000)), (4, 5, 10, 16, 16));
        assert_eq!(connections_for(Duration::MAX), 16);
    }

    #[test]
    fn silence_is_an_error_only_beyond_the_limit() {
        let limit = Duration::from_secs(6);
        assert_eq!(silence(limit, limit), None);
        let why = silence(Duration::from_millis(7900), limit);
        assert_eq!(why.as_deref(), Some("no sign of life for 7 seconds"));
        assert!(!was_held_up(HELD_UP, limit) && was_held_up(HELD_UP * 2, limit));
        assert!(was_held_up(Duration::from_secs(3), Duration::from_secs(2)));
    }

    #[test]
    fn dials_fill_up_to_the_number_wanted_and_allowed_at_once() {
        let growth = ConnectionGrowth::default();
        assert_eq!(growth.dials(16, 1, 0, DIALS_AT_ONCE), 8);
        assert_eq!(growth.dials(16, 1, 7, DIALS_AT_ONCE), 1);
        assert_eq!(growth.dials(4, 3, 1, DIALS_AT_ONCE), 0);
        assert_eq!(growth.dials(4, 9, 0, DIALS_AT_ONCE), 0);
        assert_eq!(growth.dials(16, 1, 9, DIALS_AT_ONCE), 0);
    }

    #[test]
    fn the_backoff_doubles_up_to_a_minute_and_ends_with_a_success() {
        let now = Instant::now();
        let mut growth = ConnectionGrowth::default();
        let later = refused(AfterRefusal::Later);
        for seconds in [2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(growth.refused(&later, "db1", || true, now), None);
            let end = now + Duration::from_secs(seconds);
            assert!(growth.is_waiting(end - Duration::from_millis(1)) && !growth.is_waiting(end));
            assert_eq!(growth.dials(16, 1, 0, DIALS_AT_ONCE), 1);
        }
        growth.opened();
        assert_eq!(growth.dials(16, 1, 0, DIALS_AT_ONCE), 8);
        growth.wait_a_tick(now);
        assert!(growth.is_waiting(now) && !growth.is_waiting(now + TICK));
    }

    #[test]
    fn a_refused_login_is_reported_once_and_ends_the_growth_without_another_way() {
        let now = Instant::now();
        let mut growth = ConnectionGrowth::default();
        let login = refused(AfterRefusal::Login);
        let said = growth.refused(&login, "db1", || true, now);
        let expected = "no further connection to db1 could be opened, haul goes on through the first connection (refused)";
        assert_eq!(said.as_deref(), Some(expected));
        assert!(growth.is_allowed());
        assert_eq!(growth.refused(&login, "db1", || false, now), None);
        assert!(!growth.is_allowed());
        growth.allow();
        assert!(growth.is_allowed());
        let mut growth = ConnectionGrowth::default();
        let said = growth.refused(&refused(AfterRefusal::Fatal), "db1", || true, now);
        assert!(said.is_some_and(|said| said.contains("goes on with those that it has")));
        assert!(!growth.is_allowed());
    }

    #[test]
    fn a_restart_tries_three_times_and_stops_at_a_refusal_that_will_not_change() {
        let now = Instant::now();
        let mut waits = Vec::new();
        let mut run = |troubles: &[Option<AfterRefusal>]| {
            let mut troubles = troubles.iter();
            waits.clear();
            let pause = |wait: Duration| {
                waits.push(wait.as_secs());
                false
            };
            let dial = || troubles.next().copied().flatten().map_or(Ok(()), |trouble| Err(refused(trouble)));
            (Restarts::default().run(now, pause, dial), waits.clone())
        };
        let later = Some(AfterRefusal::Later);
        assert!(matches!(run(&[None]), (Restart::Up, waits) if waits == [0]));
        assert!(matches!(run(&[later, later, None]), (Restart::Up, waits) if waits == [0, 1, 3]));
        assert!(
            matches!(run(&[later, later, later]), (Restart::Failed(Some(_)), waits) if waits == [0, 1, 3])
        );
        assert!(
            matches!(run(&[Some(AfterRefusal::Login)]), (Restart::Failed(Some(_)), waits) if waits == [0])
        );
    }

    #[test]
    fn the_fourth_restart_within_two_minutes_fails_at_once() {
        let now = Instant::now();
        let mut restarts = Restarts::default();
        for _ in 0..RESTARTS {
            assert!(matches!(restarts.run(now, |_| false, || Ok(())), Restart::Up));
        }
        let no_dial = || Err(refused(AfterRefusal::Later));
        assert!(matches!(restarts.run(now, |_| false, no_dial), Restart::Failed(None)));
        let later = now + RESTARTS_WITHIN;
        assert!(matches!(restarts.run(later, |_| true, no_dial), Restart::Closed));
    }
}
