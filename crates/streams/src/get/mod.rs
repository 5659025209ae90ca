//! An object as a stream: fetched in parallel, written in order, and verified before its last bytes are written.

mod check;
mod decode;
mod output;
mod pieces;
mod run;
mod settings;
mod stored;
mod window;

pub use check::{Check, Checked};
pub use output::Output;
pub use run::{find, get};
pub use settings::{GetSettings, GetStatus, Got};
