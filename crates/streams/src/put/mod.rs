//! A stream into one or several objects.
//!
//! One thread reads, hashes and cuts; each target has threads of its own that send parts. A stream that fits one part
//! takes one request. No object appears before the input is known to be complete.

mod cut;
mod encode;
mod estimate;
mod fifo_inputs;
mod group;
mod input;
mod plan;
mod process;
mod resume;
mod run;
mod settings;
mod target;

pub use encode::Encode;
pub use estimate::{RequestEstimate, estimate};
pub use fifo_inputs::{count_pipes, open_fifos};
pub use group::{StreamGroup, WITH_OTHERS};
pub use input::Input;
pub use run::put;
pub use settings::{OVERHEAD, PutOutcome, PutSettings, PutStatus, PutTarget, StoredObject};
