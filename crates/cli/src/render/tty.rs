//! Progress on a terminal: one line, redrawn.

use std::time::Duration;

use haul_core::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::gauge::{Gauge, sentence};

/// How often the line is drawn at most, per second.
const HERTZ: u8 = 5;

/// A line at the bottom of the terminal.
pub(super) struct Line(ProgressBar);

impl Line {
    /// An empty line.
    pub(super) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(HERTZ));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(1000 / u64::from(HERTZ)));
        Self(bar)
    }
}

impl Gauge for Line {
    fn show(&self, progress: &Progress) {
        self.0.set_message(sentence(progress));
    }

    fn aside(&self, print: &mut dyn FnMut()) {
        self.0.suspend(print);
    }

    fn close(&self) {
        self.0.finish_and_clear();
    }
}
