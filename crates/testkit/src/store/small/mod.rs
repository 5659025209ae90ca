//! A small object store inside the process, for behaviour that a real store does not show on request, and for streams
//! that are longer than any disk.
//!
//! It counts and checks content as S3 does, and refuses the requests that S3 refuses. It does not check credentials. It
//! can forget content (see [`Habits`]), but only after it has checked it.

mod answer;
mod habits;
mod held;
mod list;
mod reply;
mod server;
mod state;

pub use habits::Habits;
pub use server::SmallStore;
