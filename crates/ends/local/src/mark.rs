//! Marks on files that are being made, as extended attributes, and the boot of this machine that is in some of them.
//!
//! No attribute whose name begins with `user.haul.` is part of a file's metadata: it is not copied.

use std::fs::File;
use std::sync::OnceLock;

use rustix::fs::XattrFlags;

/// The key of a staged file: random, and in its journal too. Whoever cannot read the file cannot write a journal for it.
const KEY: &str = "user.haul.key";

/// Gives a new staged file a key. Zeros where the file system has no attributes.
pub(super) fn give_key(file: &File) -> [u8; 16] {
    let mut key = [0; 16];
    let random = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty());
    let set = random.and_then(|_| rustix::fs::fsetxattr(file, KEY, &key, XattrFlags::empty()));
    if set.is_ok() { key } else { [0; 16] }
}

/// The key of a staged file; zeros if it has none.
pub(super) fn key_of(file: &File) -> [u8; 16] {
    let mut key = [0; 16];
    match rustix::fs::fgetxattr(file, KEY, &mut key) {
        Ok(16) => key,
        _ => [0; 16],
    }
}

/// Takes the key away from a file that is about to get its final name, or to be used anew.
pub(super) fn remove_key(file: &File) {
    // It has none where there are no attributes.
    let _ = rustix::fs::fremovexattr(file, KEY);
}

/// The number of this boot of the machine; zeros if it is not known.
pub(super) fn boot() -> [u8; 16] {
    static BOOT: OnceLock<[u8; 16]> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits = text.trim().replace('-', "");
        u128::from_str_radix(&digits, 16).map_or([0; 16], u128::to_be_bytes)
    })
}

/// Whether something was written in this boot of the machine, as far as that is known.
pub(super) fn is_this_boot(then: &[u8; 16]) -> bool {
    *then != [0; 16] && *then == boot()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_again_and_taken_away() {
        let file = tempfile::tempfile_in(".").unwrap();
        assert_eq!(key_of(&file), [0; 16]);
        let key = give_key(&file);
        assert_eq!(key_of(&file), key);
        remove_key(&file);
        assert_eq!(key_of(&file), [0; 16]);
    }

    #[test]
    fn another_boot_is_told_from_this_one() {
        assert!(is_this_boot(&boot()), "Linux tells its boots");
        assert!(!is_this_boot(&[0; 16]) && !is_this_boot(&[7; 16]));
    }
}
