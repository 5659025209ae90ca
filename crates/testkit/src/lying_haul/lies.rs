//! The possible lies: every part of the messages with all changes that it can have.

use std::collections::{BTreeMap, BTreeSet};

use super::changes::changes;
use super::frame;
use super::message::{Message, name_of};
use super::parts::PartShape;
use super::samples;
use super::shell;

/// All lies about parts of one kind.
#[derive(Clone, Debug, Default)]
pub struct Lies {
    /// The names of the changes.
    pub changes: BTreeSet<String>,
    /// How often it was there in the recording.
    pub count: u64,
}

/// The lies about each part of the recorded messages, by the key of the part.
#[must_use]
pub fn lies(messages: &[Message]) -> BTreeMap<String, Lies> {
    let mut all: BTreeMap<String, Lies> = BTreeMap::new();
    for message in messages {
        let parts = message.parts();
        let frame = all.entry(format!("Frame.{}", name_of(message.welcome, &parts))).or_default();
        frame.count += 1;
        frame.changes.extend(frame::CHANGES.iter().map(|name| (*name).to_owned()));
        if !message.welcome && name_of(false, &parts) == "Response.Write" {
            let claims = all.entry("Claim.Write".to_owned()).or_default();
            claims.count += 1;
            claims.changes.extend(shell::CLAIMS.iter().map(|name| (*name).to_owned()));
        }
        for part in &parts {
            let lies = all.entry(part.key.clone()).or_default();
            lies.count += 1;
            // Later ones can become the same.
            if lies.count <= 8 {
                lies.changes.extend(changes(part, &message.body).into_iter().map(|(name, _)| name));
            }
        }
    }
    all.retain(|_, lies| !lies.changes.is_empty());
    all
}

/// The kinds of response that there are, by the wire crate.
#[must_use]
pub fn kinds() -> Vec<&'static str> {
    let samples = samples::all();
    let last = samples.iter().filter_map(|(_, parts)| parts.last());
    let all = last.filter(|part| part.key == "Response").find_map(|part| match &part.shape {
        PartShape::Choice { variants, .. } => Some(variants.to_vec()),
        _ => None,
    });
    all.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::changes::replaced;
    use super::*;

    #[test]
    fn every_kind_of_response_has_a_sample() {
        let samples = samples::all();
        let named: BTreeSet<String> =
            samples.iter().map(|(_, parts)| name_of(parts[0].key.starts_with("Welcome"), parts)).collect();
        for kind in kinds() {
            assert!(named.contains(&format!("Response.{kind}")), "{kind}");
        }
    }

    #[test]
    fn every_part_of_a_sample_can_become_something_else_of_its_own_place_only() {
        let mut count = 0;
        for (body, parts) in samples::all() {
            for part in &parts {
                let all = changes(part, &body);
                assert!(!all.is_empty() || part.at.is_empty(), "{}", part.key);
                for (name, bytes) in all {
                    let told = replaced(&body, &part.at, &bytes);
                    assert!(told != body, "{} {name}", part.key);
                    count += 1;
                }
            }
        }
        assert!(count > 2000, "{count}");
    }
}
