//! The queue of files to send. Workers take batches from it.
//!
//! A batch is one slice of a large file or a bundle of small files. The two kinds alternate, so that neither waits for
//! the other, and all workers share the first large file. A bundle takes files of several directories, because most
//! file systems create the names of one directory one after the other. The queue is bounded: adding waits for space.

mod compare;
mod dispatch;
mod large;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod shuttle_tests;
mod small;
#[cfg(test)]
mod tests;

pub(crate) use dispatch::{Queue, Work};
pub(crate) use large::is_large;
