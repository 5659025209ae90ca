//! `cargo xtask layout`: checks what the compiler does not: how files, crates and words are arranged.

mod cycles;
mod layers;
mod lexer;
mod modules;
mod orphans;
mod run;
mod sizes;
mod source;
mod test_code;
mod tree;
mod words;

pub(crate) use run::{CHECKS, run};
pub(crate) use source::Source;
pub(crate) use tree::Tree;
