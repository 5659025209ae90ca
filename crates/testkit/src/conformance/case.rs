//! A case: one promise, the properties that an end needs for it, and the function that tests it.

use super::bench::TestBench;
use super::keeps::Keeps;

/// One promise.
pub struct ConformanceCase {
    /// Its name, which is that of its function.
    pub name: &'static str,
    /// Whether an end that keeps this can be held to it.
    pub needs: fn(&Keeps) -> bool,
    /// Panics if the promise is broken.
    pub(super) run: fn(&TestBench),
}

/// Lists functions as cases. `name if field` is for ends whose [`Keeps`] has that field set.
macro_rules! cases {
    ($($name:ident $(if $needs:ident)*),* $(,)?) => {
        &[$($crate::conformance::case::ConformanceCase {
            name: stringify!($name),
            needs: |keeps| {
                let _ = keeps;
                true $(&& keeps.$needs)*
            },
            run: $name,
        }),*]
    };
}

pub(super) use cases;
