//! Tracks how far each listing has got, to detect one that never ends.

use haul_core::sync::Mutex;
use std::collections::HashMap;

use crate::store::ListPage;

/// The most listings that are tracked; further ones are not checked.
const MOST: usize = 10_000;

/// The greatest name of a listing so far, in byte order and in tree order, where the content of a directory precedes
/// the longer keys beside it. Stores list in one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListingPosition {
    by_bytes: String,
    by_directories: String,
}

/// The positions of listings, by the token of the next page.
#[derive(Default)]
pub(super) struct ListingPositions(Mutex<HashMap<String, ListingPosition>>);

impl ListingPositions {
    pub(super) fn before(&self, token: &str) -> Option<ListingPosition> {
        self.0.lock().get(token).cloned()
    }

    pub(super) fn went_on(&self, from: Option<&str>, page: &ListPage, before: Option<ListingPosition>) {
        let mut positions = self.0.lock();
        if let Some(from) = from {
            positions.remove(from);
        }
        if let (Some(next), true) = (&page.next, positions.len() < MOST) {
            positions.insert(next.clone(), before.unwrap_or_default().after(page));
        }
    }
}

#[cfg(test)]
impl ListingPositions {
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl ListingPosition {
    /// The position after a page.
    pub(super) fn after(self, page: &ListPage) -> Self {
        let Self { mut by_bytes, mut by_directories } = self;
        for name in names(page) {
            if *name > *by_bytes {
                name.clone_into(&mut by_bytes);
            }
            if directory_order(name).gt(directory_order(&by_directories)) {
                name.clone_into(&mut by_directories);
            }
        }
        Self { by_bytes, by_directories }
    }
}

/// The sort key of a name in tree order.
fn directory_order(name: &str) -> impl Iterator<Item = u16> + '_ {
    name.bytes().map(|byte| if byte == b'/' { 0 } else { u16::from(byte) + 1 })
}

pub(super) fn names(page: &ListPage) -> impl Iterator<Item = &str> {
    page.objects.iter().map(|object| &object.key[..]).chain(page.prefixes.iter().map(|prefix| &prefix[..]))
}
