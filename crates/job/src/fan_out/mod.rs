//! Several destinations of one copy: a sink that passes each call to several sinks.
//!
//! An entry is done when every sink has it. A slice that one sink has stored is not written there again. An error of one
//! sink ends the entry there, and the others go on with it; an error that concerns all entries of a sink ends the sink,
//! and the run reports it at its end.

mod answers;
mod files;
mod left;
mod open;
mod sink;
mod state;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use open::{open_all, split_pool};
