//! Writes a stream so that its last bytes wait for the check of all.

use haul_core::Result;

use super::check::CheckedBy;
use super::output::ContentOutput;

/// A stream in pieces.
pub(super) trait Pieces {
    type Piece: AsRef<[u8]>;

    /// The next piece; `None` at the end.
    fn next(&mut self) -> Result<Option<Self::Piece>>;

    /// After the end: how the stream was checked.
    fn checked(&mut self) -> Result<CheckedBy>;
}

/// Writes all pieces but the last, checks the stream, then writes the last. `None`: the reader has closed the pipe.
pub(super) fn deliver<P: Pieces>(pieces: &mut P, output: &mut ContentOutput) -> Result<Option<CheckedBy>> {
    let mut held: Option<P::Piece> = None;
    while let Some(piece) = pieces.next()? {
        if let Some(before) = held.replace(piece)
            && !output.write(before.as_ref())?
        {
            return Ok(None);
        }
    }
    let checked = pieces.checked()?;
    match held {
        Some(last) if !output.write(last.as_ref())? => Ok(None),
        _ => Ok(Some(checked)),
    }
}
