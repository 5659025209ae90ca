//! Lines on standard output, for programs and pipes.

use haul_core::Result;
use haul_core::sync::Mutex;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};

use super::print::no_output;
use crate::exit_code::Exit;
use crate::standard_streams;

/// Buffered standard output. The first failure is kept and nothing is written after it.
pub(crate) struct OutputLines(Mutex<LinesState>);

struct LinesState {
    /// Standard output, or why nothing more can be written to it.
    out: io::Result<BufWriter<File>>,
    /// Whether a line was lost. A closed output loses none until one is written.
    lost: bool,
    terminal: bool,
}

impl OutputLines {
    /// The current standard output.
    pub(crate) fn stdout() -> Self {
        let terminal = io::stdout().is_terminal();
        let out = standard_streams::output().map(|fd| BufWriter::with_capacity(64 * 1024, File::from(fd)));
        Self(Mutex::new(LinesState { out, lost: false, terminal }))
    }

    /// Writes one line, newline included. Flushes it if standard output is a terminal.
    pub(crate) fn write(&self, line: &[u8]) {
        let mut state = self.0.lock();
        let terminal = state.terminal;
        state.attempt(|out| {
            out.write_all(line)?;
            if terminal { out.flush() } else { Ok(()) }
        });
        state.lost |= state.out.is_err();
    }

    /// Flushes the buffer.
    pub(crate) fn flush(&self) {
        self.0.lock().attempt(BufWriter::flush);
    }

    /// The end of a command that only prints, with this exit code. A reader that closed the pipe needs no message.
    ///
    /// # Errors
    /// The write error, if there was one other than a closed pipe.
    pub(crate) fn end(&self, exit: Exit) -> Result<Exit> {
        self.flush();
        match self.failure() {
            Some(cause) => Err(no_output(cause)),
            None if self.is_closed() => Ok(Exit::Incomplete),
            None => Ok(exit),
        }
    }

    /// Whether the reader closed the pipe or a write failed.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.lock().lost
    }

    /// The write error, if there was one other than a closed pipe.
    pub(crate) fn failure(&self) -> Option<String> {
        let state = self.0.lock();
        let failure = state.out.as_ref().err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        failure.filter(|_| state.lost).map(ToString::to_string)
    }
}

impl LinesState {
    fn attempt(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        let Ok(out) = &mut self.out else { return };
        if let Err(error) = write(out) {
            self.lost = true;
            // Drops the buffer without writing it.
            if let Ok(out) = std::mem::replace(&mut self.out, Err(error)) {
                let _ = out.into_parts();
            }
        }
    }
}
