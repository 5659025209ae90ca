//! Content that comes with the answer to the question about a small object, so that one request does for two.
//!
//! The scan asks about objects before anybody knows whether they will be read. Each small object that is read allows
//! two more to be fetched so: where all is new this is soon all of them, and where nothing is, none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use haul_core::Result;
use haul_object::{Client, Object};

/// Content that is held at a time, in bytes.
const ROOM: u64 = 32 << 20;

/// Longer objects, in bytes, are not fetched ahead: a question more hardly counts beside them.
const LONGEST: u64 = 256 << 10;

/// Objects that each one that is read allows to be fetched.
const EACH: u64 = 2;

/// The most that may be allowed at a time.
const MOST: u64 = 4096;

/// What may be fetched ahead, and is held.
#[derive(Default)]
pub(super) struct Ahead {
    allowed: AtomicU64,
    held: Arc<AtomicU64>,
}

/// Content until it is taken. It gives its room back.
pub(super) struct Content {
    bytes: Mutex<Option<Vec<u8>>>,
    room: Room,
}

/// A part of the room.
struct Room {
    held: Arc<AtomicU64>,
    len: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.held.fetch_sub(self.len, Ordering::Relaxed);
    }
}

impl Ahead {
    /// A file of `len` bytes was read.
    pub(super) fn was_read(&self, len: u64) {
        if len <= LONGEST {
            let more = |allowed: u64| Some((allowed + EACH).min(MOST));
            let _ = self.allowed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        }
    }

    /// What a listing names, asked of the store, with its content where that is worth it; `None` if it is gone.
    ///
    /// # Errors
    /// If the store does not say.
    pub(super) fn look(&self, client: &Client, listed: &Object) -> Result<Option<(Object, Option<Content>)>> {
        if let Some(room) = self.room(listed.len)
            && let Some((object, bytes)) = client.fetch(&listed.key, listed.len as usize)?
            && object.len == listed.len
        {
            let content = Content { bytes: Mutex::new(Some(bytes)), room };
            return Ok(Some((object, Some(content))));
        }
        Ok(client.look(&listed.key)?.map(|object| (object, None)))
    }

    fn room(&self, len: u64) -> Option<Room> {
        if len == 0 || len > LONGEST {
            return None;
        }
        let relaxed = Ordering::Relaxed;
        let fits = |held: u64| (held + len <= ROOM).then_some(held + len);
        self.held.fetch_update(relaxed, relaxed, fits).ok()?;
        let room = Room { held: Arc::clone(&self.held), len };
        self.allowed.fetch_update(relaxed, relaxed, |allowed| allowed.checked_sub(1)).ok()?;
        Some(room)
    }
}

impl Content {
    /// Its bytes, once.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.room.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_allows_more_up_to_the_room() {
        let ahead = Ahead::default();
        assert!(ahead.room(1).is_none(), "nothing was read yet");
        ahead.was_read(LONGEST + 1);
        assert!(ahead.room(1).is_none(), "it says nothing of small ones");
        (0..MOST).for_each(|_| ahead.was_read(1));
        assert!(ahead.room(0).is_none() && ahead.room(LONGEST + 1).is_none());
        let all: Vec<Room> = std::iter::from_fn(|| ahead.room(LONGEST)).collect();
        assert_eq!(all.len() as u64, ROOM / LONGEST);
        drop(all);
        assert_eq!(std::iter::from_fn(|| ahead.room(1)).count() as u64, MOST - ROOM / LONGEST);
        assert_eq!(ahead.held.load(Ordering::Relaxed), 0, "what was not taken gives its room back");
    }
}
