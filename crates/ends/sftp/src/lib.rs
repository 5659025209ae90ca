//! An SFTP server as a source or a sink: for a host that has ssh, but no haul.
//!
//! The connections are ssh processes with the `sftp` subsystem at the other end. From the bottom up:
//!
//! * `packet`, `checks`, `pipe`: the protocol, the checks of answers, and the pipes of an ssh process;
//! * `reply`, `server`, `conn`, `pipeline`, `greeting`: requests and answers on one connection;
//! * `pool`, `session`: the connections to one server;
//! * `tree`, `meta`: names and metadata at the server;
//! * `listing`, `walk`, `open_files`, `read`, `source`: reading;
//! * `compare`, `large_file`, `state`, `small`, `large`, `unwritable`, `offer`, `remove`, `sink`: which content the
//!   sink needs, whether it takes any, how it stages and checks files and renames them into place, and how it removes
//!   entries.
//!
//! A server answers requests in their order, so haul pipelines them: requests that depend on no answer are sent
//! without waiting, and cost one round trip together, however many files they are about. A batch of small files takes
//! three such rounds (open; write, set, sync and close; rename), a slice of a large file two. No file is renamed before
//! every write to it was answered.

mod checks;
mod compare;
mod conn;
mod entries;
mod greeting;
mod kept;
mod kernel_dirs;
mod large;
mod large_file;
mod lineage;
mod listing;
mod meta;
mod offer;
mod open;
mod open_files;
mod packet;
mod pipe;
mod pipeline;
mod pool;
mod read;
mod remove;
mod reply;
mod server;
mod server_tree;
mod session;
mod sink;
mod small;
mod source;
mod state;
mod stream;
mod tree;
mod unwritable;
mod walk;

pub use session::{Limits, Sftp};

#[cfg(test)]
mod tests;
