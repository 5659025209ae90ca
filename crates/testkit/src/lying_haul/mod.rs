//! A remote haul that lies: a remote shell for `-e` that runs the real remote end and changes what it says.
//!
//! Each frame from the remote end is decoded with the wire crate. One part of one message, or the frame itself, is changed
//! to something that the remote end did not say; it is encoded again with right checksums and passed on. What there is to
//! change comes from the messages themselves: [`lies`] lists, for messages that were recorded, every part with everything
//! that it can become. So a field or a kind of message that is new has its lies at once.
//!
//! A [`Lie`] and what became of it are in a folder that the shell is given.

mod changes;
mod frame;
mod judge;
mod lie;
mod lies;
mod message;
mod parts;
mod plan;
mod samples;
mod shell;
mod stage;

pub use judge::{believed, problems, withholds};
pub use lie::Lie;
pub use lies::{Lies, kinds, lies};
pub use message::{Message, welcome_of};
pub use plan::{LIAR_SHELL, LiarPlan};
pub use shell::relay;
pub use stage::{Ended, SCENES, Scene, Stage, scene};
