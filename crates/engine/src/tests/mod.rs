//! Tests of whole runs, on ends in memory that fail on demand.

mod accounting;
mod cancel;
mod changed;
mod delete;
mod disk_full;
mod faults;
mod inspect;
mod links;
mod memory;
mod moves;
mod options;
mod panics;
mod retries;
mod runs;
mod unconfirmed;
