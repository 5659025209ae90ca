//! The directories above a directory. If links are followed, one may lead back to one of them.

use std::sync::Arc;

/// A directory, by device and inode, with those above it.
pub(super) struct Lineage {
    inode: (u64, u64),
    /// It or one above it was found through a link.
    linked: bool,
    above: Option<Arc<Lineage>>,
}

impl Lineage {
    /// The lineage of a directory below `above`; `None` if the directory is one of them.
    pub(super) fn below(above: Option<&Arc<Self>>, inode: (u64, u64), followed: bool) -> Option<Arc<Self>> {
        let linked = followed || above.is_some_and(|above| above.linked);
        // Without a link, no directory is above itself.
        let mut at = above.filter(|_| linked);
        while let Some(one) = at {
            if one.inode == inode {
                return None;
            }
            at = one.above.as_ref();
        }
        Some(Arc::new(Self { inode, linked, above: above.cloned() }))
    }
}

impl Drop for Lineage {
    /// In a loop, because the tree decides how deep it is.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(mut last) = above.and_then(Arc::into_inner) {
            above = last.above.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(above: Option<&Arc<Lineage>>, ino: u64, followed: bool) -> Option<Arc<Lineage>> {
        Lineage::below(above, (1, ino), followed)
    }

    #[test]
    fn a_directory_above_itself_is_found() {
        let root = below(None, 1, false);
        let dir = below(root.as_ref(), 2, false);
        for (ino, found) in [(1, true), (2, true), (3, false)] {
            assert_eq!(below(dir.as_ref(), ino, true).is_none(), found);
        }
        // Behind a link no further one is needed.
        let outside = below(dir.as_ref(), 9, true);
        assert!(below(outside.as_ref(), 1, false).is_none() && below(outside.as_ref(), 4, false).is_some());
    }

    #[test]
    fn a_deep_lineage_is_dropped_in_a_loop() {
        let mut last = below(None, 0, false);
        for ino in 1..1_000_000 {
            last = below(last.as_ref(), ino, false);
        }
        drop(last);
    }
}
