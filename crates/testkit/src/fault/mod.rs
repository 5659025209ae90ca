//! A remote shell for `-e` that needs no server and injects faults into its connections.
//!
//! It takes the arguments of ssh, runs the command with `sh -c` on this machine or through a real ssh, and relays the
//! bytes. A [`FaultPlan`], a directory with a file `plan`, defines the faults of each connection and direction. The
//! connections of a run are numbered from 1 in the order of their start, and each writes its two process ids to a file
//! `connection-N` in that directory. The program that a test names in `-e` calls [`relay`].

mod plan;
mod relay;

pub use plan::{ByteDirection, FRAME_MARK, FaultPlan, LinkFault, Which};
pub use relay::relay;
pub(crate) use relay::{SshCommand, complain, leave, start as start_remote, until_hung_up};
