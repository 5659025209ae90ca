//! Following symbolic links of a source (`--copy-links`).
//!
//! The user asks for it, so links may lead out of the root. Those of a confined session may not lead out of its
//! directory; the kernel checks that while it resolves them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use super::at::At;
use super::descriptors;
use super::stat;

/// The error of a link that leads to nothing. No file system returns this number for a path.
pub(crate) const DANGLING: Errno = Errno::NOLINK;
/// The error of a link that leads out of the directory of a confined session.
pub(crate) const LEAVES: Errno = Errno::XDEV;

/// Tries to resolve a link while other programs rename directories on the way.
const TRIES: usize = 32;

/// How a root treats symbolic links below it.
#[derive(Clone, Debug, Default)]
pub(crate) enum Follow {
    /// No path leads through one.
    #[default]
    Never,
    /// They are followed wherever they lead.
    Anywhere,
    /// They are followed within a directory.
    Within(Arc<Fence>),
}

/// The directory that links may not lead out of.
#[derive(Debug)]
pub(crate) struct Fence {
    directory: OwnedFd,
    /// The path of the root from there.
    root: Vec<u8>,
}

impl Fence {
    pub(crate) fn new(directory: OwnedFd, root: Vec<u8>) -> Self {
        Self { directory, root }
    }

    /// Opens the entry at `path` below the root. The whole path is resolved again, because a link may lead above the
    /// directory that it is in, and still stay within the fence.
    fn open(&self, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let mut whole = self.root.clone();
        if !path.is_empty() {
            whole.push(b'/');
            whole.extend_from_slice(path);
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let open = || rustix::fs::openat2(self.directory.as_fd(), &whole[..], flags, Mode::empty(), resolve);
        let mut opened = descriptors::wait_for(open);
        for _ in 1..TRIES {
            if opened.as_ref().err() != Some(&Errno::AGAIN) {
                break;
            }
            opened = descriptors::wait_for(open);
        }
        opened
    }
}

impl Follow {
    pub(crate) fn is_never(&self) -> bool {
        matches!(self, Self::Never)
    }

    /// Opens the target of the link `at`, which is at `path` below the root.
    ///
    /// # Errors
    /// `DANGLING` and `LEAVES`; `LOOP` if links are not followed, or lead to each other.
    pub(super) fn open(&self, at: &At, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags.difference(OFlags::NOFOLLOW) | OFlags::CLOEXEC;
        at.dir.ops.one();
        let opened = match self {
            Self::Never => return Err(Errno::LOOP),
            Self::Anywhere => {
                descriptors::wait_for(|| rustix::fs::openat(&at.dir, &at.name[..], flags, Mode::empty()))
            }
            Self::Within(fence) => fence.open(path, flags),
        };
        match opened {
            // Else the link itself was removed since it was found.
            Err(Errno::NOENT) if is_link(at) => Err(DANGLING),
            // The link leads through a file.
            Err(Errno::NOTDIR) if !flags.contains(OFlags::DIRECTORY) => Err(DANGLING),
            other => other,
        }
    }
}

fn is_link(at: &At) -> bool {
    at.dir.ops.one();
    let found = rustix::fs::statx(&at.dir, &at.name[..], AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE);
    found.is_ok_and(|found| stat::kind(&found) == FileType::Symlink)
}
