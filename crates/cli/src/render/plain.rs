//! Progress without a terminal: a line at intervals.

use haul_core::sync::Mutex;
use std::time::{Duration, Instant};

use haul_core::Progress;

use super::gauge::{ProgressGauge, status_line};
use super::print::say;

/// Interval between lines.
const PERIOD: Duration = Duration::from_secs(10);

/// Lines on standard error.
pub(super) struct Ticker(Mutex<Instant>);

impl Ticker {
    /// The first line follows after one interval.
    pub(super) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl ProgressGauge for Ticker {
    fn show(&self, progress: &Progress, _file: Option<&[u8]>) {
        let mut last = self.0.lock();
        if last.elapsed() >= PERIOD {
            *last = Instant::now();
            say(&format!("{}\n", status_line(progress, None)));
        }
    }

    fn aside(&self, print: &mut dyn FnMut()) {
        print();
    }

    fn close(&self) {}
}
