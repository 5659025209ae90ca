//! Runs a program that says little and ends soon.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often the program is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// The most bytes of its words that are read.
const MOST: u64 = 64 * 1024;

/// Why a program has no result.
#[derive(Debug)]
pub(crate) enum RunFailure {
    /// There is no such program.
    NotFound,
    /// It took too long, and was ended.
    Late,
    /// The run was stopped.
    Cancelled,
    /// The system refuses it.
    Refused(io::Error),
}

impl From<io::Error> for RunFailure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::NotFound { Self::NotFound } else { Self::Refused(error) }
    }
}

/// Runs a program without input. Returns whether it succeeded, and its messages, in English.
///
/// # Errors
/// If it has no result.
pub(crate) fn short_run(
    command: &mut Command,
    most: Duration,
    cancel: &AtomicBool,
) -> Result<(bool, String), RunFailure> {
    // A file takes everything, so that the program never waits for a reader.
    let mut words = tempfile::tempfile().map_err(RunFailure::Refused)?;
    let [out, err]: [File; 2] = [words.try_clone()?, words.try_clone()?];
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(out).stderr(err);
    let mut child = command.spawn()?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let is_stopped = cancel.load(Ordering::Relaxed);
        if is_stopped || begun.elapsed() > most {
            // It may have ended meanwhile.
            let _ = child.kill();
            let _ = child.wait();
            return Err(if is_stopped { RunFailure::Cancelled } else { RunFailure::Late });
        }
        thread::sleep(LOOK);
    };
    // Ctrl-C reaches the program, too.
    if !status.success() && cancel.load(Ordering::Relaxed) {
        return Err(RunFailure::Cancelled);
    }
    let mut said = Vec::new();
    words.rewind()?;
    words.take(MOST).read_to_end(&mut said)?;
    Ok((status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_words_and_the_end_of_a_program_are_returned() {
        let goes_on = AtomicBool::new(false);
        let run = |script: &str| short_run(&mut sh(script), Duration::from_secs(20), &goes_on);
        let (succeeded, said) = run("echo one; echo two >&2").unwrap();
        assert!(succeeded && said.contains("one\n") && said.contains("two\n"), "{said}");
        let (succeeded, said) = run("yes | head -c 300000; exit 3").unwrap();
        assert!(!succeeded && said.len() == 64 * 1024);
        let missing = short_run(&mut Command::new("/no/such/program"), Duration::from_secs(1), &goes_on);
        assert!(matches!(missing, Err(RunFailure::NotFound)));
    }

    #[test]
    fn a_program_that_takes_too_long_or_that_nobody_waits_for_is_ended() {
        let begun = Instant::now();
        let late = short_run(&mut sh("exec sleep 60"), Duration::from_millis(50), &AtomicBool::new(false));
        assert!(matches!(late, Err(RunFailure::Late)));
        let stopped = short_run(&mut sh("exec sleep 60"), Duration::from_secs(60), &AtomicBool::new(true));
        assert!(matches!(stopped, Err(RunFailure::Cancelled)));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
