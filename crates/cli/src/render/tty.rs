//! Progress on a terminal: three lines, redrawn.

use std::sync::OnceLock;
use std::time::Duration;

use haul_core::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::gauge::{ProgressGauge, terminal_lines};

/// Maximum redraws per second.
const HERTZ: u8 = 5;
/// The columns of a terminal that does not say how many it has.
const WIDTH: usize = 80;

/// Lines at the bottom of the terminal. Draws nothing before there is progress: until then ssh may prompt for a
/// host key, a password or a code, and drawing would erase its prompt.
#[derive(Default)]
pub(super) struct Bottom(OnceLock<ProgressBar>);

impl Bottom {
    /// Draws nothing yet.
    pub(super) fn new() -> Self {
        Self::default()
    }
}

/// The columns of the terminal.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(WIDTH)
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(HERTZ));
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(1000 / u64::from(HERTZ)));
    bar
}

impl ProgressGauge for Bottom {
    fn show(&self, progress: &Progress, file: Option<&[u8]>) {
        let bar = self.0.get_or_init(bar);
        bar.set_message(terminal_lines(progress, file, width()).join("\n"));
    }

    fn aside(&self, print: &mut dyn FnMut()) {
        match self.0.get() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn close(&self) {
        if let Some(bar) = self.0.get() {
            bar.finish_and_clear();
        }
    }
}
