//! Messages that were recorded.

use haul_wire::{FrameKind, Response, Welcome, encode};

use super::parts::{MessageField, PartShape, parts};

/// A message that was recorded.
#[derive(Clone, Debug)]
pub struct Message {
    pub(super) welcome: bool,
    pub(super) body: Vec<u8>,
}

impl Message {
    pub(super) fn parts(&self) -> Vec<MessageField> {
        parts_of(self.welcome, &self.body)
    }
}

/// The frame in which a remote haul of another version welcomes a local one.
///
/// # Panics
/// If the release is too long for a frame.
#[must_use]
pub fn welcome_of(version: u32, release: &str) -> Vec<u8> {
    let mut welcome = Welcome::new(Err("it speaks another version".to_owned()));
    (welcome.version, welcome.release) = (version, release.to_owned());
    encode(FrameKind::Welcome, 0, &welcome, 0).expect("a short message is encoded")
}

/// The parts of a message; none where it cannot be decoded.
pub(super) fn parts_of(welcome: bool, body: &[u8]) -> Vec<MessageField> {
    let parts = if welcome { parts::<Welcome>("Welcome", body) } else { parts::<Response>("Response", body) };
    parts.unwrap_or_default()
}

/// The kind of a message: `Welcome`, `Response.Scan` …
pub(super) fn name_of(welcome: bool, parts: &[MessageField]) -> String {
    match parts.last().map(|part| &part.shape) {
        Some(PartShape::Choice { variants, chosen }) if !welcome => {
            format!("Response.{}", variants[*chosen as usize])
        }
        _ => "Welcome".to_owned(),
    }
}
