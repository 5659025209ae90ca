//! Progress on a terminal: two lines, redrawn.

use std::time::Duration;

use haul_core::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::gauge::{Gauge, amount, pace};

/// How often they are drawn at most, per second.
const HERTZ: u8 = 5;

/// Two lines at the bottom of the terminal.
pub(super) struct Bottom(ProgressBar);

impl Bottom {
    /// Nothing in them yet.
    pub(super) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(HERTZ));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}\n  {prefix}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(1000 / u64::from(HERTZ)));
        Self(bar)
    }
}

impl Gauge for Bottom {
    fn show(&self, progress: &Progress) {
        self.0.set_message(amount(progress));
        self.0.set_prefix(pace(progress));
    }

    fn aside(&self, print: &mut dyn FnMut()) {
        self.0.suspend(print);
    }

    fn close(&self) {
        self.0.finish_and_clear();
    }
}
