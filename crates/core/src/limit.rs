//! A limit on bytes per second, shared by all threads of a run.

use crate::sync::{Condvar, Mutex};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The most that may move at once after a pause, in seconds of the rate.
const BURST: f64 = 0.1;
/// Steps in a second. A step is a small part of the rate, so that several threads share the rate evenly.
const STEPS: u64 = 20;
/// The smallest and the largest step, in bytes: smaller steps cost too much, larger ones are not smooth.
const STEP: std::ops::RangeInclusive<u64> = 1024..=256 * 1024;
/// The longest wait between two checks whether the caller has given up.
const LOOK: Duration = Duration::from_millis(200);
/// The rate in bytes per second for which one connection is enough. With fewer connections each batch completes sooner,
/// so an interrupted run loses less.
const PER_STREAM: u64 = 4 * 1024 * 1024;

/// Limits a rate that can be changed at any time. Threads are served in the order of their calls. Without a limit, a
/// call costs two atomic operations.
///
/// ```
/// use haul_core::Limiter;
///
/// let limiter = Limiter::default();
/// assert_eq!(limiter.take(1_000_000, &|| false), Some(1_000_000), "no limit yet");
/// limiter.set(Some(10_000_000));
/// let mut left = 300_000;
/// while let Some(taken) = limiter.take(left, &|| false).filter(|_| left > 0) {
///     left -= taken; // One step, after the wait that the rate asks for.
/// }
/// assert_eq!(limiter.taken(), 1_300_000);
/// ```
pub struct Limiter {
    /// The rate of the bucket, to be read without its lock; 0 is no limit.
    rate: AtomicU64,
    taken: AtomicU64,
    /// How many threads wait.
    waiting: AtomicUsize,
    origin: Instant,
    bucket: Mutex<TokenBucket>,
    changed: Condvar,
}

impl Default for Limiter {
    fn default() -> Self {
        Self {
            rate: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            origin: Instant::now(),
            bucket: Mutex::default(),
            changed: Condvar::new(),
        }
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("rate", &self.rate()).finish_non_exhaustive()
    }
}

impl Limiter {
    /// Sets the rate in bytes per second; `None` is no limit. Waiting threads continue at the new rate.
    pub fn set(&self, rate: Option<u64>) {
        let rate = rate.map_or(0, |rate| rate.max(1));
        if self.rate.load(Ordering::Relaxed) == rate {
            return;
        }
        self.bucket.lock().set(rate, self.origin.elapsed());
        self.rate.store(rate, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// The rate in bytes per second; `None` is no limit.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    /// The bytes taken so far, limited or not.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Blocks until some of `bytes` may move, and returns how many: all of them without a limit, else one step, which
    /// is small compared to the rate. `None` if `give_up`, which is called several times a second, returns `true`.
    pub fn take(&self, bytes: usize, give_up: &dyn Fn() -> bool) -> Option<usize> {
        let step = match self.rate() {
            Some(rate) => (rate / STEPS).clamp(*STEP.start(), *STEP.end()).min(bytes as u64),
            None => bytes as u64,
        };
        match self.reserve(step) {
            Some(turn) if !turn.wait_start(give_up) => None,
            _ => usize::try_from(step).ok(),
        }
    }

    /// Blocks until all of `bytes` have passed at the limited rate, or until `give_up` returns `true`: then they do not
    /// count.
    pub fn pass(&self, bytes: usize, give_up: &dyn Fn() -> bool) {
        if let Some(mut turn) = self.reserve(bytes as u64)
            && !turn.wait_end(give_up)
        {
            turn.bytes = 0;
        }
    }

    /// Reserves a turn for bytes, after those that were reserved before. `None` if there is nothing to wait for: no limit,
    /// or no bytes.
    pub fn reserve(&self, bytes: u64) -> Option<RateTurn<'_>> {
        if self.rate().is_none() || bytes == 0 {
            self.taken.fetch_add(bytes, Ordering::Relaxed);
            return None;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let start = self.bucket.lock().reserve(bytes, self.origin.elapsed());
        Some(RateTurn { limiter: self, bytes, start, end: start + bytes as f64 })
    }

    /// Whether any thread waits because of the limit.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Counts bytes that move without waiting, such as messages about the content. Later calls of [`Self::take`] wait
    /// for them.
    pub fn count(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
        if self.rate().is_some() {
            self.bucket.lock().reserve(bytes as u64, self.origin.elapsed());
        }
    }
}

/// The turn of reserved bytes: it starts when all bytes that were reserved before have passed at the limited rate, and
/// ends when they have. Until it is dropped, a thread counts as waiting; then the bytes count as taken.
#[derive(Debug)]
pub struct RateTurn<'a> {
    limiter: &'a Limiter,
    bytes: u64,
    start: f64,
    end: f64,
}

impl RateTurn<'_> {
    /// The time until it starts at the present rate, for tasks that must not block a thread.
    #[must_use]
    pub fn time_to_start(&self) -> Duration {
        self.limiter.bucket.lock().wait(self.start, self.limiter.origin.elapsed())
    }

    /// Blocks until it starts. `false` if `give_up`, which is called several times a second, returned `true` before.
    pub fn wait_start(&self, give_up: &dyn Fn() -> bool) -> bool {
        self.wait_for(self.start, give_up)
    }

    /// Blocks until it ends. `false` if `give_up`, which is called several times a second, returned `true` before.
    pub fn wait_end(&self, give_up: &dyn Fn() -> bool) -> bool {
        self.wait_for(self.end, give_up)
    }

    /// Ends the turn of a request that failed: `bytes` of it did not move, and those who wait need not wait for them.
    pub fn give_back(mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.limiter.bucket.lock().skip(bytes, self.limiter.origin.elapsed());
        self.limiter.changed.notify_all();
    }

    fn wait_for(&self, place: f64, give_up: &dyn Fn() -> bool) -> bool {
        let mut bucket = self.limiter.bucket.lock();
        loop {
            let wait = bucket.wait(place, self.limiter.origin.elapsed());
            if wait.is_zero() {
                return true;
            }
            if give_up() {
                return false;
            }
            let waited = self.limiter.changed.wait_timeout(bucket, wait.min(LOOK));
            bucket = waited.0;
        }
    }
}

impl Drop for RateTurn<'_> {
    fn drop(&mut self) {
        self.limiter.waiting.fetch_sub(1, Ordering::Relaxed);
        self.limiter.taken.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// The rate limit of the content that one file brings or takes.
#[derive(Clone, Debug)]
pub struct ContentLimit {
    /// The limit of the run.
    pub limiter: Arc<Limiter>,
    /// Whether the connections with a remote haul keep it.
    pub is_kept_by_link: bool,
    /// The run is cancelled: content that was already read passes.
    pub cancel: Arc<AtomicBool>,
}

impl ContentLimit {
    /// Reserves the turn of content. `None` if there is no limit, or connections keep it.
    #[must_use]
    pub fn reserve(&self, bytes: u64) -> Option<RateTurn<'_>> {
        if self.is_kept_by_link { None } else { self.limiter.reserve(bytes) }
    }

    /// Blocks until content has passed, unless connections keep the limit. It also passes when the run is cancelled, or
    /// `give_up` returns `true`.
    pub fn pass(&self, bytes: usize, give_up: &dyn Fn() -> bool) {
        if !self.is_kept_by_link {
            self.limiter.pass(bytes, &|| self.cancel.load(Ordering::Relaxed) || give_up());
        }
    }
}

/// The limits of one run, one for each direction. A link carries both directions at once, so content that passes
/// through this machine does not count twice against one limit.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// The bytes received from links.
    pub inbound: Arc<Limiter>,
    /// The bytes sent to links, and the content copied on this machine.
    pub outbound: Arc<Limiter>,
    /// Whether the rates are as low as they are because the run yields to other work.
    pub yields: Arc<AtomicBool>,
    /// The run has ended: the content on its way passes.
    lifted: Arc<AtomicBool>,
}

impl Pace {
    /// Removes both limits for good, because a stream has failed: otherwise the failure is told only when the content on
    /// its way, which nobody wants any more, has passed.
    pub fn lift(&self) {
        self.lifted.store(true, Ordering::Relaxed);
        self.set(None);
    }

    /// Sets both rates.
    pub fn set(&self, rate: Option<u64>) {
        let rate = rate.filter(|_| !self.lifted.load(Ordering::Relaxed));
        self.inbound.set(rate);
        self.outbound.set(rate);
    }

    /// Whether any thread waits because of the limits.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.inbound.is_waited_for() || self.outbound.is_waited_for()
    }

    /// The bytes in both directions.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.inbound.taken() + self.outbound.taken()
    }

    /// The most connections that are useful at this rate.
    #[must_use]
    pub fn streams(&self) -> u32 {
        let rate = self.outbound.rate();
        rate.map_or(u32::MAX, |rate| u32::try_from(rate.div_ceil(PER_STREAM)).unwrap_or(u32::MAX))
    }
}

/// The arithmetic of a limit, with the time as an argument. Threads reserve bytes in order; a thread may go on once all
/// bytes that were reserved before are served. The order is kept in bytes and not in time, so that a new rate also
/// holds for threads that wait already.
#[derive(Debug, Default)]
struct TokenBucket {
    rate: u64,
    reserved: f64,
    served: f64,
    at: Duration,
}

impl TokenBucket {
    fn set(&mut self, rate: u64, now: Duration) {
        self.advance(now);
        self.rate = rate;
    }

    fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        let rate = self.rate as f64;
        self.served = if self.rate == 0 {
            self.reserved
        } else {
            (self.served + passed * rate).min(self.reserved + BURST * rate)
        };
    }

    /// Reserves bytes; returns the turn to wait for.
    fn reserve(&mut self, bytes: u64, now: Duration) -> f64 {
        self.advance(now);
        let turn = self.reserved;
        self.reserved += bytes as f64;
        turn
    }

    /// Lets reserved bytes pass at once.
    fn skip(&mut self, bytes: u64, now: Duration) {
        self.advance(now);
        self.served = (self.served + bytes as f64).min(self.reserved.max(self.served));
    }

    /// The time until a turn comes at the current rate.
    fn wait(&mut self, turn: f64, now: Duration) -> Duration {
        self.advance(now);
        if self.served >= turn || self.rate == 0 {
            return Duration::ZERO;
        }
        let seconds = (turn - self.served) / self.rate as f64;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).max(Duration::from_micros(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    const KIB: u64 = 1024;

    /// Lets one thread take as much as it can until `end` seconds; each step takes `move_ms` to be moved.
    fn taken_until(bucket: &mut TokenBucket, now: &mut Duration, end: u64, move_ms: u64) -> u64 {
        let mut bytes = 0;
        while *now < Duration::from_secs(end) {
            let turn = bucket.reserve(4 * KIB, *now);
            *now += bucket.wait(turn, *now);
            assert!(bucket.wait(turn, *now + Duration::from_micros(2)).is_zero());
            *now += Duration::from_millis(move_ms);
            bytes += 4 * KIB;
        }
        bytes
    }

    fn close(bytes: u64, to: u64) {
        assert!(bytes.abs_diff(to) <= to / 50, "{bytes} for {to}");
    }

    #[test]
    fn the_rate_is_kept_also_when_moving_takes_time() {
        for move_ms in [0, 3, 30] {
            let mut bucket = TokenBucket::default();
            bucket.set(100 * KIB, Duration::ZERO);
            close(taken_until(&mut bucket, &mut Duration::ZERO.clone(), 20, move_ms), 20 * 100 * KIB);
        }
    }

    #[test]
    fn a_pause_is_made_up_for_only_in_part() {
        let mut bucket = TokenBucket::default();
        bucket.set(100 * KIB, Duration::ZERO);
        let mut now = Duration::from_secs(1000);
        close(taken_until(&mut bucket, &mut now, 1010, 0), 1_010 * KIB);
    }

    #[test]
    fn a_new_rate_holds_for_who_waits_already() {
        let mut bucket = TokenBucket::default();
        bucket.set(1, Duration::ZERO);
        bucket.reserve(1000 * KIB, Duration::ZERO);
        let turn = bucket.reserve(1, Duration::ZERO);
        assert!(bucket.wait(turn, Duration::ZERO) > Duration::from_secs(100_000));
        bucket.set(1000 * KIB, Duration::ZERO);
        let wait = bucket.wait(turn, Duration::ZERO);
        assert!(wait > Duration::from_millis(990) && wait <= Duration::from_secs(1), "{wait:?}");
        bucket.set(0, Duration::ZERO);
        assert!(bucket.wait(turn, Duration::ZERO).is_zero());
        bucket.set(KIB, Duration::ZERO);
        assert!(bucket.wait(turn, Duration::ZERO).is_zero(), "what was let go is not asked back");
    }

    #[test]
    fn turns_come_in_the_order_of_asking_and_evenly() {
        let mut bucket = TokenBucket::default();
        bucket.set(KIB, Duration::ZERO);
        let now = Duration::from_secs(1);
        let turns: Vec<f64> = (0..4).map(|_| bucket.reserve(KIB, now)).collect();
        let waits: Vec<Duration> = turns.into_iter().map(|turn| bucket.wait(turn, now)).collect();
        assert_eq!(waits[0], Duration::ZERO);
        for pair in waits[1..].windows(2) {
            assert_eq!((pair[1] - pair[0]).as_millis(), 1000);
        }
    }

    #[test]
    fn without_a_rate_nothing_waits_and_all_is_counted() {
        let limiter = Limiter::default();
        assert_eq!(limiter.take(1 << 30, &|| true), Some(1 << 30));
        limiter.count(5);
        assert_eq!((limiter.rate(), limiter.taken()), (None, (1 << 30) + 5));
    }

    #[test]
    fn a_waiting_thread_can_give_up_or_be_released() {
        let limiter = Limiter::default();
        limiter.set(Some(1));
        limiter.count(1 << 40);
        let asked = AtomicBool::new(false);
        let give_up = || asked.swap(true, Ordering::Relaxed);
        assert_eq!(limiter.take(10, &give_up), None);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| limiter.take(10, &|| false));
            while !limiter.is_waited_for() {
                std::thread::yield_now();
            }
            limiter.set(None);
            assert!(waiting.join().unwrap().is_some());
        });
        assert!(!limiter.is_waited_for());
    }

    #[test]
    fn turns_follow_each_other_and_count_as_waiting() {
        let limiter = Limiter::default();
        assert!(limiter.reserve(5).is_none(), "no limit yet");
        limiter.set(Some(1000));
        assert!(limiter.reserve(0).is_none());
        let (first, second) = (limiter.reserve(100_000).unwrap(), limiter.reserve(1).unwrap());
        assert!(first.wait_start(&|| true) && !first.wait_end(&|| true));
        assert!(second.time_to_start() > Duration::from_secs(90));
        drop(first);
        assert!(limiter.is_waited_for());
        limiter.set(None);
        assert!(second.wait_end(&|| true));
        drop(second);
        assert!(!limiter.is_waited_for());
        assert_eq!(limiter.taken(), 100_006);
    }

    #[test]
    fn nobody_waits_for_bytes_that_did_not_move() {
        let limiter = Limiter::default();
        limiter.set(Some(1000));
        let (failed, next) = (limiter.reserve(100_000).unwrap(), limiter.reserve(1).unwrap());
        failed.give_back(100_000);
        assert!(next.time_to_start() < Duration::from_millis(1));
        drop(next);
        assert_eq!(limiter.taken(), 1);
    }

    #[test]
    fn a_limit_that_was_lifted_stays_so() {
        let pace = Pace::default();
        pace.set(Some(5));
        pace.lift();
        pace.set(Some(5));
        assert_eq!((pace.inbound.rate(), pace.outbound.rate()), (None, None));
    }

    #[test]
    fn a_low_rate_has_few_streams() {
        let pace = Pace::default();
        assert_eq!(pace.streams(), u32::MAX);
        for (rate, streams) in [(1, 1), (PER_STREAM, 1), (PER_STREAM + 1, 2), (10 * PER_STREAM, 10)] {
            pace.set(Some(rate));
            assert_eq!(pace.streams(), streams);
        }
    }
}
