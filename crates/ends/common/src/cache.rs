//! A small map that forgets what was not used for longest.

use std::collections::HashMap;
use std::hash::Hash;

/// Keeps at most `cap` values; when full, the less recently used half goes.
pub struct Cache<K, V> {
    map: HashMap<K, (V, u64)>,
    clock: u64,
    cap: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    /// For at most `cap` entries.
    pub fn new(cap: usize) -> Self {
        Self { map: HashMap::new(), clock: 0, cap }
    }

    /// What is kept under `key`; it counts as used.
    pub fn get(&mut self, key: &K) -> Option<V> {
        self.clock += 1;
        let (value, used) = self.map.get_mut(key)?;
        *used = self.clock;
        Some(value.clone())
    }

    /// Keeps it; the entry that was not used for longest goes where there is no room.
    pub fn put(&mut self, key: K, value: V) {
        if self.map.len() >= self.cap {
            let mut ages: Vec<u64> = self.map.values().map(|(_, used)| *used).collect();
            let middle = ages.len() / 2;
            let (_, median, _) = ages.select_nth_unstable(middle);
            let median = *median;
            self.map.retain(|_, (_, used)| *used > median);
        }
        self.clock += 1;
        self.map.insert(key, (value, self.clock));
    }

    /// Puts a value under a key that has none; gives the one that it has then. Of several who made one at the same time
    /// all have the first.
    pub fn put_new(&mut self, key: K, value: V) -> V {
        if let Some(there) = self.get(&key) {
            return there;
        }
        self.put(key, value.clone());
        value
    }

    /// Removes the entries whose keys are `gone`.
    pub fn forget(&mut self, gone: impl Fn(&K) -> bool) {
        self.map.retain(|key, _| !gone(key));
    }
}
