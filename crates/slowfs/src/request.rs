//! The path of every request: count it, delay it, and inject its fault.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fuser::{Generation, INodeNo, ReplyEmpty, ReplyEntry, ReplyXattr};
use rustix::fs::Mode;
use rustix::io::Errno;

use crate::delay::Later;
use crate::fault::{FaultEffect, FsFaults};
use crate::op::{Counter, Op, RequestClass};
use crate::options::MountOptions;
use crate::passthrough::BackingDir;

/// Maximum length in bytes of one value, and of the list of names (`XATTR_SIZE_MAX` and `XATTR_LIST_MAX` of Linux).
const XATTR_MAX: usize = 64 * 1024;

/// State that all requests share.
pub(crate) struct SharedMount {
    pub(crate) options: MountOptions,
    pub(crate) counter: Counter,
    pub(crate) faults: FsFaults,
    pub(crate) behind: BackingDir,
    hung: Mutex<Hung>,
}

#[derive(Default)]
struct Hung {
    waiting: Vec<Box<dyn FnOnce() + Send>>,
    ended: bool,
}

impl SharedMount {
    pub(crate) fn new(options: MountOptions, behind: BackingDir) -> Self {
        Self { options, counter: Counter::new(), faults: FsFaults::default(), behind, hung: Mutex::default() }
    }

    /// Answers all hanging requests with `EIO`. With `for_good`, later requests do not hang either.
    pub(crate) fn release(&self, for_good: bool) -> usize {
        let mut hung = self.hung.lock().unwrap_or_else(PoisonError::into_inner);
        hung.ended |= for_good;
        let waiting = std::mem::take(&mut hung.waiting);
        drop(hung);
        let count = waiting.len();
        waiting.into_iter().for_each(|answer| answer());
        count
    }

    /// The number of requests that hang.
    pub(crate) fn hanging(&self) -> usize {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner).waiting.len()
    }
}

/// The file system. `fs.rs` implements the requests of the kernel.
pub(crate) struct SlowFs {
    pub(crate) shared: Arc<SharedMount>,
    later: Later,
}

/// Replies with the result, or with its error.
macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $good:expr) => {
        match $result {
            Ok($value) => $good,
            Err(error) => $reply.error(fuser::Errno::from_i32(error.raw_os_error())),
        }
    };
}

pub(crate) use answer;

impl SlowFs {
    pub(crate) fn new(shared: Arc<SharedMount>) -> std::io::Result<Self> {
        Ok(Self { shared, later: Later::start(own_umask)? })
    }

    /// Counts a request and schedules `work` after its delay. `work` receives `Err` if a fault was injected.
    pub(crate) fn go(
        &self,
        op: Op,
        ino: INodeNo,
        name: Option<&OsStr>,
        work: impl FnOnce(&SharedMount, Result<(), Errno>) + Send + 'static,
    ) {
        let shared = self.shared.clone();
        shared.counter.add(op);
        let action = if shared.faults.any() {
            let path = shared.behind.nodes.get(ino).map_or_else(|_| PathBuf::new(), |node| node.path());
            shared.faults.hit(op, &name.map_or(path.clone(), |name| path.join(name)))
        } else {
            None
        };
        let delay = match op.class() {
            RequestClass::Meta => shared.options.meta,
            RequestClass::Data => shared.options.data,
        };
        match action {
            Some(FaultEffect::Hang) => {
                let mut hung = shared.hung.lock().unwrap_or_else(PoisonError::into_inner);
                let answer = {
                    let shared = shared.clone();
                    move || work(&shared, Err(Errno::IO))
                };
                if hung.ended {
                    drop(hung);
                    answer();
                } else {
                    hung.waiting.push(Box::new(answer));
                }
            }
            Some(FaultEffect::Fail(error)) => {
                self.later.at(Instant::now() + delay, Box::new(move || work(&shared, Err(error))));
            }
            None => self.later.at(Instant::now() + delay, Box::new(move || work(&shared, Ok(())))),
        }
    }

    /// Schedules a request whose reply is an entry.
    pub(crate) fn entry(
        &self,
        op: Op,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
        work: impl FnOnce(&BackingDir, &OsStr) -> Result<fuser::FileAttr, Errno> + Send + 'static,
    ) {
        let owned = name.to_owned();
        self.go(op, parent, Some(name), move |shared, allowed| {
            let result = allowed.and_then(|()| work(&shared.behind, &owned));
            answer!(reply, result, attr => reply.entry(&shared.options.cache, &attr, Generation(0)));
        });
    }

    /// Schedules a request whose reply is empty.
    pub(crate) fn plain(
        &self,
        op: Op,
        ino: INodeNo,
        name: Option<&OsStr>,
        reply: ReplyEmpty,
        work: impl FnOnce(&BackingDir) -> Result<(), Errno> + Send + 'static,
    ) {
        self.go(op, ino, name, move |shared, allowed| {
            answer!(reply, allowed.and_then(|()| work(&shared.behind)), () => reply.ok());
        });
    }

    /// Schedules a request whose reply is the value of an attribute, or the list of their names.
    pub(crate) fn xattr(
        &self,
        op: Op,
        ino: INodeNo,
        size: u32,
        reply: ReplyXattr,
        read: impl FnOnce(&str, &mut [u8]) -> rustix::io::Result<usize> + Send + 'static,
    ) {
        if !self.shared.options.xattrs {
            // After this answer the kernel sends no more requests of this kind.
            self.shared.counter.add(op);
            return reply.error(fuser::Errno::ENOSYS);
        }
        self.go(op, ino, None, move |shared, allowed| {
            // A request of size 0 asks for the length.
            let capacity = if size == 0 { XATTR_MAX } else { size as usize };
            let mut data = vec![0; capacity];
            let result = allowed
                .and_then(|()| shared.behind.nodes.get(ino))
                .and_then(|node| read(&node.proc_path(), &mut data));
            answer!(reply, result, count => match size {
                0 => reply.size(u32::try_from(count).unwrap_or(u32::MAX)),
                _ => reply.data(&data[..count]),
            });
        });
    }
}

/// Clears the umask of this thread: the kernel has already applied the caller's.
fn own_umask() {
    // SAFETY: `FS` gives this thread an umask, a root and a working directory of its own. No thread here relies on sharing
    // them, and file descriptors stay shared.
    #[allow(unsafe_code)]
    let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FS) };
    if unshared.is_ok() {
        rustix::process::umask(Mode::empty());
    }
}
