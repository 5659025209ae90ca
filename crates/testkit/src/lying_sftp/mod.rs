//! An SFTP server that lies: OpenSSH's own, behind a program that changes one field of what it answers.
//!
//! It is called as ssh is, with `-s` and the subsystem, by whoever names it in `-e`; [`serve`] is that program. What is
//! changed is told by a [`Lie`] in the file `lie` of a folder, where the file `told` shows that the lie was told.

mod lie;
mod packet;
mod relay;

pub use lie::{Field, Lie};
pub use relay::serve;
