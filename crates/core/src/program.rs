//! Programs as ends of a stream.

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
