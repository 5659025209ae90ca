//! Where a value comes from.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A line of a file, counted from 1.
    Line(Arc<Path>, usize),
    /// An environment variable.
    Variable(String),
}

impl Origin {
    /// A message about the value.
    pub(super) fn says(&self, message: impl fmt::Display) -> String {
        format!("{self}: {message}")
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
        }
    }
}
