//! Measures the load of CPUs and of connections.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The time since their beginning in which connections had something to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkTime {
    /// All of it.
    pub busy: Duration,
    /// The part of it in which the receiver had no memory for more.
    pub held: Duration,
}

impl LinkTime {
    /// That of all connections: the two times of each. `None` without connections.
    pub fn sum(connections: impl Iterator<Item = (Duration, Duration)>) -> Option<Self> {
        connections
            .map(|(busy, held)| Self { busy, held })
            .reduce(|sum, one| Self { busy: sum.busy + one.busy, held: sum.held + one.held })
    }

    /// The share of the time since `before` in which the receiver held the connections back.
    pub(crate) fn held_since(self, before: Self) -> Option<f64> {
        let busy = self.busy.saturating_sub(before.busy).as_secs_f64();
        let held = self.held.saturating_sub(before.held).as_secs_f64();
        (busy > 0.0).then(|| held / busy)
    }
}

/// CPU time of this process.
pub(crate) fn process_time() -> Duration {
    duration(clock_gettime(ClockId::ProcessCPUTime))
}

/// CPU time of this thread.
pub(crate) fn thread_time() -> Duration {
    duration(clock_gettime(ClockId::ThreadCPUTime))
}

fn duration(time: Timespec) -> Duration {
    Duration::try_from(time).unwrap_or_default()
}

/// Ticks of all CPUs since boot, and the current number of runnable threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    idle: u64,
    all: u64,
    processors: u32,
    running: u32,
}

impl Ticks {
    /// The current values; `None` where the system does not report them.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the lines `cpu`, `cpuN` (user, nice, system, idle, iowait, irq, softirq, steal; user includes guests) and
    /// `procs_running` of `/proc/stat` (proc_stat(5)).
    fn parse(text: &str) -> Option<Self> {
        let running = text.lines().find_map(|line| line.strip_prefix("procs_running "));
        let running = running.and_then(|number| number.trim().parse().ok()).unwrap_or(u32::MAX);
        let mut lines = text.lines().take_while(|line| line.starts_with("cpu"));
        let numbers = lines.next()?.split_whitespace().skip(1).take(8);
        let ticks: Vec<u64> = numbers.map_while(|number| number.parse().ok()).collect();
        let [_, _, _, idle, iowait, ..] = ticks[..] else { return None };
        let processors = u32::try_from(lines.count()).ok()?;
        Some(Self { idle: idle + iowait, all: ticks.iter().sum(), processors, running })
    }

    /// The share of a CPU that a fair scheduler gives to one more thread.
    pub(crate) fn fair_share(self) -> f64 {
        // The calling thread is running too.
        (f64::from(self.processors) / f64::from(self.running.max(1))).min(1.0)
    }

    /// The average number of idle CPUs since `before`; `None` if that is too recent.
    pub(crate) fn idle_since(self, before: Self) -> Option<f64> {
        let all =
            self.all.checked_sub(before.all).filter(|ticks| *ticks >= u64::from(self.processors) * 5)?;
        // The count of idle ticks may decrease slightly.
        let idle = self.idle.saturating_sub(before.idle);
        Some(idle as f64 / all as f64 * f64::from(self.processors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cpus_are_counted() {
        let stat = |idle: u64| {
            format!(
                "cpu  100 0 50 {idle} 10 0 0 0 7 0\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 9 9\nprocs_running 5\n"
            )
        };
        let before = Ticks::parse(&stat(1000)).unwrap();
        assert_eq!(before, Ticks { idle: 1010, all: 1160, processors: 2, running: 5 });
        let mut after = Ticks::parse(&stat(1100)).unwrap();
        assert_eq!(after.idle_since(before), Some(2.0));
        after.all += 100;
        assert_eq!(after.idle_since(before), Some(1.0));
        assert_eq!(before.idle_since(before), None);
        assert_eq!(before.fair_share(), 0.4);
        assert_eq!(Ticks::parse("intr 1"), None);
        assert!(Ticks::now().is_some_and(|now| now.processors > 0));
    }
}
