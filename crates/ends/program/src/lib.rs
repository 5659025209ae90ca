//! Programs as ends of a stream: the standard output of one as a source, the standard input of one as a sink.
//!
//! Such an end holds one file, the stream, whose length is known at its end. It is no tree, so the conformance suite of
//! trees does not apply; the contracts state the rules for a stream that grows ([`haul_core::SourceCaps::growing`],
//! [`haul_core::SinkCaps::growing`]). Read the modules in this order: `command` (how a program is started), `guard`
//! (the process that ends it if this one dies), `heard` (its standard error), `source` and `sink`.

mod command;
mod guard;
mod heard;
mod sink;
mod source;

pub use command::{RunMode, command, named};
pub use sink::ProgramSink;
pub use source::ProgramSource;

#[cfg(test)]
mod tests;
