//! Progress where there is no terminal: a line now and then.

use haul_core::sync::Mutex;
use std::time::{Duration, Instant};

use haul_core::Progress;

use super::gauge::{Gauge, amount, pace};
use super::say;

/// Time between two lines.
const PERIOD: Duration = Duration::from_secs(10);

/// Lines on standard error.
pub(super) struct Ticker(Mutex<Instant>);

impl Ticker {
    /// The first line comes after a while.
    pub(super) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl Gauge for Ticker {
    fn show(&self, progress: &Progress) {
        let mut last = self.0.lock();
        if last.elapsed() >= PERIOD {
            *last = Instant::now();
            say(&format!("{} · {}\n", amount(progress), pace(progress)));
        }
    }

    fn aside(&self, print: &mut dyn FnMut()) {
        print();
    }

    fn close(&self) {}
}
