//! Compares the metadata of entries whose content the caller compares ([`haul_core::Compare::Metadata`]).

use haul_core::{Answer, Changes, Entry};
use haul_object::Object;

use super::metadata;
use super::sink_state::SinkState;

/// Compares the recorded metadata of an existing object, or of a directory that may have none. Objects of other
/// programs have no metadata to compare.
pub(super) fn answer(sink: &SinkState, entry: &Entry, object: Option<&Object>) -> Answer {
    let Some(object) = object.filter(|object| metadata::are_there(object)) else {
        sink.warnings.note("metadata", "none is recorded", &entry.path);
        return Answer::Same;
    };
    let there = metadata::read(&entry.path, object, entry.is_dir(), None);
    let is_same_time = sink.options.is_same_time(there.mtime, entry.mtime);
    let changes = metadata::changes(object, entry, &sink.options.preserve);
    let changes = changes.without(Changes::TIME.when(is_same_time));
    if changes.is_empty() { Answer::Same } else { Answer::Updated(changes) }
}
