//! Blocks of a stream that several readers need: each is fetched once and kept for a while.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use haul_core::Result;
use haul_core::sync::{Condvar, Mutex};

/// Takes the bytes of a range in order; `None` if they begin anew.
pub(super) type TakeBlockBytes<'a> = dyn FnMut(Option<&[u8]>) + Send + 'a;

/// A few blocks.
pub(super) struct Blocks {
    capacity: usize,
    state: Mutex<BlocksState>,
    changed: Condvar,
}

#[derive(Default)]
struct BlocksState {
    /// `None`: a reader fetches it.
    blocks: HashMap<u64, Option<Arc<Vec<u8>>>>,
    /// Blocks that are here, the one used last at the end.
    used: VecDeque<u64>,
}

impl Blocks {
    /// At most so many, at least two.
    pub(super) fn new(capacity: u64) -> Self {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX).max(2);
        Self { capacity, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Hands over a range of a stream whose blocks have `len` bytes and are fetched by `fetch`.
    ///
    /// # Errors
    /// That of `fetch`.
    pub(super) fn read(
        &self,
        range: Range<u64>,
        len: u64,
        take: &mut TakeBlockBytes<'_>,
        fetch: impl Fn(u64) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let index = at / len;
            let block = self.get(index, &fetch)?;
            let end = range.end.min((index + 1) * len);
            let (from, to) = ((at % len) as usize, (end - index * len) as usize);
            if let Some(bytes) = block.get(from..to) {
                take(Some(bytes));
            }
            at = end;
        }
        Ok(())
    }

    fn get(&self, index: u64, fetch: &impl Fn(u64) -> Result<Vec<u8>>) -> Result<Arc<Vec<u8>>> {
        let mut state = self.state.lock();
        loop {
            match state.blocks.get(&index).cloned() {
                Some(Some(block)) => {
                    state.used.retain(|other| *other != index);
                    state.used.push_back(index);
                    return Ok(block);
                }
                None if state.blocks.len() < self.capacity => break,
                None => {
                    if let Some(oldest) = state.used.pop_front() {
                        state.blocks.remove(&oldest);
                        continue;
                    }
                }
                Some(None) => {}
            }
            state = self.changed.wait(state);
        }
        state.blocks.insert(index, None);
        drop(state);
        let fetched = fetch(index).map(Arc::new);
        let mut state = self.state.lock();
        match &fetched {
            Ok(block) => {
                state.blocks.insert(index, Some(Arc::clone(block)));
                state.used.push_back(index);
            }
            Err(_) => drop(state.blocks.remove(&index)),
        }
        drop(state);
        self.changed.notify_all();
        fetched
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{Error, ErrorKind, Side};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn readers_share_blocks_and_a_failed_one_is_fetched_again() {
        let (blocks, fetched) = (Blocks::new(3), AtomicU64::new(0));
        let fetch = |index: u64| {
            if fetched.fetch_add(1, Ordering::Relaxed) == 0 {
                return Err(Error::new(ErrorKind::Io, Side::Source, "read", "no"));
            }
            Ok((0..10).map(|at| (index * 10 + at) as u8).collect())
        };
        let read = |range: Range<u64>| {
            let mut all = Vec::new();
            blocks.read(range, 10, &mut |bytes| all.extend_from_slice(bytes.unwrap()), fetch).map(|()| all)
        };
        assert!(read(0..5).is_err());
        std::thread::scope(|scope| {
            for from in 0..8 {
                scope.spawn(move || {
                    for start in 0..90 {
                        let range = start..start + 7 + from;
                        assert!(read(range.clone()).unwrap() == range.map(|at| at as u8).collect::<Vec<_>>());
                    }
                });
            }
        });
        let before = fetched.load(Ordering::Relaxed);
        assert!(read(0..30).is_ok() && read(0..30).is_ok());
        assert!(fetched.load(Ordering::Relaxed) <= before + 3);
    }
}
