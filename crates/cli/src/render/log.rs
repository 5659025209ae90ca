//! The log of `--log-file`: a line with the time for each event.

use haul_core::sync::Mutex;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use haul_core::text::one_line;
use jiff::{Timestamp, Unit};

use super::log_words::without_secrets;

/// Lines are written together, at most so many bytes.
const HELD: usize = 64 * 1024;

/// A log. The first failure is kept and nothing is written after it.
pub(super) struct Log(Mutex<LogState>);

struct LogState {
    out: File,
    /// Whole lines that are not written yet: another process may append to the same file.
    held: Vec<u8>,
    failure: Option<io::Error>,
    has_ended: bool,
}

impl Log {
    /// Opens the log at `path`, at its end, and writes the first line.
    ///
    /// # Errors
    /// If it cannot be opened or written.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let out = File::options().append(true).create(true).open(path)?;
        let log = Self(Mutex::new(LogState { out, held: Vec::new(), failure: None, has_ended: false }));
        let words = without_secrets(std::env::args_os());
        log.line(&format!("start: haul {}: {words}", env!("CARGO_PKG_VERSION")));
        log.flush();
        let failure = log.0.lock().failure.take();
        failure.map_or(Ok(log), Err)
    }

    /// Adds a line. Unsafe characters are escaped.
    pub(super) fn line(&self, text: &str) {
        let mut state = self.0.lock();
        let line = format!("{} [{}] {}\n", now(), std::process::id(), one_line(text));
        if state.held.len() + line.len() > HELD {
            state.write();
        }
        state.held.extend_from_slice(line.as_bytes());
    }

    /// Adds a line and writes all lines that are held.
    pub(super) fn line_now(&self, text: &str) {
        self.line(text);
        self.flush();
    }

    /// Writes the lines that are held.
    pub(super) fn flush(&self) {
        self.0.lock().write();
    }

    /// Adds the last lines. `Err` is the reason why the log is incomplete.
    pub(super) fn end(&self, summary: &str, exit_code: u8) -> Result<(), String> {
        summary.lines().for_each(|line| self.line(&format!("summary: {line}")));
        self.line_now(&format!("end: exit code {exit_code}"));
        let mut state = self.0.lock();
        state.has_ended = true;
        state.failure.as_ref().map_or(Ok(()), |error| Err(error.to_string()))
    }
}

impl LogState {
    fn write(&mut self) {
        let lines = std::mem::take(&mut self.held);
        if self.failure.is_none() && !lines.is_empty() {
            self.failure = self.out.write_all(&lines).err();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.0.lock().has_ended {
            self.line_now("end: without a summary; standard error has the reason");
        }
    }
}

fn now() -> String {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_one_line_behind_the_earlier_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "before\n").unwrap();
        let log = Log::open(&path).unwrap();
        log.line("a\nb\u{1b}[2J");
        log.end("one\ntwo\n", 3).unwrap();
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "before");
        let rest = |line: &str| line.split_once("] ").map(|(_, rest)| rest.to_owned()).unwrap();
        assert!(rest(lines[1]).starts_with("start: haul "));
        let ends: Vec<String> = lines[2..].iter().map(|line| rest(line)).collect();
        assert_eq!(ends, ["a\\x0ab\\x1b[2J", "summary: one", "summary: two", "end: exit code 3"]);
        for line in &lines[1..] {
            let (time, _) = line.split_once(" [").unwrap();
            assert!(time.parse::<Timestamp>().is_ok(), "{line}");
        }
    }

    #[test]
    fn a_run_that_ends_early_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        drop(Log::open(&path).unwrap());
        assert!(std::fs::read_to_string(&path).unwrap().contains("] end: without a summary"));
    }

    #[test]
    fn a_failure_is_kept() {
        assert!(Log::open(Path::new("/dev/full")).is_err());
        let full = File::options().append(true).open("/dev/full").unwrap();
        let state = LogState { out: full, held: Vec::new(), failure: None, has_ended: false };
        let log = Log(Mutex::new(state));
        log.line_now("lost");
        assert!(log.end("", 0).is_err());
    }
}
