//! Where the directories of a walk really are, if links are followed: one may lead back to a directory above it.
//!
//! SFTP has no inode numbers, so directories are compared by the paths that the server gives without links.

use std::sync::Arc;

use haul_core::RelPath;

/// Where a directory of a walk is. It changes at each link only, and is shared below.
pub(super) struct Lineage {
    /// The path below the root at which it begins: the root, or a link.
    from: RelPath,
    /// The path at the server, without links.
    real: Vec<u8>,
    /// The place of the directory that holds the link.
    above: Option<Arc<Lineage>>,
    /// The number of links above.
    links: usize,
}

/// Links that one path may lead through, as in Linux.
const MOST_LINKS: usize = 40;

impl Lineage {
    pub(super) fn root(real: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { from: RelPath::root(), real, above: None, links: 0 })
    }

    /// The place of the directory that the link at `path` leads to, which is `real`. `None` if that is above the link.
    pub(super) fn follow(self: &Arc<Self>, path: &RelPath, real: Vec<u8>) -> Option<Arc<Self>> {
        if self.links >= MOST_LINKS || self.is_above(path, &real) {
            return None;
        }
        let above = Some(Arc::clone(self));
        Some(Arc::new(Self { from: path.clone(), real, above, links: self.links + 1 }))
    }

    /// Whether the directory at `path`, which is no link, is above itself.
    pub(super) fn is_own_ancestor(self: &Arc<Self>, path: &RelPath) -> bool {
        // Without a link, none is.
        self.above.is_some() && self.is_above(path, &self.real_path(path))
    }

    /// Where the directory at `path` is.
    pub(super) fn real_path(&self, path: &RelPath) -> Vec<u8> {
        let mut real = self.real.clone();
        let rest = below(&self.from, path.as_bytes());
        if !rest.is_empty() {
            if real.last() != Some(&b'/') {
                real.push(b'/');
            }
            real.extend_from_slice(rest);
        }
        real
    }

    /// Whether one of the directories above `path` is `real`.
    fn is_above(&self, path: &RelPath, real: &[u8]) -> bool {
        let mut at = Some(self);
        let mut end = path.clone();
        while let Some(one) = at {
            // The directories from where this place begins to the one that holds `end`.
            let names = below(&one.from, end.as_bytes());
            let held = names.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |at| &names[..at]);
            let rest = real.strip_prefix(&one.real[..]).map(|rest| match one.real.last() {
                Some(b'/') => Some(rest),
                _ if rest.is_empty() => Some(rest),
                _ => rest.strip_prefix(b"/"),
            });
            if let Some(Some(rest)) = rest
                && end != one.from
                && (rest.is_empty()
                    || held.strip_prefix(rest).is_some_and(|more| more.is_empty() || more[0] == b'/'))
            {
                return true;
            }
            end = one.from.clone();
            at = one.above.as_deref();
        }
        false
    }
}

/// The part of `path` below `from`.
fn below<'a>(from: &RelPath, path: &'a [u8]) -> &'a [u8] {
    let rest = path.get(from.as_bytes().len()..).unwrap_or_default();
    rest.strip_prefix(b"/").unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn links_to_directories_above_are_found() {
        let root = Lineage::root(b"/srv/t".to_vec());
        let follow = |above: &Arc<Lineage>, at: &str, real: &str| above.follow(&path(at), real.into());
        for above in ["/srv/t", "/srv/t/a", "/srv/t/a/b"] {
            assert!(follow(&root, "a/b/link", above).is_none(), "{above}");
        }
        for other in ["/srv", "/srv/t/a/bc", "/srv/t/a/b/c", "/srv/tx", "/srv/t/b", "/"] {
            assert!(follow(&root, "a/b/link", other).is_some(), "{other}");
        }
        let outside = follow(&root, "a/link", "/srv").unwrap();
        assert_eq!(outside.real_path(&path("a/link/t")), b"/srv/t");
        assert!(outside.is_own_ancestor(&path("a/link/t")) && !outside.is_own_ancestor(&path("a/link/x")));
        assert!(follow(&outside, "a/link/x/l", "/srv/t/a").is_none());
        assert!(follow(&outside, "a/link/x/l", "/srv/x").is_none());
        assert!(follow(&outside, "a/link/x/l", "/srv").is_none());
        assert!(follow(&outside, "a/link/x/l", "/srv/y").is_some());
        let slash = Lineage::root(b"/".to_vec());
        assert!(follow(&slash, "a/l", "/").is_none() && follow(&slash, "a/l", "/a").is_none());
        assert!(follow(&slash, "a/l", "/b").is_some());
    }

    #[test]
    fn a_path_leads_through_few_links() {
        let mut last = Lineage::root(b"/t".to_vec());
        let mut at = String::from("l");
        for number in 0..MOST_LINKS {
            last = last.follow(&path(&at), format!("/{number}").into_bytes()).unwrap();
            at.push_str("/l");
        }
        assert!(last.follow(&path(&at), b"/new".to_vec()).is_none());
    }
}
