//! The far end.

/// Runs the far end over standard input and output until the near end is gone.
///
/// # Errors
/// If the greeting failed; a person who started it by hand should be told what it is for.
pub fn run() -> haul_core::Result<()> {
    Ok(())
}
