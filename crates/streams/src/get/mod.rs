//! An object or a file as a stream: fetched in parallel, written in order, and verified before its last bytes are written.

mod check;
mod chunks;
mod decode;
mod file;
mod object;
mod output;
mod pieces;
mod run;
mod settings;
mod special;
mod stored;
mod stream_tree;
mod window;

pub use check::{Check, CheckedBy};
pub use chunks::get_chunks;
pub(crate) use file::read_slice;
pub use file::{InputFile, get_file};
pub use output::ContentOutput;
pub use run::{find, get};
pub(crate) use run::{plain, unknown};
pub use settings::{GetSettings, GetStatus, Got};
