//! Random numbers, for names that no other run uses and for pauses that differ. Secrets need more: they come from the
//! system, which may refuse.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A random number. The keys of each [`RandomState`] come from the random source of the system.
#[must_use]
pub fn number() -> u128 {
    let half = || u128::from(RandomState::new().build_hasher().finish());
    half() << 64 | half()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_number_and_no_half_comes_twice() {
        let draw = || (0..1000).map(|_| number()).collect::<Vec<_>>();
        let numbers: Vec<u128> =
            (0..4).map(|_| std::thread::spawn(draw)).flat_map(|thread| thread.join().unwrap()).collect();
        let halves: HashSet<u64> =
            numbers.iter().flat_map(|number| [*number as u64, (*number >> 64) as u64]).collect();
        assert_eq!(halves.len(), 2 * numbers.len());
    }
}
