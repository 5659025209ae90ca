//! Which file systems are reached over a network.

use std::path::Path;

/// Types of file systems that may send each operation to a server, as `statfs(2)` gives them (`linux/magic.h`; types
/// that are missing there are from the headers of the kernel or of the vendor). FUSE may be anything; it counts as a
/// network file system because it mostly is one.
const NETWORK_FS: [i64; 17] = [
    0x6573_5546, // FUSE
    0x6969,      // NFS
    0xFF53_4D42, // CIFS
    0xFE53_4D42, // SMB 2 and later
    0x517B,      // SMB 1
    0x00C3_6400, // CephFS
    0x0102_1997, // 9P
    0x5346_414F, // OpenAFS
    0x6B41_4653, // AFS
    0x7375_7245, // Coda
    0x564C,      // NetWare
    0x0BD0_0BD0, // Lustre
    0x4750_4653, // GPFS
    0x1983_0326, // BeeGFS
    0x2003_0528, // OrangeFS
    0x0116_1970, // GFS2
    0x786F_4256, // VirtualBox shared directories
];

/// Whether `path` is on a network file system; `None` if `path` cannot be examined.
pub(crate) fn is_network_fs(path: &Path) -> Option<bool> {
    let kind = rustix::fs::statfs(path).ok()?.f_type;
    // 32 bits, sign-extended on some architectures.
    Some(NETWORK_FS.contains(&i64::from(kind as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_local_and_a_missing_path_is_unknown() {
        assert_eq!(is_network_fs(Path::new("/proc")), Some(false));
        assert_eq!(is_network_fs(Path::new("/no/such/path")), None);
    }
}
