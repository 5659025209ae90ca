//! Programs as ends of a stream.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

/// The most text of a program in one answer, in bytes.
pub const MAX_SAID: usize = 64 * 1024;

/// A program that writes a stream to its standard output, or reads one from its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The program and its arguments. A single word that a shell would split or interpret is a command line of bash.
    pub words: Vec<Vec<u8>>,
}

/// The text that a program has written to its standard error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// The text, at most [`MAX_SAID`] bytes; empty if there was none for a moment.
    #[serde(with = "serde_bytes")]
    pub text: Vec<u8>,
    /// Nothing follows.
    pub ended: bool,
}

impl Said {
    /// The answer of an end that is no program.
    #[must_use]
    pub fn nothing() -> Self {
        Self { text: Vec::new(), ended: true }
    }
}

/// How a program ended, in the words of a shell.
#[must_use]
pub fn ending(status: ExitStatus) -> String {
    if let Some(code) = status.code() {
        return format!("it exited with code {code}");
    }
    // The standard library knows the names of signals, in `signal: 9 (SIGKILL)`.
    let said = status.to_string();
    match (status.signal(), said.strip_prefix("signal: ")) {
        (Some(_), Some(named)) => format!("it was killed by signal {named}"),
        (Some(number), None) => format!("it was killed by signal {number}"),
        (None, _) => format!("it ended with {said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_program_has_the_words_of_a_shell() {
        let said = |status| ending(ExitStatus::from_raw(status));
        assert_eq!(said(3 << 8), "it exited with code 3");
        assert_eq!(said(9), "it was killed by signal 9 (SIGKILL)");
        assert_eq!(said(11 | 0x80), "it was killed by signal 11 (SIGSEGV) (core dumped)");
    }
}
