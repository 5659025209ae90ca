//! Compresses the content of batches for the wire, decompresses it again, and decides how hard to compress.
//!
//! Content is compressed as it is sent, batch by batch, and decompressed before anything else reads it: digests are
//! those of the plain bytes. Read `coder` (one piece), then [`packer`](Packer) (batches, memory, threads). `chooser`
//! decides how hard to compress, over the rungs of `ladder`, by the measurements that `auto` makes of threads, link and
//! CPUs (`load`), and by the rate that each rung carried (`results`).
//!
//! Stored streams are separate: [`frame`] makes standard frames, [`split`] finds them in a stream.

mod auto;
mod chooser;
mod coder;
pub mod frame;
mod ladder;
mod load;
mod packer;
mod results;
pub mod split;

pub use load::LinkTime;
pub use packer::{Packed, Packer, PassingBatch, SendingBatch};
