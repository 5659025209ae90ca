//! A small object store inside the process: for what a real one cannot be made to do, and for streams that are longer
//! than any disk.
//!
//! It is honest: what it is sent it counts and checks as S3 does, and refuses what S3 refuses. It does not look at who
//! asks. What it forgets (see [`Habits`]) it has checked before.

mod answer;
mod habits;
mod held;
mod list;
mod reply;
mod server;
mod state;

pub use habits::Habits;
pub use server::SmallStore;
