//! Reading extended attributes.

use std::os::fd::{AsFd, BorrowedFd};

use haul_core::Ops;
use haul_core::entry::Xattr;
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde_bytes::ByteBuf;

use haul_core::preserve::RESERVED_XATTRS;

use super::at::{At, Dir};
use super::held::{HeldInode, hold_name};
use super::stat;

/// The most bytes that all names, or one value, may take (`XATTR_LIST_MAX` and `XATTR_SIZE_MAX` of Linux).
const XATTR_MAX: usize = 64 * 1024;

/// Whether an attribute is copied. Attributes that belong to the machine are not: a security label of one host means
/// nothing on another, `system.nfs4_acl` and the like repeat mode and owner, and XFS shows its ACLs a second time under
/// names of its own.
pub(crate) fn is_carried(name: &[u8]) -> bool {
    (name.starts_with(b"user.") && !name.starts_with(RESERVED_XATTRS))
        || (name.starts_with(b"trusted.") && !name.starts_with(b"trusted.SGI_ACL_"))
        || name == b"security.capability"
        || name == b"system.posix_acl_access"
        || name == b"system.posix_acl_default"
}

/// The file whose attributes are read.
pub(crate) enum XattrsOf<'a> {
    /// A file that is open for reading or writing.
    File(BorrowedFd<'a>),
    /// A file that is only held.
    Held(BorrowedFd<'a>),
    /// The entry with this name, even if it is a link.
    Name(&'a At),
}

impl<'a> XattrsOf<'a> {
    /// A held file.
    pub(crate) fn held(held: &'a HeldInode) -> Self {
        match held {
            HeldInode::Only(fd) => Self::Held(fd.as_fd()),
            HeldInode::Open(fd) => Self::File(fd.as_fd()),
        }
    }

    fn list(&self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Self::File(fd) => rustix::fs::flistxattr(fd, buffer),
            Self::Held(fd) if stat::has_proc() => rustix::fs::listxattr(stat::path_of(fd), buffer),
            Self::Held(fd) => match stat::open_dir(fd) {
                Ok(dir) => rustix::fs::flistxattr(dir, buffer),
                // It cannot be asked, which says nothing about the file system.
                Err(Errno::NOTSUP) => Ok(0),
                Err(errno) => Err(errno),
            },
            Self::Name(at) if stat::has_proc() => rustix::fs::llistxattr(at.proc_path(), buffer),
            Self::Name(at) => XattrsOf::held(&hold_name(at, OFlags::empty())?).list(buffer),
        }
    }

    fn get(&self, name: &[u8], buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Self::File(fd) => rustix::fs::fgetxattr(fd, name, buffer),
            Self::Held(fd) if stat::has_proc() => rustix::fs::getxattr(stat::path_of(fd), name, buffer),
            Self::Held(fd) => rustix::fs::fgetxattr(stat::open_dir(fd)?, name, buffer),
            Self::Name(at) if stat::has_proc() => rustix::fs::lgetxattr(at.proc_path(), name, buffer),
            Self::Name(at) => XattrsOf::held(&hold_name(at, OFlags::empty())?).get(name, buffer),
        }
    }
}

/// Whether the file could have an attribute of this name, as far as reading it shows.
pub(crate) fn is_supported(ops: &Ops, of: &XattrsOf<'_>, name: &[u8]) -> bool {
    ops.one();
    of.get(name, &mut [0_u8; 1]) != Err(Errno::NOTSUP)
}

/// The carried attributes, sorted by name; none on a file system without attributes.
pub(crate) fn read(ops: &Ops, of: &XattrsOf<'_>) -> rustix::io::Result<Vec<Xattr>> {
    match read_or_unsupported(ops, of) {
        Err(Errno::NOTSUP) => Ok(Vec::new()),
        other => other,
    }
}

/// The carried attributes, sorted by name.
///
/// # Errors
/// `NOTSUP` on a file system without attributes.
pub(crate) fn read_or_unsupported(ops: &Ops, of: &XattrsOf<'_>) -> rustix::io::Result<Vec<Xattr>> {
    let mut short = [0_u8; 1024];
    let long;
    ops.one();
    let names = match of.list(&mut short) {
        Ok(0) | Err(Errno::NOENT) => return Ok(Vec::new()),
        Ok(n) => &short[..n],
        Err(Errno::RANGE) => {
            let mut buffer = vec![0_u8; XATTR_MAX];
            let n = of.list(&mut buffer)?;
            buffer.truncate(n);
            long = buffer;
            &long[..]
        }
        Err(e) => return Err(e),
    };
    let mut found = Vec::new();
    for name in names.split(|b| *b == 0).filter(|name| is_carried(name)) {
        if let Some(value) = value(ops, of, name)? {
            found.push((ByteBuf::from(name.to_vec()), ByteBuf::from(value)));
        }
    }
    found.sort();
    Ok(found)
}

/// The value of one attribute. `None` if it was removed since, or this user may not read it (`trusted.*`).
fn value(ops: &Ops, of: &XattrsOf<'_>, name: &[u8]) -> rustix::io::Result<Option<Vec<u8>>> {
    let mut value = vec![0_u8; 256];
    ops.one();
    let n = match of.get(name, &mut value) {
        Err(Errno::RANGE) => {
            value.resize(XATTR_MAX, 0);
            of.get(name, &mut value)
        }
        other => other,
    };
    match n {
        Ok(n) => {
            value.truncate(n);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::PERM | Errno::ACCESS) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether the directory has a default ACL, which new files in it inherit. An unreadable one counts as present.
pub(crate) fn has_default_acl(dir: &Dir) -> bool {
    *dir.facts.has_default_acl.get_or_init(|| {
        let found = read(&dir.ops, &XattrsOf::Held(dir.as_fd()));
        found.map_or(true, |found| found.iter().any(|(name, _)| &name[..] == b"system.posix_acl_default"))
    })
}

/// The default ACL of the directory, if it can be read.
pub(crate) fn default_acl(dir: &Dir) -> Option<Vec<u8>> {
    if !has_default_acl(dir) {
        return None;
    }
    value(&dir.ops, &XattrsOf::Held(dir.as_fd()), b"system.posix_acl_default").ok()?
}
