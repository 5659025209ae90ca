//! The mount: starts the file system and unmounts it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::fault::FsFaults;
use crate::nodes::Nodes;
use crate::op::OpCounts;
use crate::options::MountOptions;
use crate::passthrough::BackingDir;
use crate::request::{SharedMount, SlowFs};

/// Threads that receive requests from the kernel. Delayed requests wait in `delay.rs`.
const RECEIVERS: usize = 2;

/// Open files: the file system keeps one handle for each inode that the kernel knows.
const OPEN_FILES: u64 = 1 << 20;

/// A mounted directory. Unmounted on drop.
pub struct SlowMount {
    shared: Arc<SharedMount>,
    session: Option<fuser::BackgroundSession>,
    at: PathBuf,
}

impl SlowMount {
    /// Mounts the directory `behind` at the directory `at`. Needs root.
    ///
    /// # Errors
    /// `ENOENT` if one of the directories does not exist; `EPERM` and other errors of mount(2).
    pub fn new(behind: &Path, at: &Path, options: MountOptions) -> io::Result<Self> {
        more_open_files();
        let nodes = Nodes::new(behind, options.folds_case)?;
        let shared = Arc::new(SharedMount::new(options, BackingDir::new(nodes, options.time_unit)));
        let mut config = fuser::Config::default();
        config.mount_options = vec![
            fuser::MountOption::FSName("haul-slowfs".to_owned()),
            fuser::MountOption::Dev,
            fuser::MountOption::Suid,
        ];
        // Other users have no access, so the kernel does not check permissions. The check would request the attributes
        // of every directory of every path.
        config.acl = fuser::SessionACL::Owner;
        config.n_threads = Some(RECEIVERS);
        config.clone_fd = true;
        let session = fuser::Session::new(SlowFs::new(shared.clone())?, at, &config)?.spawn()?;
        Ok(Self { shared, session: Some(session), at: at.to_owned() })
    }

    /// The mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// The path of `name` below the mount point.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.at.join(name)
    }

    /// The number of requests so far.
    #[must_use]
    pub fn counts(&self) -> OpCounts {
        self.shared.counter.read()
    }

    /// The injected faults.
    #[must_use]
    pub fn faults(&self) -> &FsFaults {
        &self.shared.faults
    }

    /// The number of requests that hang.
    #[must_use]
    pub fn hanging(&self) -> usize {
        self.shared.hanging()
    }

    /// Answers all hanging requests with `EIO`. Returns their number.
    pub fn release(&self) -> usize {
        self.shared.release(false)
    }
}

impl Drop for SlowMount {
    fn drop(&mut self) {
        self.shared.faults.clear();
        self.shared.release(true);
        // The mount is busy for a moment while its users end. If a failed test left a file open, the mount is detached,
        // and the session ends with that test.
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
            // The kernel has closed its side, so the threads end.
            let _ = session.umount_and_join();
        }
    }
}

/// Raises the limit of open files as far as the system allows.
fn more_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |most| most.max(OPEN_FILES));
    let now = limit.maximum;
    (limit.current, limit.maximum) = (Some(wanted), Some(wanted));
    if setrlimit(Resource::Nofile, limit).is_err() {
        // Only root can raise the hard limit.
        (limit.current, limit.maximum) = (now, now);
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
