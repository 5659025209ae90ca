//! Sources and sinks for tests: a tree in memory, and decorators that make chosen calls fail.

pub mod fault;
pub mod mem;

pub use fault::{Call, Effect, EndFault, EndFaults, FaultySink, FaultySource};
pub use mem::{MemSink, MemSource, MemTree};
