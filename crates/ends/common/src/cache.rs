//! A small map that evicts the least recently used entries.

use std::collections::HashMap;
use std::hash::Hash;

/// Keeps at most `cap` values. When it is full, the less recently used half is evicted.
pub struct Cache<K, V> {
    map: HashMap<K, (V, u64)>,
    clock: u64,
    cap: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    /// A cache of at most `cap` entries.
    pub fn new(cap: usize) -> Self {
        Self { map: HashMap::new(), clock: 0, cap }
    }

    /// The value of `key`, which counts as used.
    pub fn get(&mut self, key: &K) -> Option<V> {
        self.clock += 1;
        let (value, used) = self.map.get_mut(key)?;
        *used = self.clock;
        Some(value.clone())
    }

    /// Keeps a value, and evicts others if the cache is full.
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

    /// Keeps a value unless the key has one, and gives the value of the key. If several threads make a value at the
    /// same time, all get the first one.
    pub fn put_new(&mut self, key: K, value: V) -> V {
        if let Some(known) = self.get(&key) {
            return known;
        }
        self.put(key, value.clone());
        value
    }

    /// Evicts the entries whose keys are `gone`.
    pub fn forget(&mut self, gone: impl Fn(&K) -> bool) {
        self.map.retain(|key, _| !gone(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entries_are_evicted() {
        let mut cache = Cache::new(4);
        (0..4).for_each(|key| cache.put(key, key * 10));
        assert_eq!(cache.get(&0), Some(0));
        cache.put(4, 40);
        assert_eq!((cache.get(&0), cache.get(&4)), (Some(0), Some(40)));
        assert_eq!((cache.get(&1), cache.get(&2)), (None, None));
        assert!(cache.map.len() <= 4);
    }

    #[test]
    fn the_first_value_of_a_key_stays_until_it_is_forgotten() {
        let mut cache = Cache::new(4);
        assert_eq!((cache.put_new("a", 1), cache.put_new("a", 2)), (1, 1));
        cache.put("b", 3);
        cache.forget(|key| *key == "a");
        assert_eq!((cache.get(&"a"), cache.get(&"b")), (None, Some(3)));
    }
}
