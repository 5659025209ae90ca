//! Sharing blocks between files.

use std::fs::File;

use haul_core::{Ops, SLICE_LEN};

/// File systems whose files share blocks (`linux/magic.h`; the last two as the kernel modules of OpenZFS and bcachefs
/// define them).
const SHARING: [u32; 4] = [0x9123_683E, 0x5846_5342, 0x2FC1_2FC1, 0xCA45_1A4E];

/// Whether files on the file system of `file` can share blocks.
pub(crate) fn shares_blocks(file: &File) -> bool {
    // 32 bits, sign-extended on some architectures.
    rustix::fs::fstatfs(file).is_ok_and(|fs| SHARING.contains(&(fs.f_type as u32)))
}

/// Lets the file system put slice `index` of `from` into `to`, by sharing its blocks. `false` if that failed, or not
/// the whole slice was there.
pub(crate) fn share(ops: &Ops, from: &File, to: &File, index: u32) -> bool {
    let start = u64::from(index) * SLICE_LEN;
    let (mut read, mut write) = (start, start);
    while read < start + SLICE_LEN {
        let left = (start + SLICE_LEN - read) as usize;
        ops.one();
        match rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut write), left) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_whole_slice_is_shared_and_a_short_one_is_not() {
        let (from, to) = (tempfile::tempfile_in(".").unwrap(), tempfile::tempfile_in(".").unwrap());
        from.set_len(2 * SLICE_LEN - 1).unwrap();
        from.write_all_at(b"first", 0).unwrap();
        assert!(share(&Ops::default(), &from, &to, 0));
        let mut bytes = [0; 5];
        to.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"first");
        assert!(!share(&Ops::default(), &from, &to, 1));
    }
}
