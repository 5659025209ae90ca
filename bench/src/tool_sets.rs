//! The tools that are compared, by kind of case: names of [`crate::peers::TOOLS`].

/// For a tree over a link.
pub(crate) const REMOTE: &[&str] = &[
    "haul",
    "haul --compress none",
    "haul --compress zstd:1",
    "haul --compress none --persist",
    "haul sftp",
    "haul sftp --no-fsync",
    "rsync",
    "scp",
    "tar+ssh",
    "tar+nc",
    "tar+zstd+nc",
    "mscp-8",
    "mscp-16",
    "mscp-32",
    "wdt-4",
    "wdt-8",
    "wdt-16",
    "rclone",
];

/// For file systems that answer late.
pub(crate) const MOUNTED: &[&str] =
    &["haul", "haul --atomic", "fpsync -n 32", "rclone local", "parallel cp", "rsync", "tar", "cp -r"];

/// For copies on one disk.
pub(crate) const LOCAL: &[&str] =
    &["haul", "haul --no-fsync", "cp -a", "cp -a + sync -f", "cp -a --reflink=never + sync -f"];

/// For object stores.
pub(crate) const CLIENTS: &[&str] = &["haul to or from a store", "aws", "s5cmd", "rclone s3", "mc"];

/// For the members of a stream.
pub(crate) const UNPACKERS: &[&str] = &["haul unpack", "haul get+mbstream -p 4", "haul get, written nowhere"];

/// For SMB shares.
pub(crate) const SHARES: &[&str] =
    &["haul to or from a share", "rclone smb -8", "rclone smb -32", "rclone smb -64", "smbclient"];

/// For one stream.
pub(crate) const PIPES: &[&str] =
    &["haul pipe", "haul", "nc", "mbuffer", "zstd+nc", "ssh", "ssh -C", "gzip+ssh"];

/// For links where packing decides.
pub(crate) const PACKING: &[&str] = &[
    "haul",
    "haul --compress none",
    "haul --compress zstd:1",
    "rsync",
    "rsync -z",
    "tar+nc",
    "tar+gzip+nc",
    "tar+zstd+nc",
];
