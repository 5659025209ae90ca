//! Finds the bottleneck of a run: how its threads spend the time, and which limits hold them back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haul_core::sync::Mutex;

/// The least time between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// An activity of a worker.
#[derive(Clone, Copy)]
pub(crate) enum WorkerActivity {
    Reading = 0,
    Writing = 1,
}

/// The state of the run that a look needs besides the activities of the workers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moment {
    /// Whether threads wait because of the limit on bytes per second.
    pub(crate) by_rate: bool,
    /// Whether threads wait because of the limit on operations per second.
    pub(crate) by_iops: bool,
    /// The number of workers that could take work, if there is none because entries are not found or compared yet.
    pub(crate) starving: usize,
}

/// Seconds since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    /// Seconds of all workers, by activity.
    pub(crate) waiting: f64,
    pub(crate) reading: f64,
    pub(crate) writing: f64,
    /// Seconds in which a limit held threads back.
    pub(crate) by_rate: f64,
    pub(crate) by_iops: f64,
    /// All seconds.
    pub(crate) total: f64,
}

impl Spent {
    /// The seconds since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            waiting: self.waiting - before.waiting,
            reading: self.reading - before.reading,
            writing: self.writing - before.writing,
            by_rate: self.by_rate - before.by_rate,
            by_iops: self.by_iops - before.by_iops,
            total: self.total - before.total,
        }
    }

    fn add(&mut self, seconds: f64, [reading, writing]: [usize; 2], moment: Moment) {
        let waiting = moment.starving.saturating_sub(reading + writing);
        // Outcomes that are waited for are those of the destination.
        let writing = if reading + writing + waiting == 0 { 1 } else { writing };
        self.waiting += seconds * waiting as f64;
        self.reading += seconds * reading as f64;
        self.writing += seconds * writing as f64;
        self.by_rate += if moment.by_rate { seconds } else { 0.0 };
        self.by_iops += if moment.by_iops { seconds } else { 0.0 };
        self.total += seconds;
    }
}

/// Looks at the activities of the workers many times a second, so that an activity counts while it lasts, and not only
/// at its end.
pub(crate) struct Bottleneck {
    active: [AtomicUsize; 2],
    spent: Mutex<(Instant, Spent)>,
}

impl Bottleneck {
    pub(crate) fn new() -> Self {
        Self { active: Default::default(), spent: Mutex::new((Instant::now(), Spent::default())) }
    }

    /// A worker does this until the guard is dropped.
    pub(crate) fn begin(&self, activity: WorkerActivity) -> Doing<'_> {
        let active = &self.active[activity as usize];
        active.fetch_add(1, Ordering::Relaxed);
        Doing(active)
    }

    /// Looks, if the last look is long enough ago.
    pub(crate) fn look(&self, moment: impl FnOnce() -> Moment) {
        let mut spent = self.spent.lock();
        let now = Instant::now();
        let passed = now - spent.0;
        if passed >= LOOK {
            spent.0 = now;
            let active = [0, 1].map(|at| self.active[at].load(Ordering::Relaxed));
            spent.1.add(passed.as_secs_f64(), active, moment());
        }
    }

    pub(crate) fn spent(&self) -> Spent {
        self.spent.lock().1
    }
}

/// A worker that is active.
pub(crate) struct Doing<'a>(&'a AtomicUsize);

impl Drop for Doing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activity_counts_while_it_lasts() {
        let bottleneck = Bottleneck::new();
        let reading = bottleneck.begin(WorkerActivity::Reading);
        std::thread::sleep(LOOK);
        bottleneck.look(Moment::default);
        let spent = bottleneck.spent();
        assert!(spent.reading > 0.0 && spent.writing == 0.0);
        drop(reading);
        assert_eq!(bottleneck.active[0].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn workers_without_work_wait_only_for_entries() {
        let mut spent = Spent::default();
        spent.add(1.0, [1, 0], Moment { starving: 4, by_iops: true, ..Moment::default() });
        assert_eq!((spent.waiting, spent.reading, spent.writing), (3.0, 1.0, 0.0));
        let before = spent;
        spent.add(2.0, [1, 0], Moment { by_rate: true, ..Moment::default() });
        assert_eq!((spent.waiting, spent.reading), (3.0, 3.0));
        spent.add(1.0, [0, 0], Moment::default());
        let spent = spent.since(&before);
        assert_eq!((spent.writing, spent.by_rate, spent.by_iops, spent.total), (1.0, 2.0, 0.0, 3.0));
    }
}
