//! The properties that an end keeps.

/// The properties of an entry that an end keeps, and the abilities of the end. [`Keeps::everything`] is a file system
/// of this machine; an end that keeps less clears the fields that it lacks.
#[derive(Clone, Copy, Debug)]
pub struct Keeps {
    /// Modification times of files to the nanosecond; else whole seconds.
    pub nanoseconds: bool,
    /// Modification times of directories.
    pub dir_times: bool,
    /// Permission bits of files.
    pub modes: bool,
    /// Extended attributes.
    pub xattrs: bool,
    /// Several names of one file: a source reports them by inode, and a sink makes them names of one inode.
    pub hard_links: bool,
    /// Symbolic links.
    pub symlinks: bool,
    /// Named pipes.
    pub fifos: bool,
    /// Holes: a source does not read them.
    pub sparse: bool,
    /// The modification times of symbolic links.
    pub symlink_times: bool,
    /// A source finds out that a file was replaced by another one of the same size and time.
    pub inodes: bool,
    /// A sink that is opened later resumes a large file from the slices that an earlier one wrote.
    pub resumes: bool,
    /// The same for a stream, whose length is known at its end.
    pub resumes_streams: bool,
    /// A sink checks content against its proof when it arrives; else only when it is asked to read it back.
    pub verifies: bool,
    /// A root can be a file.
    pub file_roots: bool,
    /// A directory in which nothing is exists, so it can be scanned and removed.
    pub empty_dirs: bool,
    /// Times of a file that a sink may take for the same, in seconds: two cases differ by more.
    pub coarsest: i64,
}

impl Keeps {
    /// All of it.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            nanoseconds: true,
            dir_times: true,
            modes: true,
            xattrs: true,
            hard_links: true,
            symlinks: true,
            fifos: true,
            sparse: true,
            symlink_times: true,
            inodes: true,
            resumes: true,
            resumes_streams: true,
            verifies: true,
            file_roots: true,
            empty_dirs: true,
            coarsest: 1,
        }
    }
}
