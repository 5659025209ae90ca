//! Helpers of tests: trees with every kind of entry, an independent comparison of two trees, a real sshd and smbd, small
//! file systems on loop devices, a disk that fails and loses power, a remote shell with faults, hostile servers, and
//! processes with time limits.
//!
//! Helpers panic with the message of the system when an operation fails, since a test cannot continue then. A test
//! declares its requirements of the machine through [`needs`].

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

pub mod compare;
pub mod conformance;
pub mod content;
pub mod disk;
pub mod ends;
pub mod facts;
pub mod fault;
pub mod harm;
pub mod kdc;
pub mod long_link;
pub mod lying_haul;
pub mod lying_sftp;
pub mod measured;
pub mod mount;
pub mod needs;
pub mod pam;
pub mod process;
pub mod random;
pub mod scratch;
pub mod smb_lock;
pub mod smb_relay;
pub mod smbd;
pub mod sshd;
pub mod store;
pub mod terminal;
mod tools;
pub mod tree;

pub use compare::{assert_no_half_files, assert_same_tree, differences};
pub use content::Random;
pub use disk::{CrashDisk, DiskCounts, DiskFault, DiskOp, Keep, Trigger};
pub use facts::{Care, tree_differences};
pub use fault::{ByteDirection, FaultPlan, LinkFault, Which};
pub use kdc::Kdc;
pub use long_link::LongLink;
pub use mount::{FileSystem, TestMount};
pub use needs::Need;
pub use pam::Secrets;
pub use process::{CommandRun, Finished, Running};
pub use random::{RandomTrees, TreeShape, duplicate};
pub use scratch::Scratch;
pub use smb_lock::SmbLock;
pub use smb_relay::{FlippedFrame, Flow, SmbRelay};
pub use smbd::{Smbd, SmbdOptions};
pub use sshd::{Sshd, SshdOptions};
pub use store::{Proxy, ProxyTrouble};
pub use tools::write_program;
pub use tree::TestTree;
