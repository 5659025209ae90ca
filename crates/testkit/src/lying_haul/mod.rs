//! A remote haul that lies: a remote shell for `-e` that runs the real remote end and changes its messages.
//!
//! The shell decodes each frame from the remote end with the wire crate, changes one part of one message or the frame
//! itself, encodes it again with right checksums, and passes it on. [`lies`] finds the possible changes in recorded
//! messages: it lists every part with all changes that it can have. So a new field or a new kind of message has lies at
//! once.
//!
//! The [`MessageLie`] is in a directory that the shell is given. A file there shows that the lie was told.

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
pub use lie::MessageLie;
pub use lies::{Lies, kinds, lies};
pub use message::{Message, welcome_of};
pub use plan::{LIAR_SHELL, LiarPlan};
pub use shell::relay;
pub use stage::{EndedRun, LyingScene, LyingStage, SCENES, scene};
