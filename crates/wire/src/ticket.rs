//! What shows the end of a source that the local end wants a batch read, when somebody else asks for it.
//!
//! The local end and the end of the source share a secret. The end of the sink does not know it: it can ask for what it
//! was told to fetch and for nothing else below the source's root.

use haul_core::Batch;

use crate::frame::FrameError;
use crate::message::RootId;

/// A keyed BLAKE3 hash of what may be read.
pub type Ticket = [u8; 32];

/// The ticket for a batch of a source.
///
/// # Errors
/// If the batch cannot be encoded.
pub fn make(secret: &[u8; 32], root: RootId, batch: &Batch) -> Result<Ticket, FrameError> {
    Ok(*hash(secret, root, batch)?.as_bytes())
}

/// Whether a ticket is for this batch of this source.
#[must_use]
pub fn is_for(ticket: &Ticket, secret: &[u8; 32], root: RootId, batch: &Batch) -> bool {
    // The comparison takes the same time whatever differs.
    hash(secret, root, batch).is_ok_and(|hash| hash == *ticket)
}

fn hash(secret: &[u8; 32], root: RootId, batch: &Batch) -> Result<blake3::Hash, FrameError> {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    postcard::to_io(&(root, batch), &mut hasher).map_err(|_| FrameError::Body)?;
    Ok(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::Slice;

    #[test]
    fn a_ticket_is_for_one_batch_of_one_source() {
        let batch = |index| Batch { entries: Vec::new(), slices: vec![Slice::whole(0, index)], again: false };
        let ticket = make(&[1; 32], 5, &batch(7)).unwrap();
        assert!(is_for(&ticket, &[1; 32], 5, &batch(7)));
        assert!(!is_for(&ticket, &[1; 32], 5, &batch(8)));
        assert!(!is_for(&ticket, &[1; 32], 6, &batch(7)));
        assert!(!is_for(&ticket, &[2; 32], 5, &batch(7)));
    }
}
