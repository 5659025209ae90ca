//! Content that comes with the answer to the question about a small object, so that one request does for two.
//!
//! The scan asks about objects before anybody knows whether they will be read. Each small object that is read allows
//! two more to be fetched so: where all is new this is soon all of them, and where nothing is, none.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// If nothing that is held is taken for so long, nobody wants it.
const PATIENCE: Duration = Duration::from_millis(500);

/// What may be fetched ahead, and is held.
#[derive(Default)]
pub(super) struct Ahead(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is more room.
    freed: Condvar,
}

#[derive(Default)]
struct State {
    allowed: u64,
    held: u64,
    /// When content was taken last.
    taken: Option<Instant>,
}

/// Content until it is taken. Then, or when it is forgotten, its room is free again.
pub(super) struct Content {
    held: Mutex<Option<(Vec<u8>, Room)>>,
    len: u64,
}

/// A part of the room.
struct Room {
    shared: Arc<Shared>,
    len: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shared.lock().held -= self.len;
        self.shared.freed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Ahead {
    /// A file of `len` bytes was read.
    pub(super) fn was_read(&self, len: u64) {
        if len <= LONGEST {
            let mut state = self.0.lock();
            state.allowed = (state.allowed + EACH).min(MOST);
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
            return Ok(Some((object, Some(Content::new(bytes, room)))));
        }
        Ok(client.look(&listed.key)?.map(|object| (object, None)))
    }

    /// Room for an object that may be fetched ahead. Waits for it as long as what is held is being read.
    fn room(&self, len: u64) -> Option<Room> {
        if len == 0 || len > LONGEST {
            return None;
        }
        let mut state = self.0.lock();
        while state.allowed > 0 {
            if state.held + len <= ROOM {
                state.allowed -= 1;
                state.held += len;
                return Some(Room { shared: Arc::clone(&self.0), len });
            }
            let Some(left) = state.taken.and_then(|taken| PATIENCE.checked_sub(taken.elapsed())) else {
                state.allowed = 0;
                break;
            };
            state = self.0.freed.wait_timeout(state, left).0;
        }
        None
    }
}

impl Content {
    fn new(bytes: Vec<u8>, room: Room) -> Self {
        Self { len: room.len, held: Mutex::new(Some((bytes, room))) }
    }

    /// Its bytes, once.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        let (bytes, room) = self.held.lock().take()?;
        room.shared.lock().taken = Some(Instant::now());
        Some(bytes)
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
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
        assert!(ahead.room(1).is_none(), "nobody has read what was held");
        assert_eq!(ahead.0.lock().held, 0, "it gave its room back all the same");
    }

    #[test]
    fn room_is_waited_for_while_content_is_taken() {
        let ahead = Ahead::default();
        (0..MOST).for_each(|_| ahead.was_read(1));
        let hold = |room| Content::new(vec![1], room);
        let all: Vec<Content> = (0..ROOM / LONGEST).filter_map(|_| ahead.room(LONGEST).map(hold)).collect();
        assert_eq!((all[0].take(), all[0].take()), (Some(vec![1]), None));
        let again = ahead.room(LONGEST);
        assert!(again.is_some(), "what was taken has given its room back");
        std::thread::scope(|scope| {
            let more = scope.spawn(|| ahead.room(LONGEST).is_some());
            drop(again);
            assert!(more.join().unwrap());
        });
    }
}
