//! Diagnoses common problems from facts: each finding with its fix.

mod end;
mod finding;
mod link;
mod space;

pub use end::{Role, examine_end};
pub use finding::{Finding, Level};
pub use link::{LinkFacts, examine_link};
pub use space::examine_space;
