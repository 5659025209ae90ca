//! Shared by `ls` and `--list-only`: lines of entries, sorted, and the failures of entries.

use haul_core::path::printable;
use haul_core::{Failure, Location, Result};

use crate::exit_code::Exit;
use crate::render::{OutputLines, print_error};

/// The most bytes of lines that are held back to sort them.
const MOST: usize = 16 << 20;
/// The memory for one of them, besides its bytes.
const EACH: usize = 64;

/// Lines on standard output, sorted by the paths of their entries.
pub(super) struct SortedLines {
    lines: OutputLines,
    /// Lines that were not printed yet, with the paths by which they are sorted.
    held: Vec<(Vec<u8>, Vec<u8>)>,
    held_bytes: usize,
}

impl SortedLines {
    /// No lines yet.
    pub(super) fn new() -> Self {
        Self { lines: OutputLines::stdout(), held: Vec::new(), held_bytes: 0 }
    }

    /// Prints a line at once: a heading or a total.
    pub(super) fn write(&mut self, line: &[u8]) {
        self.print();
        self.lines.write(line);
    }

    /// Adds the line of an entry.
    pub(super) fn add(&mut self, path: Vec<u8>, line: Vec<u8>) {
        self.held_bytes += path.len() + line.len() + EACH;
        self.held.push((path, line));
        if self.held_bytes > MOST {
            self.print();
        }
    }

    /// Whether nobody reads the lines any more.
    pub(super) fn is_closed(&self) -> bool {
        self.lines.is_closed()
    }

    /// Prints the lines that are held back.
    pub(super) fn print(&mut self) {
        self.held.sort_unstable();
        for (_, line) in self.held.drain(..) {
            self.lines.write(&line);
        }
        self.held_bytes = 0;
        self.lines.flush();
    }

    /// Prints the last lines, and ends the command.
    ///
    /// # Errors
    /// Those of [`OutputLines::end`].
    pub(super) fn end(mut self, exit: Exit) -> Result<Exit> {
        self.print();
        self.lines.end(exit)
    }
}

/// Prints the failures of a scan of `at`. Returns whether there are any.
pub(super) fn print_failures(at: &Location, failures: Vec<Failure>) -> bool {
    let is_failed = !failures.is_empty();
    for failure in failures {
        let path = failure.path.as_bytes();
        let slash = if path.is_empty() || at.path().ends_with(b"/") { "" } else { "/" };
        let name = format!("{at}{slash}{}", printable(path));
        print_error(&failure.error.on(name));
    }
    is_failed
}
