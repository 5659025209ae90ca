//! A FUSE file system for tests and benchmarks: it passes requests through to a directory of this machine, after a
//! configurable delay, counts them by kind, and injects errors and hangs.
//!
//! The cost of a tool on a network file system is the number of its requests, and how many of them it has in flight at
//! once. This file system shows both without a network. Only the user who mounts it has access. Links, times in
//! nanoseconds, extended attributes (optional), special files and holes come from the directory behind it; the kernel
//! handles `flock`.
//!
//! ```no_run
//! use std::time::Duration;
//! let options = haul_slowfs::MountOptions { meta: Duration::from_millis(2), ..Default::default() };
//! let mount = haul_slowfs::SlowMount::new("/srv/data".as_ref(), "/mnt/slow".as_ref(), options)?;
//! // ... run something below /mnt/slow ...
//! println!("{}", mount.counts().json());
//! # Ok::<(), std::io::Error>(())
//! ```

mod delay;
mod fault;
mod fs;
mod mount;
mod nodes;
mod op;
mod options;
mod passthrough;
mod request;

pub use fault::{FaultEffect, FsFault, FsFaults};
pub use mount::SlowMount;
pub use op::{Op, OpCounts, RequestClass};
pub use options::MountOptions;
