//! Uploads that an earlier run left incomplete.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::sync::OnceLock;

use haul_core::{ErrorKind, RelPath, Result};
use haul_object::{HeldPart, Upload};
use haul_streams::uploads::{self, Owner};

use super::tree::Tree;

/// The uploads that were incomplete when the run began, by key; listed once.
#[derive(Default)]
pub(super) struct OpenUploads(OnceLock<Mutex<HashMap<String, Vec<Upload>>>>);

impl OpenUploads {
    /// The newest upload of `key` that no local process is working on, with its parts.
    pub(super) fn take(&self, tree: &Tree, key: &str) -> Result<Option<(Upload, Vec<HeldPart>)>> {
        let client = &tree.client;
        let mut found =
            if client.terms().lists_uploads { self.of(tree, key)? } else { listed(client.uploads(key))? };
        found.retain(|upload| uploads::owner(client, upload) != Owner::Busy);
        // All times have the same format, so text order is time order.
        found.sort_by(|a, b| a.begun.cmp(&b.begun));
        let Some(upload) = found.pop() else { return Ok(None) };
        Ok(client.parts(&upload)?.map(|parts| (upload, parts)))
    }

    /// The uploads of `key`, from one listing of all below the root.
    fn of(&self, tree: &Tree, key: &str) -> Result<Vec<Upload>> {
        let all = match self.0.get() {
            Some(all) => all,
            None => {
                let root = tree.key(&RelPath::root());
                let mut all: HashMap<String, Vec<Upload>> = HashMap::new();
                for upload in listed(tree.client.uploads_below(&root))? {
                    all.entry(upload.key.clone()).or_default().push(upload);
                }
                self.0.get_or_init(|| Mutex::new(all))
            }
        };
        let found = all.lock().remove(key);
        Ok(found.unwrap_or_default())
    }
}

fn listed(found: Result<Vec<Upload>>) -> Result<Vec<Upload>> {
    match found {
        Err(error) if matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Cancelled) => Err(error),
        // Without permission to list uploads, a new one is begun.
        listed => Ok(listed.unwrap_or_default()),
    }
}
