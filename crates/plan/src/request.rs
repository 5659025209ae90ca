//! The request for a plan.

use crate::split::Split;
use crate::target::Target;

/// The options of a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanOptions {
    /// How many of the largest, widest and deepest entries are listed.
    pub top: usize,
    /// The target that the names are checked for.
    pub target: Option<Target>,
    /// How the tree is split.
    pub split: Option<Split>,
}
