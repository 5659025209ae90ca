//! Why bytes are not a valid frame.

use std::fmt;

use haul_core::{Error, ErrorKind, Side};

/// Why bytes are not a frame, or a message does not fit into one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The magic bytes are wrong.
    Magic,
    /// The header is damaged.
    HeaderCrc,
    /// The kind is unknown, or reserved bytes are not zero.
    Kind,
    /// A length is over its limit.
    Length,
    /// The body is damaged.
    BodyCrc,
    /// The body is not a message.
    Body,
    /// The message breaks a rule.
    Rule(&'static str),
    /// The message does not fit into a body.
    TooLarge,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("it is not a frame of haul"),
            Self::HeaderCrc => f.write_str("a frame's header is damaged"),
            Self::Kind => f.write_str("a frame is of an unknown kind"),
            Self::Length => f.write_str("a frame is longer than allowed"),
            Self::BodyCrc => f.write_str("a frame's body is damaged"),
            Self::Body => f.write_str("a frame's body is no message"),
            Self::Rule(why) => write!(f, "a message breaks a rule: {why}"),
            Self::TooLarge => f.write_str("a message is larger than a frame may be"),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Self {
        Self::new(ErrorKind::Protocol, Side::Wire, "talk to the other end", error.to_string())
    }
}
