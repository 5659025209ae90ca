//! When a request is made again, and after how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::fault::{Class, Fault};

/// Is told what a person should know.
pub type Notes = Arc<dyn Fn(&str) + Send + Sync>;

/// The first wait.
const FIRST: Duration = Duration::from_millis(100);

/// No wait is longer, unless the store asks for it.
const LONGEST: Duration = Duration::from_secs(10);

/// How often what arrived damaged is sent again.
const DAMAGED: u32 = 5;

/// How often an answer is asked for that made no sense: a cut connection can look so.
const NONSENSE: u32 = 3;

/// How long a host is looked for of which no name server knows.
const NO_HOST: Duration = Duration::from_secs(10);

/// A person who hears nothing for longer thinks that nothing is done.
const LONG: Duration = Duration::from_secs(3);

/// The patience with one request.
pub(super) struct Patience {
    limit: Duration,
    tries: u32,
    failed: Option<Instant>,
}

impl Patience {
    /// It ends when nothing has gone through for `limit`.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, tries: 0, failed: None }
    }

    /// How long one request may stand still.
    pub(super) fn stall(&self) -> Duration {
        (self.limit / 4).clamp(Duration::from_secs(1), Duration::from_secs(30))
    }

    /// Whether to try again. `went_well` is when another request of the same store went well last.
    pub(super) fn holds(&mut self, fault: &Fault, went_well: Option<Instant>) -> bool {
        self.tries += 1;
        let failed = *self.failed.get_or_insert_with(Instant::now);
        let since = went_well.map_or(failed, |at| at.max(failed));
        let again = match fault.class {
            Class::Again | Class::SlowDown | Class::Expired => true,
            Class::Damaged => self.tries < DAMAGED,
            Class::Nonsense => self.tries < NONSENSE,
            // Keys that never worked are a mistake; keys that did are being changed.
            Class::Login | Class::Skewed => went_well.is_some(),
            Class::NoHost => went_well.is_some() || since.elapsed() < NO_HOST,
            _ => false,
        };
        again && since.elapsed() < self.limit
    }

    /// Whether it lasts so long already that a person wants to hear of it.
    pub(super) fn is_long(&self) -> bool {
        self.failed.is_some_and(|failed| failed.elapsed() > LONG)
    }

    /// The last failure, with how long it was tried.
    pub(super) fn tired(&self, mut fault: Fault) -> Fault {
        let retried =
            matches!(fault.class, Class::Again | Class::SlowDown | Class::Expired) && self.tries > 1;
        if retried {
            let seconds = self.limit.as_secs();
            fault.message =
                format!("{}, {} times; nothing went through for {seconds} s", fault.message, self.tries);
        }
        fault
    }

    /// Waits before the next try: twice as long each time, by chance a little less, and as long as the store asks.
    /// Ends early when one of `ends` is set.
    pub(super) fn wait(&self, fault: &Fault, ends: &[&AtomicBool]) {
        let doubled = FIRST * 2_u32.pow(self.tries.saturating_sub(1).min(10));
        let wait = doubled.min(LONGEST).mul_f64(0.5 + chance() / 2.0);
        let asked = fault.retry_after.map_or(wait, |asked| asked.max(wait)).min(self.limit);
        let until = Instant::now() + asked;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if ends.iter().any(|end| end.load(Ordering::Relaxed)) {
                return;
            }
            thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}

/// A number from 0 to 1.
fn chance() -> f64 {
    let mut bytes = [0; 2];
    // Without chance it waits the same as others do: worse, not wrong.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    f64::from(u16::from_ne_bytes(bytes)) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_where_it_should() {
        let fault = |class| Fault::new(class, "x");
        let holds = |class, went_well| Patience::new(Duration::from_secs(60)).holds(&fault(class), went_well);
        let now = Some(Instant::now());
        assert!(holds(Class::Again, None) && holds(Class::SlowDown, None) && holds(Class::Expired, None));
        for class in [Class::Login, Class::Skewed] {
            assert!(!holds(class, None) && holds(class, now));
        }
        assert!(holds(Class::NoHost, None) && !holds(Class::Foreign, now) && !holds(Class::Insecure, now));
        assert!(!holds(Class::Denied, now) && !holds(Class::Final, now) && !holds(Class::Abandoned, now));
        let mut damaged = Patience::new(Duration::from_secs(60));
        let tries = (1..).take_while(|_| damaged.holds(&fault(Class::Damaged), None)).count();
        assert_eq!(tries, 4);
        let mut over = Patience::new(Duration::ZERO);
        assert!(!over.holds(&fault(Class::Again), None));
        assert!(!over.holds(&fault(Class::Again), None));
        assert!(over.tired(fault(Class::Again)).message.contains("2 times"));
    }
}
