//! Packs the content of batches for the wire and unpacks it again, and decides how hard to try.
//!
//! Content is packed as it is sent, batch by batch, and unpacked before anything looks at it: digests and proofs are
//! those of the plain bytes. Read `coder` (one piece), then [`packer`](Packer) (batches, memory, threads). How
//! hard to pack is decided in `chooser`, over the rungs of `ladder`, by what `auto` sees of threads, link and processors
//! (`load`).
//!
//! Streams that are stored packed are another matter: [`frame`] makes standard frames, [`split`] finds them again.

mod auto;
mod chooser;
mod coder;
pub mod frame;
mod ladder;
mod load;
mod packer;
pub mod split;

pub use packer::{Packed, Packer, Sending};
