//! The objects that `haul rm` removes by name, size and age. A sidecar object goes with its stream, whatever its own size and age.

use haul_core::Result;
use haul_object::{Client, Object};
use haul_streams::sidecar::{self, SidecarObject};

use crate::render::{OutputLines, print_error, removed_line};

/// The listed objects of which the sidecar may follow, and whether each was selected. Listings are sorted, so a later
/// name between a key and that of its sidecar begins with the key: there are no more of them than a key has bytes.
#[derive(Default)]
pub(super) struct ListedStreams(Vec<(String, bool)>);

impl ListedStreams {
    /// The stream, and whether it was selected, if the key is that of its sidecar.
    fn of_sidecar(&mut self, key: &str) -> Option<&(String, bool)> {
        while self.0.last().is_some_and(|(last, _)| !key.starts_with(&last[..])) {
            let _ = self.0.pop();
        }
        self.0.iter().rev().find(|(stream, _)| key == sidecar::key_of(stream))
    }

    fn add(&mut self, key: &str, selected: bool) {
        self.0.push((key.to_owned(), selected));
    }
}

/// Removes objects, and prints each. Returns the number of failures, which are printed too.
///
/// # Errors
/// Refused requests.
pub(super) fn remove_keys(
    client: &Client,
    keys: &[String],
    (dry_run, quiet): (bool, bool),
    lines: &OutputLines,
) -> Result<usize> {
    let left = if dry_run || keys.is_empty() { Vec::new() } else { client.remove(keys)? };
    left.iter().for_each(|(_, error)| print_error(error));
    for key in keys.iter().filter(|key| !quiet && !left.iter().any(|(other, _)| other == *key)) {
        lines.write(&removed_line(&client.name(key), dry_run));
    }
    Ok(left.len())
}

/// The keys of the selected objects of a page, and of their sidecars.
///
/// # Errors
/// Those of `selects`, and of requests to the store.
pub(super) fn selected(
    client: &Client,
    objects: &[Object],
    selects: &dyn Fn(&Object) -> Result<bool>,
    streams: &mut ListedStreams,
) -> Result<Vec<String>> {
    let mut keys = Vec::new();
    for object in objects {
        let key = &object.key;
        let mut takes = selects(object)?;
        // Another object may have the name of the sidecar.
        if let Some((stream, goes)) = streams.of_sidecar(key).filter(|(_, goes)| *goes != takes)
            && sidecar::beside(client, stream)? == SidecarObject::Sidecar
        {
            takes = *goes;
        }
        streams.add(key, takes);
        if takes {
            keys.push(key.clone());
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecars_follow_their_streams() {
        let mut streams = ListedStreams::default();
        let mut told = Vec::new();
        for (key, selected) in [
            ("a", true),
            ("a-1", false),
            ("a-1.haul", true),
            ("a.haul", false),
            ("ab", true),
            ("b.haul", true),
        ] {
            told.push(streams.of_sidecar(key).map(|(_, selected)| *selected));
            streams.add(key, selected);
        }
        assert_eq!(told, [None, None, Some(false), Some(true), None, None]);
        assert!(streams.0.len() <= 2, "only what the last key begins with is kept");
    }
}
