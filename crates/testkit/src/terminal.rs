//! Runs a program on a terminal, reads its screen, and types input.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::process::{TAG, kill, tagged};

/// The size of the terminal.
const ROWS: usize = 40;
const COLUMNS: usize = 120;
/// The time after which a program counts as hung.
const LIMIT: Duration = Duration::from_secs(60);

/// A program on a terminal of script(1). Killed on drop, with all processes of its tag.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<Screen>>,
    reader: Option<JoinHandle<()>>,
    tag: String,
    /// Typed input that must never be shown.
    secrets: Vec<String>,
}

impl Terminal {
    /// Runs a shell command on a new terminal.
    #[must_use]
    pub fn run(line: &str, tag: &str) -> Self {
        let line = format!("stty rows {ROWS} cols {COLUMNS}; {line}");
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
        command.env(TAG, tag).env("HAUL_CONFIG", "").env("TERM", "xterm").env("SHELL", "/bin/sh");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run script: {error}"));
        let (keyboard, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let screen: Arc<Mutex<Screen>> = Arc::default();
        let shown = Arc::clone(&screen);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap_or_else(PoisonError::into_inner).write(&bytes[..count]);
            }
        });
        Self { child, keyboard, screen, reader: Some(reader), tag: tag.to_owned(), secrets: Vec::new() }
    }

    /// The lines of the screen, without trailing blanks.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).lines()
    }

    /// The last line that is not empty.
    #[must_use]
    pub fn last_line(&self) -> String {
        self.lines().into_iter().rfind(|line| !line.is_empty()).unwrap_or_default()
    }

    /// Waits until the last line that is not empty contains `words`.
    #[track_caller]
    pub fn wait_for(&mut self, words: &str) {
        self.wait_for_lines(words, 1);
    }

    /// Waits until the last line contains `words`, and at least this many lines on the screen do.
    #[track_caller]
    pub fn wait_for_lines(&mut self, words: &str, count: usize) {
        let holding = |lines: Vec<String>| lines.iter().filter(|line| line.contains(words)).count();
        self.wait_until(words, |screen| {
            screen.last_line().contains(words) && holding(screen.lines()) >= count
        });
    }

    /// Fails unless the last line that is not empty contains `words` for a while.
    #[track_caller]
    pub fn assert_stays(&self, words: &str) {
        for _ in 0..10 {
            assert!(self.last_line().contains(words), "{words:?} is gone:\n{}", self.lines().join("\n"));
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until some line contains `words`.
    #[track_caller]
    pub fn wait_for_any(&mut self, words: &str) {
        self.wait_until(words, |screen| screen.lines().iter().any(|line| line.contains(words)));
    }

    /// Waits for `words`, until the screen is as wanted.
    #[track_caller]
    fn wait_until(&mut self, words: &str, is_wanted: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_wanted(self) {
            let ended = matches!(self.child.try_wait(), Ok(Some(_)));
            assert!(
                !ended && begun.elapsed() < LIMIT,
                "no {words:?} (ended: {ended}) on\n{}",
                self.lines().join("\n")
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Types these bytes, and no end of a line.
    pub fn type_bytes(&mut self, bytes: &[u8]) {
        self.keyboard.write_all(bytes).and_then(|()| self.keyboard.flush()).unwrap();
    }

    /// Types a line.
    pub fn type_line(&mut self, line: &str) {
        self.type_bytes(format!("{line}\r").as_bytes());
    }

    /// Types a secret: [`Self::finish`] fails if it was ever shown.
    pub fn type_secret(&mut self, line: &str) {
        self.secrets.push(line.to_owned());
        self.type_line(line);
    }

    /// Waits for the end of the program. Returns its exit code and the screen.
    #[must_use]
    pub fn finish(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < LIMIT, "it does not end:\n{}", self.lines().join("\n"));
            thread::sleep(Duration::from_millis(10));
        };
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        for secret in &self.secrets {
            let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
            assert!(!String::from_utf8_lossy(&screen.seen).contains(secret), "{secret:?} was shown");
        }
        (status.code(), self.lines().join("\n"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            tagged(&self.tag).into_iter().for_each(kill);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A screen with the control sequences that the tested programs use.
#[derive(Debug, Default)]
struct Screen {
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// The start of an incomplete sequence or character.
    partial: Vec<u8>,
    /// All received bytes.
    seen: Vec<u8>,
}

impl Screen {
    fn lines(&self) -> Vec<String> {
        self.rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
    }

    fn line(&mut self) -> &mut Vec<char> {
        while self.rows.len() <= self.row {
            self.rows.push(Vec::new());
        }
        &mut self.rows[self.row]
    }

    fn write(&mut self, bytes: &[u8]) {
        self.seen.extend_from_slice(bytes);
        self.partial.extend_from_slice(bytes);
        while !self.partial.is_empty() {
            let used = self.step();
            if used == 0 {
                return;
            }
            self.partial.drain(..used);
        }
    }

    /// Processes the first character or sequence. Returns its length; 0 if it is incomplete.
    fn step(&mut self) -> usize {
        let bytes = std::mem::take(&mut self.partial);
        let used = self.take(&bytes);
        self.partial = bytes;
        used
    }

    fn take(&mut self, bytes: &[u8]) -> usize {
        match bytes {
            [b'\r', ..] => self.column = 0,
            [b'\n', ..] => {
                self.row += 1;
                self.line();
            }
            [8, ..] => self.column = self.column.saturating_sub(1),
            [0x1b, b'[', rest @ ..] => {
                let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else { return 0 };
                self.control(&rest[..end], rest[end]);
                return end + 3;
            }
            [0x1b] => return 0,
            [0x1b, _, ..] => return 2,
            [byte, ..] if *byte < 0x20 => {}
            [byte, ..] => {
                let len = match byte {
                    0xf0.. => 4,
                    0xe0.. => 3,
                    0xc0.. => 2,
                    _ => 1,
                };
                let Some(character) = bytes.get(..len) else { return 0 };
                let shown =
                    std::str::from_utf8(character).ok().and_then(|text| text.chars().next()).unwrap_or('?');
                self.put(shown);
                return len;
            }
            [] => return 0,
        }
        1
    }

    fn put(&mut self, shown: char) {
        if self.column == COLUMNS {
            (self.row, self.column) = (self.row + 1, 0);
        }
        let column = self.column;
        let line = self.line();
        while line.len() <= column {
            line.push(' ');
        }
        line[column] = shown;
        self.column += 1;
    }

    fn control(&mut self, parameters: &[u8], name: u8) {
        let number = std::str::from_utf8(parameters).ok().and_then(|text| text.parse::<usize>().ok());
        let count = number.unwrap_or(1).max(1);
        let column = self.column;
        match name {
            b'A' => self.row = self.row.saturating_sub(count),
            b'B' => self.row += count,
            b'C' => self.column = (column + count).min(COLUMNS),
            b'D' => self.column = column.saturating_sub(count),
            b'G' => self.column = count - 1,
            b'K' if number == Some(2) => self.line().clear(),
            b'K' => self.line().truncate(column),
            b'J' => {
                self.line().truncate(column);
                let row = self.row;
                self.rows.truncate(row + 1);
            }
            // Colours and visibility of the cursor.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_screen_has_the_lines_that_a_person_sees() {
        let mut screen = Screen::default();
        screen.write(b"one\r\ntwo\x1b[");
        screen.write("2K\rth\u{e9}".as_bytes());
        screen.write(b"\r\n\x1b[1A\x1b[2Kfour\r\nPassword: ");
        assert_eq!(screen.lines(), ["one", "four", "Password:"]);
        screen.write(b"\r\x1b[K\x1b[?25l\x1b[32mgreen\x1b[0m");
        assert_eq!(screen.lines(), ["one", "four", "green"]);
    }
}
