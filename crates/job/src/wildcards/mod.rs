//! Wildcards in the paths of remote sources and in keys: `*`, `?` and `[...]`, in any component, as a shell expands
//! them. The local shell has expanded those of local paths already.

mod expand;
mod keys;
mod names;
mod open;

pub(crate) use expand::expand;
pub use keys::{KeyPattern, MatchingPage, exists_key, is_key_pattern, only_object};
pub(crate) use open::open_source;
pub use open::{OpenedSource, each_source, open_sources};
