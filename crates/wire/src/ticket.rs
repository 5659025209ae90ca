//! Tickets: the permission for one remote end to fetch a batch from another.
//!
//! A ticket is a keyed BLAKE3 hash of the source and the batch. The local end and the end of the source share the key.
//! The end of the sink does not have it, so it can fetch only batches for which the local end sent it a ticket.

use haul_core::Batch;

use crate::error::FrameError;
use crate::ids::RootId;

pub use crate::ids::Ticket;

/// Makes the ticket for a batch of a source.
///
/// # Errors
/// [`FrameError::Body`] if the batch cannot be encoded.
pub fn make(secret: &[u8; 32], root: RootId, batch: &Batch) -> Result<Ticket, FrameError> {
    Ok(*hash(secret, root, batch)?.as_bytes())
}

/// Whether a ticket is valid for this batch of this source.
#[must_use]
pub fn is_for(ticket: &Ticket, secret: &[u8; 32], root: RootId, batch: &Batch) -> bool {
    // `blake3::Hash` compares in constant time.
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
