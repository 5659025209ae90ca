//! A file system for tests and benchmarks that behaves like one far away: it shows a folder of this machine, but
//! answers each request of the kernel only after a while, any number of them at the same time. It counts requests by
//! their kind, and fails or hangs those that it is told to.
//!
//! What a tool costs on a network file system is the number of requests that it makes and how many of them it has
//! under way at once; both can be seen here, without a network. Only who mounts it gets in. Links, times in nanoseconds, extended
//! attributes (if wanted), special files and holes are those of the folder behind; `flock` is the kernel's own.
//!
//! ```no_run
//! use std::time::Duration;
//! let options = haul_slowfs::Options { meta: Duration::from_millis(2), ..Default::default() };
//! let mount = haul_slowfs::Mount::new("/srv/data".as_ref(), "/mnt/slow".as_ref(), options)?;
//! // ... something is done below /mnt/slow ...
//! println!("{}", mount.counts().json());
//! # Ok::<(), std::io::Error>(())
//! ```

mod delay;
mod fault;
mod fs;
mod nodes;
mod op;
mod passthrough;
mod request;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Resource, getrlimit, setrlimit};

pub use fault::{Action, Fault, Faults};
pub use op::{Class, Counts, Op};

/// Threads that take requests from the kernel; what is asked waits elsewhere.
const RECEIVERS: usize = 2;
/// Inodes that the kernel knows are held open, one handle each.
const OPEN_FILES: u64 = 1 << 20;

/// How a mount behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What each request waits that is not for content.
    pub meta: Duration,
    /// What each request waits that reads, writes or syncs content.
    pub data: Duration,
    /// How long the kernel may take names and attributes for true without asking again.
    pub cache: Duration,
    /// Whether a listing brings the attributes of what is in it (`READDIRPLUS`, as NFS has it); what use the kernel can
    /// make of them ends with `cache`.
    pub plus: bool,
    /// Whether there are extended attributes; NFS before version 4.2 has none.
    pub xattrs: bool,
    /// Whether names that differ in case only are one name, as on FAT, SMB and APFS. Their case is kept.
    pub folds_case: bool,
    /// The unit in which times are kept, in nanoseconds: what is set is cut off; 0 and 1 keep all of it.
    pub time_unit: u64,
}

impl Default for Options {
    fn default() -> Self {
        let no = Duration::ZERO;
        Self { meta: no, data: no, cache: no, plus: false, xattrs: true, folds_case: false, time_unit: 0 }
    }
}

impl Options {
    /// As an NFS server far away: each request waits `delay`, attributes come with listings and count for three
    /// seconds (`acregmin` of nfs(5)), and there are no extended ones, as before version 4.2.
    #[must_use]
    pub fn nfs(delay: Duration) -> Self {
        Self {
            meta: delay,
            data: delay,
            cache: Duration::from_secs(3),
            plus: true,
            xattrs: false,
            ..Self::default()
        }
    }
}

/// A mounted folder. Unmounted on drop.
pub struct Mount {
    shared: Arc<request::Shared>,
    session: Option<fuser::BackgroundSession>,
    at: PathBuf,
}

impl Mount {
    /// Shows the folder `behind` at the folder `at`. Takes the right to mount.
    ///
    /// # Errors
    /// If one of the folders is not there, or the kernel refuses.
    pub fn new(behind: &Path, at: &Path, options: Options) -> io::Result<Self> {
        more_open_files();
        let nodes = nodes::Nodes::new(behind, options.folds_case)?;
        let shared =
            Arc::new(request::Shared::new(options, passthrough::Behind::new(nodes, options.time_unit)));
        let mut config = fuser::Config::default();
        config.mount_options = vec![
            fuser::MountOption::FSName("haul-slowfs".to_owned()),
            fuser::MountOption::Dev,
            fuser::MountOption::Suid,
        ];
        // Nobody else gets in. So the kernel need not check permissions, for which it would ask for the attributes
        // of every folder on every way.
        config.acl = fuser::SessionACL::Owner;
        config.n_threads = Some(RECEIVERS);
        config.clone_fd = true;
        let session = fuser::Session::new(request::Slow::new(shared.clone())?, at, &config)?.spawn()?;
        Ok(Self { shared, session: Some(session), at: at.to_owned() })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// The path of `name` in it.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.at.join(name)
    }

    /// The requests so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counter.read()
    }

    /// What goes wrong.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// How many requests hang.
    #[must_use]
    pub fn hanging(&self) -> usize {
        self.shared.hanging()
    }

    /// Answers what hangs, with `EIO`. How many requests that were.
    pub fn release(&self) -> usize {
        self.shared.release(false)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.shared.faults.clear();
        self.shared.release(true);
        // Busy for a moment, while those who used it end; or if a failed test left something open: then it goes when
        // that ends, and so does the session.
        let free = (0..40).any(|_| match unmount(&self.at, UnmountFlags::empty()) {
            Err(Errno::BUSY) => {
                std::thread::sleep(Duration::from_millis(50));
                false
            }
            done => done.is_ok(),
        });
        if !free {
            let _ = unmount(&self.at, UnmountFlags::DETACH);
        }
        if let Some(session) = self.session.take()
            && free
        {
            // The kernel has let go of it, so its threads end.
            let _ = session.umount_and_join();
        }
    }
}

/// As many open files as the system lets this process have.
fn more_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |most| most.max(OPEN_FILES));
    let now = limit.maximum;
    (limit.current, limit.maximum) = (Some(wanted), Some(wanted));
    if setrlimit(Resource::Nofile, limit).is_err() {
        // Only root raises the hard limit.
        (limit.current, limit.maximum) = (now, now);
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
