//! An SFTP server that lies: the server of OpenSSH, behind a program that changes one field of its answers.
//!
//! [`serve`] is that program. haul calls it for `-e` as it calls ssh, with `-s` and the subsystem. The file `lie` of a
//! directory has the [`ServerLie`]; the file `told` there shows that the lie was told.

mod lie;
mod packet;
mod relay;

pub use lie::{Field, ServerLie};
pub use relay::serve;
