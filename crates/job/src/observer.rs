//! The events that a job reports while it runs.

use haul_core::event::Done;
use haul_core::{Digest, Error, Progress};

/// Receives the events of a job, from several threads. Names are those in the transfer.
pub trait Observer: Send + Sync {
    /// The progress of the whole job.
    fn progress(&self, progress: &Progress);
    /// The file that is being copied, whenever it is another one.
    fn in_flight(&self, name: &[u8]);
    /// An entry was handled; in a dry run, would be.
    fn entry(&self, name: &[u8], done: Done<'_>);
    /// With [`crate::JobRequest::sha256`]: the SHA-256 of a file whose content the run has verified; `None` if it could
    /// not be computed from that content.
    fn sha256(&self, _name: &[u8], _digest: Option<Digest>) {}
    /// An entry failed.
    fn failed(&self, name: &[u8], error: &Error);
    /// A page of a database file does not match its checksum.
    fn bad_page(&self, _name: &[u8], _page: u64) {}
    /// A message for the user.
    fn note(&self, text: &str);
    /// A message for the user about a problem; shown even if messages are off.
    fn warn(&self, text: &str);
}
