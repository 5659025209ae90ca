//! A stream from the program that writes it to the program that reads it, in parts of slices over all connections.
//!
//! Either program may be here or on a host: one is a source whose stream grows, the other a sink that takes its slices
//! in order. At most a window of slices is on its way. A slice is kept at the source until the other program has taken
//! it, so a lost connection costs a second read. The program that reads sees the end of its input only after both ends
//! have the same digest and the program that writes has succeeded.

mod listener;
mod parts;
mod run;
mod settings;

pub use listener::Listeners;
pub use run::pipe;
pub use settings::{Pipe, PipeSettings, PipeStatus, Piped};

#[cfg(test)]
mod tests;
