//! Messages that were recorded.

use haul_wire::{Response, Welcome};

use super::parts::{Part, Shape, parts};

/// A message that was recorded.
#[derive(Clone, Debug)]
pub struct Message {
    pub(super) welcome: bool,
    pub(super) body: Vec<u8>,
}

impl Message {
    pub(super) fn parts(&self) -> Vec<Part> {
        parts_of(self.welcome, &self.body)
    }
}

/// The parts of a message; none where it cannot be decoded.
pub(super) fn parts_of(welcome: bool, body: &[u8]) -> Vec<Part> {
    let parts = if welcome { parts::<Welcome>("Welcome", body) } else { parts::<Response>("Response", body) };
    parts.unwrap_or_default()
}

/// The kind of a message: `Welcome`, `Response.Scan` …
pub(super) fn name_of(welcome: bool, parts: &[Part]) -> String {
    match parts.last().map(|part| &part.shape) {
        Some(Shape::Choice { variants, chosen }) if !welcome => {
            format!("Response.{}", variants[*chosen as usize])
        }
        _ => "Welcome".to_owned(),
    }
}
