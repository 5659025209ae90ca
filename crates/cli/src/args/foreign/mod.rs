//! Words of other tools: tables, in text files. Accepted words are added to the definition of the
//! command line; the others are looked up before haul reports an unknown option.

mod behind;
mod commands;
mod define;
mod lookup;
mod scan;
mod table;
mod word;

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;

pub(super) use commands::{ALIASES, about, forces, moves, sums};
pub(super) use define::{define, force};
pub(super) use lookup::{
    advice_elsewhere, attached, canonical, command_advice, is_known, option_advice, with_value,
};
pub(super) use scan::{has_long, misplaced};
