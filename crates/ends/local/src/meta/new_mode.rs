//! The permissions of new entries if those of the source are not taken over: the umask of the process, or the default ACL
//! of the directory, limits them.

use std::sync::OnceLock;

use haul_core::{Entry, Preserve};
use rustix::fs::Mode;

use crate::path::at::At;
use crate::path::xattrs::default_acl;

/// The mode of a new entry at `at`.
pub(crate) fn new_mode(at: &At, entry: &Entry) -> u32 {
    let by_acl = default_acl(&at.dir).and_then(|acl| permissions_of(&acl));
    Preserve::new_mode(entry, by_acl.unwrap_or_else(|| !umask()))
}

/// The umask of this process.
pub fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or_else(|| {
            // Kernels before 4.7 report it only when it is set. Files made meanwhile are private at first.
            let mask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
            rustix::process::umask(mask);
            mask.as_raw_mode()
        })
    })
}

/// The permissions that an ACL in the format of the kernel (`linux/posix_acl_xattr.h`) leaves to owner, group and
/// others. `None` if it is invalid.
fn permissions_of(acl: &[u8]) -> Option<u32> {
    const USER_OBJ: u16 = 0x01;
    const GROUP_OBJ: u16 = 0x04;
    const MASK: u16 = 0x10;
    const OTHER: u16 = 0x20;
    let (version, entries) = acl.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != 2 {
        return None;
    }
    let find = |wanted: u16| {
        entries.chunks_exact(8).find_map(|entry| {
            let [tag, tag_high, bits, ..] = *entry else { return None };
            (u16::from_le_bytes([tag, tag_high]) == wanted).then_some(u32::from(bits & 7))
        })
    };
    let group = find(MASK).or_else(|| find(GROUP_OBJ))?;
    Some(find(USER_OBJ)? << 6 | group << 3 | find(OTHER)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u8, u8)]) -> Vec<u8> {
        let mut acl = vec![2, 0, 0, 0];
        entries.iter().for_each(|(tag, bits)| acl.extend([*tag, 0, *bits, 0, 255, 255, 255, 255]));
        acl
    }

    #[test]
    fn an_acl_leaves_the_permissions_of_its_mask() {
        assert_eq!(permissions_of(&acl(&[(1, 7), (4, 5), (0x20, 0)])), Some(0o750));
        assert_eq!(permissions_of(&acl(&[(1, 6), (2, 7), (4, 7), (0x10, 4), (0x20, 1)])), Some(0o641));
        assert_eq!(permissions_of(&acl(&[(1, 7)])), None);
        assert_eq!(permissions_of(b""), None);
        assert_eq!(permissions_of(&[3, 0, 0, 0]), None);
    }

    #[test]
    fn the_umask_is_that_of_the_process() {
        let mask = rustix::process::umask(Mode::empty());
        rustix::process::umask(mask);
        assert_eq!(umask(), mask.as_raw_mode());
    }
}
