//! Decides when a request is repeated, and after how long.

use std::thread;
use std::time::{Duration, Instant};

use crate::fault::{FailureClass, Fault};

/// The first wait.
const FIRST: Duration = Duration::from_millis(100);

/// The longest wait, unless the store asks for more.
const LONGEST: Duration = Duration::from_secs(10);

/// How often damaged data is sent.
const DAMAGED: u32 = 5;

/// How often an invalid answer is accepted: a cut connection can look like one.
const NONSENSE: u32 = 3;

/// How long an unknown host name is retried.
const NO_HOST: Duration = Duration::from_secs(10);

/// After so long a silent wait is reported to the user.
const LONG: Duration = Duration::from_secs(3);

/// The retries of one request.
pub(super) struct RetryPolicy {
    limit: Duration,
    tries: u32,
    failed: Option<Instant>,
}

impl RetryPolicy {
    /// Retries until nothing has succeeded for `limit`.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, tries: 0, failed: None }
    }

    /// The longest time that one request may make no progress.
    pub(super) fn stall(&self) -> Duration {
        (self.limit / 4).clamp(Duration::from_secs(1), Duration::from_secs(30))
    }

    /// Whether to retry. `last_success` is the last success of any request to the store.
    pub(super) fn allows(&mut self, fault: &Fault, last_success: Option<Instant>) -> bool {
        self.tries += 1;
        let failed = *self.failed.get_or_insert_with(Instant::now);
        let since = last_success.map_or(failed, |at| at.max(failed));
        let again = match fault.class {
            FailureClass::Again | FailureClass::SlowDown | FailureClass::Expired => true,
            FailureClass::Damaged => self.tries < DAMAGED,
            FailureClass::Nonsense => self.tries < NONSENSE,
            // Credentials that never worked are a mistake; those that did are being replaced.
            FailureClass::Login | FailureClass::Skewed => last_success.is_some(),
            FailureClass::NoHost => true,
            _ => false,
        };
        again && since.elapsed() < self.limit_after(fault, last_success)
    }

    /// How long this failure is retried. A host that was never known is more likely a mistake than a failing name server.
    pub(super) fn limit_after(&self, fault: &Fault, last_success: Option<Instant>) -> Duration {
        let is_unknown = fault.class == FailureClass::NoHost && last_success.is_none();
        if is_unknown { self.limit.min(NO_HOST) } else { self.limit }
    }

    /// Whether the retries have lasted long enough to tell the user, or will have before the next try.
    pub(super) fn is_long(&self) -> bool {
        self.failed.is_some_and(|failed| failed.elapsed() + self.longest_wait() > LONG)
    }

    /// The longest that the next wait can take.
    fn longest_wait(&self) -> Duration {
        (FIRST * 2_u32.pow(self.tries.saturating_sub(1).min(10))).min(LONGEST)
    }

    /// The last failure, with the number of tries.
    pub(super) fn exhausted(&self, mut fault: Fault) -> Fault {
        let retried =
            matches!(fault.class, FailureClass::Again | FailureClass::SlowDown | FailureClass::Expired)
                && self.tries > 1;
        if retried {
            let seconds = self.limit.as_secs();
            fault.message =
                format!("{}, {} times; nothing went through for {seconds} s", fault.message, self.tries);
        }
        fault
    }

    /// Waits before the next try: twice as long each time, with some jitter, and at least as long as the store asks.
    /// Returns early when the request `has_ended`.
    pub(super) fn wait(&self, fault: &Fault, has_ended: impl Fn() -> bool) {
        let wait = self.longest_wait().mul_f64(0.5 + chance() / 2.0);
        let longest = if fault.class == FailureClass::NoHost { LONG } else { self.limit };
        let asked = fault.retry_after.map_or(wait, |asked| asked.max(wait)).min(longest);
        let until = Instant::now() + asked;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if has_ended() {
                return;
            }
            thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}

/// A random number from 0 to 1.
fn chance() -> f64 {
    f64::from(haul_core::random::number() as u16) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_end_by_class_time_and_count() {
        let fault = |class| Fault::new(class, "x");
        let holds = |class, last_success| {
            RetryPolicy::new(Duration::from_secs(60)).allows(&fault(class), last_success)
        };
        let now = Some(Instant::now());
        assert!(
            holds(FailureClass::Again, None)
                && holds(FailureClass::SlowDown, None)
                && holds(FailureClass::Expired, None)
        );
        for class in [FailureClass::Login, FailureClass::Skewed] {
            assert!(!holds(class, None) && holds(class, now));
        }
        assert!(
            holds(FailureClass::NoHost, None)
                && !holds(FailureClass::Foreign, now)
                && !holds(FailureClass::Insecure, now)
        );
        assert!(
            !holds(FailureClass::Denied, now)
                && !holds(FailureClass::Final, now)
                && !holds(FailureClass::Abandoned, now)
        );
        let mut damaged = RetryPolicy::new(Duration::from_secs(60));
        let tries = (1..).take_while(|_| damaged.allows(&fault(FailureClass::Damaged), None)).count();
        assert_eq!(tries, 4);
        let limits = |last_success| {
            RetryPolicy::new(Duration::from_secs(60)).limit_after(&fault(FailureClass::NoHost), last_success)
        };
        assert_eq!((limits(None), limits(now)), (NO_HOST, Duration::from_secs(60)));
        let mut over = RetryPolicy::new(Duration::ZERO);
        assert!(!over.allows(&fault(FailureClass::Again), None));
        assert!(!over.allows(&fault(FailureClass::Again), None));
        assert!(over.exhausted(fault(FailureClass::Again)).message.contains("2 times"));
    }
}
