//! Uploads haul to a host that lacks it, or that has another version of it, as `~/.cache/haul/haul-VERSION-DIGEST`.
//!
//! One ssh command does it, with a fixed script for `sh`. The script reports the system; the local end answers with the
//! program for that system ([`program`]). The script reports whether that program exists; if not, it reads it from its
//! standard input into a temporary file. Before it runs the program, it compares it with the local one: with
//! `sha256sum`, `shasum` or `openssl`, or else by sending it back. It does so too for a program that existed. A program
//! that does not run, or is of another version, is not renamed into place. The script removes other versions that were
//! not started for a day, and nothing else.

mod program;
mod push;
mod script;

pub use push::bootstrap;
