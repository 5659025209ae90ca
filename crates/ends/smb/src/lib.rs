//! An SMB share as a source or a sink, without a mount.
//!
//! The crate `smb2` has the messages, signatures and encryption of the protocol. Everything above them is here. From the
//! bottom up:
//!
//! * `cache_entry`, `ticket`, `login`, `login_errors`, `step`, `reply`, `ciphers`,
//!   `signature`, `socket`, `handover`, `greeting`, `kerberos`, `conn`: who logs
//!   in where, and with which credentials; requests and answers; one connection;
//! * `server`, `runtime`, `session`: all connections to a share. Async code ends there: everything else blocks;
//! * `names`, `attrs`, `reparse`, `chained`, `named`, `descriptor`, `stream_list`, `tree`, `listing`, `entries`: names and metadata on the share;
//! * `reparse_source`, `read`, `rules`, `walk`, `remove`, `source`: reading;
//! * `probe`: measuring a share;
//! * `directories`, `meta`, `security`, `streams`, `extras`, `state`, `large_file`, `large`, `small`, `reparse_sink`,
//!   `offer`, `link`, `sink`: which content the sink needs, and how it stages files and renames them into place.
//!
//! A request is a chain of commands in one frame, such as create, write, set times, close. Commands of a chain refer to
//! the file that its first command opens, so nothing outlives a chain: after a lost connection, each unanswered one is
//! sent again over another. Only a listing holds a handle, and begins again.

mod attrs;
mod cache_entry;
mod chained;
mod ciphers;
mod conn;
mod descriptor;
mod directories;
mod entries;
mod extras;
mod greeting;
mod handover;
mod kerberos;
mod large;
mod large_file;
mod link;
mod listing;
mod login;
mod login_errors;
mod meta;
mod named;
mod names;
mod offer;
mod open;
mod probe;
mod read;
mod remove;
mod reparse;
mod reparse_sink;
mod reparse_source;
mod reply;
mod runtime;
mod security;
mod server;
mod server_tree;
mod session;
mod signature;
mod sink;
mod small;
mod socket;
mod source;
mod state;
mod step;
mod stream_list;
mod streams;
mod ticket;
mod tree;
mod walk;

pub use login::{ShareCredentials, ShareLogin, ShareOptions};
pub use session::{Limits, Smb};
pub use ticket::{KerberosTicket, Tickets};
