//! Marks on staged files, and the boot of this machine that some records contain.
//!
//! Attributes whose names begin with `user.haul.` are never copied.

use std::fs::File;
use std::sync::OnceLock;

use rustix::fs::XattrFlags;

/// A random key on a staged file, repeated in its journal. Users who cannot read the file cannot forge a journal for
/// it.
const KEY: &str = "user.haul.key";

/// Sets a key on a new staged file. Zeros if the file system has no attributes.
pub(crate) fn give_key(file: &File) -> [u8; 16] {
    let mut key = [0; 16];
    let random = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty());
    let set = random.and_then(|_| rustix::fs::fsetxattr(file, KEY, &key, XattrFlags::empty()));
    if set.is_ok() { key } else { [0; 16] }
}

/// The key of a staged file, or zeros.
pub(crate) fn key_of(file: &File) -> [u8; 16] {
    let mut key = [0; 16];
    match rustix::fs::fgetxattr(file, KEY, &mut key) {
        Ok(16) => key,
        _ => [0; 16],
    }
}

/// Removes the key of a file that is about to be renamed into place, or to be reused.
pub(crate) fn remove_key(file: &File) {
    // There is none on a file system without attributes.
    let _ = rustix::fs::fremovexattr(file, KEY);
}

/// The identifier of this boot of the machine; zeros if it is unknown.
pub(crate) fn boot() -> [u8; 16] {
    static BOOT: OnceLock<[u8; 16]> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits = text.trim().replace('-', "");
        u128::from_str_radix(&digits, 16).map_or([0; 16], u128::to_be_bytes)
    })
}

/// Whether a record is certainly of this boot.
pub(crate) fn is_this_boot(then: &[u8; 16]) -> bool {
    *then != [0; 16] && *then == boot()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_and_removed() {
        let file = tempfile::tempfile_in(".").unwrap();
        assert_eq!(key_of(&file), [0; 16]);
        let key = give_key(&file);
        assert_eq!(key_of(&file), key);
        remove_key(&file);
        assert_eq!(key_of(&file), [0; 16]);
    }

    #[test]
    fn other_boots_differ_from_this_one() {
        assert!(is_this_boot(&boot()), "Linux numbers its boots");
        assert!(!is_this_boot(&[0; 16]) && !is_this_boot(&[7; 16]));
    }
}
