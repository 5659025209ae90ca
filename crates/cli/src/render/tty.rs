//! Progress on a terminal: three lines, redrawn.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use haul_core::Progress;
use haul_core::sync::Mutex;

use super::cut::cut_end;
use super::gauge::{ProgressGauge, terminal_lines};
use super::print::say;

/// The time between two drawings.
const TURN: Duration = Duration::from_millis(200);
/// The spinner, a character for each turn.
const SPINNER: [char; 8] = ['⠁', '⠂', '⠄', '⡀', '⢀', '⠠', '⠐', '⠈'];
/// The columns of a terminal that does not say how many it has.
const WIDTH: usize = 80;
/// Columns that stay free behind the last line, where the cursor is: the terminal echoes `^C` there. If that began a
/// new line, the first line of the progress would stay.
const ECHO: usize = 8;

/// Lines at the bottom of the terminal. Draws nothing before there is progress: until then ssh may prompt for a
/// host key, a password or a code, and drawing would erase its prompt.
#[derive(Default)]
pub(super) struct Bottom {
    drawing: Arc<Mutex<Drawing>>,
    turns: OnceLock<()>,
}

/// The lines, and those on the screen.
#[derive(Default)]
struct Drawing {
    lines: Vec<String>,
    /// How many of them are drawn.
    drawn: usize,
    turn: usize,
    closed: bool,
}

impl Bottom {
    /// Draws nothing yet.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Redraws the lines in each turn, until they are closed. Without this thread they are drawn once.
    fn turn(&self) {
        let drawing = Arc::downgrade(&self.drawing);
        let turns = move || {
            while let Some(drawing) = drawing.upgrade() {
                let mut drawing = drawing.lock();
                if drawing.closed {
                    return;
                }
                drawing.turn += 1;
                say(&drawing.draw(width()));
                drop(drawing);
                thread::sleep(TURN);
            }
        };
        let _ = thread::Builder::new().name("progress bar".to_owned()).spawn(turns);
    }
}

/// The columns of the terminal that may be used.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    let width = size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(WIDTH);
    width.saturating_sub(ECHO).max(1)
}

impl Drawing {
    /// The text that replaces the drawn lines by those of now.
    fn draw(&mut self, width: usize) -> String {
        let mut text = self.erase();
        let spinner = SPINNER[self.turn % SPINNER.len()];
        for (at, line) in self.lines.iter().enumerate() {
            let begin = if at == 0 { format!("{spinner} ") } else { "\r\n".to_owned() };
            let room = if at == 0 { width.saturating_sub(2) } else { width };
            let _ = write!(text, "{begin}{}", cut_end(line, room));
        }
        self.drawn = self.lines.len();
        text
    }

    /// The text that removes the drawn lines.
    fn erase(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            1 => "\r\x1b[J".to_owned(),
            more => format!("\r\x1b[{}A\x1b[J", more - 1),
        }
    }
}

impl ProgressGauge for Bottom {
    fn show(&self, progress: &Progress, file: Option<&[u8]>) {
        self.drawing.lock().lines = terminal_lines(progress, file, width());
        self.turns.get_or_init(|| self.turn());
    }

    fn aside(&self, print: &mut dyn FnMut()) {
        let mut drawing = self.drawing.lock();
        say(&drawing.erase());
        print();
        if self.turns.get().is_some() && !drawing.closed {
            say(&drawing.draw(width()));
        }
    }

    fn close(&self) {
        let mut drawing = self.drawing.lock();
        drawing.closed = true;
        say(&drawing.erase());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_drawn_over_the_last_ones_and_removed() {
        let mut drawing = Drawing { lines: vec!["one".into(), "  two".into()], ..Drawing::default() };
        assert_eq!(drawing.draw(80), "⠁ one\r\n  two");
        drawing.turn += 1;
        drawing.lines = vec!["a longer line".into()];
        assert_eq!(drawing.draw(8), format!("\r\x1b[1A\x1b[J⠂ {}", cut_end("a longer line", 6)));
        assert_eq!((drawing.erase(), drawing.erase()), ("\r\x1b[J".to_owned(), String::new()));
    }
}
