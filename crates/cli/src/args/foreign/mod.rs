//! Words of other tools: one table, in a file for each group of tools. Accepted words are added to the definition of the
//! command line; the others are looked up before haul reports an unknown option.

mod aws;
mod behind;
mod commands;
mod define;
mod lookup;
mod rclone;
mod robocopy;
mod rsync;
mod rsync_refused;
mod scan;
mod ssh;
mod tuning;
mod word;
mod xbcloud;

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;

pub(super) use commands::{ALIASES, moves, sums};
pub(super) use define::define;
pub(super) use lookup::{attached, canonical, command_advice, is_known, option_advice, with_value};
pub(super) use scan::misplaced;
