//! How a stream is stored: as an object, or as the many objects of a backup.

use std::sync::Arc;

use haul_core::{Error, ErrorKind, ObjectPlace, Result, Side};
use haul_job::only_object;
use haul_object::{Client, Object};
use haul_streams::get::find;
use haul_streams::xbcloud::ChunkObjects;

use super::fifo::streams_below;
use crate::settings::check_object;

/// A stream in a store.
pub(super) enum StoredStream {
    /// One object.
    Object(Object),
    /// The chunks that xbcloud stored.
    Chunks(Arc<ChunkObjects>),
    /// The streams of one backup, which `haul put --fifo-dir` stored.
    Several(Vec<Object>),
}

/// Finds the stream at `place`: the object, or a backup whose objects are below the key.
///
/// # Errors
/// [`ErrorKind::NotFound`] if there is neither, [`ErrorKind::Usage`] for a place that names no object, `Corrupt` if a
/// part of a backup is missing; else errors of the requests.
pub(super) fn find_stream(client: &Arc<Client>, place: &ObjectPlace) -> Result<StoredStream> {
    let missing = match check_object(place).and_then(|()| only_object(client, place)) {
        Ok(key) => match find(client, &key) {
            Ok(object) => return Ok(StoredStream::Object(object)),
            Err(error) => error,
        },
        Err(error) => error,
    };
    let key = place.key.strip_suffix('/').unwrap_or(&place.key);
    if key.is_empty() || !matches!(missing.kind(), ErrorKind::NotFound | ErrorKind::Usage) {
        return Err(missing);
    }
    let chunks = match ChunkObjects::find(client, key) {
        // Who may read an object need not be allowed to list others.
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound) => {
            return Err(missing);
        }
        found => found?,
    };
    if let Some(chunks) = chunks {
        return Ok(StoredStream::Chunks(Arc::new(chunks)));
    }
    let prefix = format!("{key}/");
    let keys = streams_below(client, &prefix)?;
    let names: Vec<&str> = keys.iter().map(|key| &key[prefix.len()..]).collect();
    let Some(count) = thread_count(&names) else {
        return Err(if names.is_empty() { missing } else { is_prefix(&missing, client, &prefix) });
    };
    if count > names.len() as u64 {
        let cause = format!("of its streams, thread_0 to thread_{}, {} are there", count - 1, names.len());
        let error = Error::new(ErrorKind::Corrupt, Side::Source, "find", cause);
        return Err(error.on(client.name(key)).with_hint("--fifo-dir takes those that are there"));
    }
    Ok(StoredStream::Several(keys.iter().map(|key| find(client, key)).collect::<Result<_>>()?))
}

/// The error of a key that has objects below it, and is none itself.
fn is_prefix(missing: &Error, client: &Client, prefix: &str) -> Error {
    let cause = "it is a prefix, and a get reads one object";
    let error = Error::new(missing.kind(), Side::Source, "get", cause).on(client.name(prefix));
    error.with_hint(format!("`haul copy {} DIR` copies all that is below it", client.name(prefix)))
}

/// The number of streams of a backup of xtrabackup whose names these are, at least; `None` if there is another name.
fn thread_count(names: &[&str]) -> Option<u64> {
    let number = |name: &&str| name.strip_prefix("thread_")?.parse::<u64>().ok()?.checked_add(1);
    names.iter().map(number).try_fold(None, |most, number| Some(most.max(Some(number?))))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_streams_of_a_backup_are_numbered() {
        assert_eq!(thread_count(&["thread_0", "thread_1", "thread_2"]), Some(3));
        assert_eq!(thread_count(&["thread_0", "thread_2"]), Some(3), "one is missing");
        for others in [&["monday.xb", "tuesday.xb"][..], &["thread_0", "x"], &["thread_x"], &[]] {
            assert_eq!(thread_count(others), None, "{others:?}");
        }
    }
}
