//! Where the long lists of a plan go.

use haul_core::{RelPath, Result};

/// Receives lists that may be longer than memory.
pub trait PlanOutput {
    /// The target cannot hold this entry under this name.
    fn unfit(&mut self, path: &RelPath);

    /// The entry belongs to partition `part`, counted from 0. Of directories, only empty ones are listed.
    ///
    /// # Errors
    /// That of storing the entry, which ends the planning.
    fn part(&mut self, part: usize, path: &RelPath) -> Result<()>;
}
