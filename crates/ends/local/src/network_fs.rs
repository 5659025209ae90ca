//! Which file systems are far away.

use std::path::Path;

/// Types of file systems whose every question may go to a server, as `statfs(2)` tells them (`linux/magic.h`, and
/// where it does not name them, the kernel's or the vendor's own headers). What FUSE shows may be anything: it is taken
/// for far away, as it mostly is.
const NETWORK_FS: [i64; 17] = [
    0x6573_5546, // FUSE
    0x6969,      // NFS
    0xFF53_4D42, // CIFS
    0xFE53_4D42, // SMB 2 and later
    0x517B,      // SMB, of old
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
    0x786F_4256, // VirtualBox's shared folders
];

/// Whether `path` is on such a file system; `None` if it cannot be told.
pub(super) fn of(path: &Path) -> Option<bool> {
    let kind = rustix::fs::statfs(path).ok()?.f_type;
    // 32 bits, sign-extended on some architectures.
    Some(NETWORK_FS.contains(&i64::from(kind as u32)))
}
