//! Repeats work in threads and counts the CPU time that it takes.

use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use rustix::time::{ClockId, clock_gettime};

use crate::stop::Stop;

/// Bytes that passed, and the CPU time of the threads that did the work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct WorkTime {
    pub(super) bytes: u64,
    pub(super) cpu: Duration,
}

impl WorkTime {
    /// Nanoseconds of one core for a byte.
    pub(super) fn per_byte(self) -> f64 {
        self.cpu.as_secs_f64() * 1e9 / self.bytes.max(1) as f64
    }

    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, cpu: self.cpu + other.cpu }
    }
}

/// The CPU time of this thread.
pub(super) fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Repeats `step`, which returns the bytes that passed, until this thread has worked for `time`.
pub(super) fn repeat(
    time: Duration,
    stop: &Stop,
    mut step: impl FnMut() -> Result<usize>,
) -> Result<WorkTime> {
    let begun = cpu_time();
    let mut done = WorkTime::default();
    while done.cpu < time {
        ensure!(!stop.is_set(), "interrupted");
        done.bytes += step()? as u64;
        done.cpu = cpu_time().saturating_sub(begun);
    }
    Ok(done)
}

/// Does the same in several threads at once. Returns the sum.
pub(super) fn in_threads(
    threads: usize,
    work: impl Fn(usize) -> Result<WorkTime> + Sync,
) -> Result<WorkTime> {
    let work = &work;
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|number| scope.spawn(move || work(number))).collect();
        let mut ended =
            running.into_iter().map(|one| one.join().map_err(|_| anyhow!("a thread ended early"))?);
        ended.try_fold(WorkTime::default(), |sum, done| Ok(sum.and(done?)))
    })
}
