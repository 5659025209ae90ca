//! Packs the content of batches for the wire and unpacks it again, and decides how hard to try.
//!
//! Content is packed as it is sent, batch by batch, and unpacked before anything looks at it: digests and proofs are
//! those of the plain bytes. Read `coder` (one piece), then [`packer`](Packer) (batches, memory, threads).

mod coder;
mod packer;

pub use packer::Packer;
