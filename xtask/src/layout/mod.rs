//! `cargo xtask layout`: checks the arrangement of files, crates and words, which the compiler does not check.

mod clauses;
mod cycles;
mod glossary;
mod layers;
mod lexer;
mod modules;
mod orphans;
mod promises;
mod run;
mod sizes;
mod source;
mod test_code;
mod tree;
mod type_names;
mod words;

pub(crate) use run::{CHECKS, run};
pub(crate) use source::FileFacts;
pub(crate) use tree::RepositoryFiles;
