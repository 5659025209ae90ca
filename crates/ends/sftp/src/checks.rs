//! Checks of answers beyond their encoding: no more data than was asked for, and no handle that is in use.

use haul_core::sync::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::packet::{DirNames, SftpRequest, SftpResponse};

/// The memory of a name in addition to its bytes.
const NAME: u64 = 72;
/// The most memory that unread answers of all listings may take beyond their expected size.
const EXCESS: u64 = 24 * 1024 * 1024;

/// The kind of answer that a request expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExpectedAnswer {
    /// At most this many bytes of content.
    Data(u32),
    /// Names of a listing.
    Listing,
    /// The status of the close of this handle.
    Closed(Vec<u8>),
    /// Something short; one name at most.
    Short,
}

impl ExpectedAnswer {
    pub(super) fn of(request: &SftpRequest<'_>) -> Self {
        match *request {
            SftpRequest::Read { len, .. } => Self::Data(len),
            SftpRequest::Readdir { .. } => Self::Listing,
            SftpRequest::Close { handle } => Self::Closed(handle.to_vec()),
            _ => Self::Short,
        }
    }
}

/// The memory of an answer beyond its expected size. Released on drop.
#[derive(Debug)]
pub(super) struct HeldMemory {
    all: Arc<AtomicU64>,
    excess: u64,
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.all.fetch_sub(self.excess, Ordering::Relaxed);
    }
}

/// The memory of these names.
pub(super) fn weight(names: &DirNames) -> u64 {
    names.iter().map(|(name, _)| NAME + name.len() as u64).sum()
}

/// The checks of one connection.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// Shared by all connections.
    held: Arc<AtomicU64>,
    /// Handles that are open: the server has not answered a close of them. An `open` may be on its way while a close is
    /// sent, so a handle that counted as free from then on could be given to two files.
    open: Mutex<HashSet<Vec<u8>>>,
}

impl Checks {
    pub(super) fn new(held: Arc<AtomicU64>) -> Self {
        Self { held, open: Mutex::default() }
    }

    /// Checks an answer, and drops names that were not asked for.
    ///
    /// # Errors
    /// The rule that the answer breaks.
    pub(super) fn look(
        &self,
        response: &mut SftpResponse,
        expected: &ExpectedAnswer,
        owed: u64,
    ) -> Result<Option<HeldMemory>, &'static str> {
        if let ExpectedAnswer::Closed(handle) = expected {
            self.open.lock().remove(handle);
        }
        match (response, expected) {
            (SftpResponse::Data(data), expected) if !matches!(expected, ExpectedAnswer::Data(most) if data.bytes().len() <= *most as usize) => {
                Err("the server sent more than it was asked for")
            }
            (SftpResponse::Names(names), ExpectedAnswer::Listing) => {
                let excess = weight(names).saturating_sub(owed);
                let before = self.held.fetch_add(excess, Ordering::Relaxed);
                let held = HeldMemory { all: Arc::clone(&self.held), excess };
                if before.saturating_add(excess) > EXCESS {
                    return Err("the server sends more names than can be looked at");
                }
                Ok(Some(held))
            }
            (SftpResponse::Names(names), _) => {
                names.truncate(1);
                names.shrink_to_fit();
                Ok(None)
            }
            (SftpResponse::Handle(handle), _) => {
                let mut open = self.open.lock();
                if open.insert(handle.clone()) {
                    Ok(None)
                } else {
                    Err("the server gave a handle that is in use")
                }
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Attrs, OK};
    use super::*;

    #[test]
    fn a_handle_is_given_once_until_it_is_closed() {
        let checks = Checks::default();
        let open =
            || checks.look(&mut SftpResponse::Handle(b"h".to_vec()), &ExpectedAnswer::Short, 64).map(drop);
        assert_eq!(open(), Ok(()));
        assert!(open().is_err());
        let close = ExpectedAnswer::of(&SftpRequest::Close { handle: b"h" });
        assert!(open().is_err(), "the close has no answer yet");
        assert!(checks.look(&mut SftpResponse::Status(OK, vec![]), &close, 64).is_ok());
        assert_eq!(open(), Ok(()));
    }

    #[test]
    fn listings_that_nobody_looks_at_are_bounded() {
        let checks = Checks::default();
        let part = || SftpResponse::Names(vec![(vec![b'n'; 1000], Attrs::default()); 1000]);
        let look = || checks.look(&mut part(), &ExpectedAnswer::Listing, 0);
        let held: Vec<_> = std::iter::repeat_with(look).take_while(Result::is_ok).take(1000).collect();
        assert!((10..30).contains(&held.len()), "{}", held.len());
        drop(held);
        assert!(look().is_ok(), "what was looked at counts no more");
        let mut names = part();
        assert!(checks.look(&mut names, &ExpectedAnswer::Short, 0).is_ok());
        assert!(matches!(names, SftpResponse::Names(names) if names.len() == 1));
        assert!(checks.look(&mut SftpResponse::Status(OK, vec![]), &ExpectedAnswer::Data(1), 0).is_ok());
    }
}
