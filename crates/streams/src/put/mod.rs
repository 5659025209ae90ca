//! A stream into one or several objects and files.
//!
//! One thread reads and cuts; each target has threads of its own that send parts (an object) or slices (a file). A
//! stream that fits one part takes one request. Nothing appears before the input is known to be complete.

mod beside;
mod cut;
mod encode;
mod estimate;
mod fifo_inputs;
mod file;
mod group;
mod input;
mod pages;
mod plan;
mod process;
mod resume;
mod run;
mod settings;
mod slices;
mod target;
mod upstream;

pub use beside::write_file;
pub use encode::Encode;
pub use estimate::{RequestEstimate, estimate};
pub use fifo_inputs::{count_pipes, open_fifos};
pub use group::{StreamGroup, WITH_OTHERS};
pub use input::Input;
pub use process::not_started;
pub use run::put;
pub use settings::{
    FileTarget, OVERHEAD, ObjectTarget, PutOutcome, PutSettings, PutStatus, PutTarget, StoredObject,
};
