//! Checks whether a tree fits into the free space of the destination.

use haul_core::probe::Space;

use super::finding::{Finding, size};
use crate::survey::TreeCounts;

/// Compares the needs of a tree with the free space. `there` counts the entries under the destination's root: a copy
/// replaces them file by file or keeps them, so they need no further space. `complete` says whether the whole tree was
/// counted.
#[must_use]
pub fn examine_space(space: &Space, needs: &TreeCounts, there: &TreeCounts, complete: bool) -> Vec<Finding> {
    let bytes = needs.bytes.saturating_sub(there.bytes);
    let entries = needs.entries.saturating_sub(there.entries);
    let amount = |text: String| if complete { text } else { format!("at least {text}") };
    let mut findings = vec![judge(
        "free space",
        bytes,
        space.free_bytes,
        format!("{} free, {} wanted", size(space.free_bytes), amount(size(bytes))),
        "make room there, or choose another file system",
    )];
    // btrfs and others allocate inodes dynamically and report 0.
    if space.inodes > 0 {
        findings.push(judge(
            "free inodes",
            entries,
            space.free_inodes,
            format!("{} free, {} wanted", space.free_inodes, amount(entries.to_string())),
            "remove files there, or make the file system with more inodes (`mkfs.ext4 -N`; `xfs_growfs -m`)",
        ));
    }
    findings
}

fn judge(what: &'static str, wanted: u64, free: u64, found: String, fix: &str) -> Finding {
    if wanted > free {
        Finding::bad(what, found, fix)
    } else if wanted > free / 10 * 9 {
        Finding::warn(what, format!("{found}: it will be nearly full"), fix)
    } else {
        Finding::ok(what, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn levels(bytes: u64, entries: u64, there: u64, inodes: u64) -> Vec<Level> {
        let space = Space { free_bytes: 1000, bytes: 5000, free_inodes: inodes / 2, inodes };
        let counts = |bytes, entries| TreeCounts { bytes, entries, ..TreeCounts::default() };
        let findings = examine_space(&space, &counts(bytes, entries), &counts(there, 0), true);
        findings.into_iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn a_tree_fits_or_not() {
        assert_eq!(levels(500, 10, 0, 100), [Level::Ok, Level::Ok]);
        assert_eq!(levels(950, 10, 0, 100), [Level::Warn, Level::Ok]);
        assert_eq!(levels(1001, 10, 0, 100), [Level::Bad, Level::Ok]);
        assert_eq!(levels(1001, 10, 600, 100), [Level::Ok, Level::Ok]);
        assert_eq!(levels(0, 51, 0, 100), [Level::Ok, Level::Bad]);
        assert_eq!(levels(0, 51, 0, 0), [Level::Ok]);
    }
}
