//! Random trees and random changes of them, the same for the same seed: for tests that compare two programs.
//!
//! Names come from a small pool, so that a file often takes the place of a directory, a link that of a file, and so on.

mod mutate;

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat};

use crate::content::{Random, write_file};
use crate::needs::is_root;
use crate::tree::{list, set_time};

/// Names of entries. Few, and some of them are unpleasant.
const NAMES: [&str; 14] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "with space",
    "new\nline",
    "-dash",
    "\u{fc}",
    "x*y",
    ".hidden",
    "Z",
    "long-long-long-name",
];

/// Lengths of files. Files of more than 4 MiB come from [`TreeShape::big`].
const LENGTHS: [u64; 8] = [0, 1, 7, 100, 4096, 5000, 70_000, 300_000];

/// The entries and metadata that a random tree may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeShape {
    /// Entries that are made, at most.
    pub entries: u64,
    /// Levels of directories, at most.
    pub depth: usize,
    /// Pipes, and devices where this user may make them.
    pub specials: bool,
    /// Extended attributes and ACLs.
    pub attributes: bool,
    /// Files of several names.
    pub hard_links: bool,
    /// Owners other than the user who runs the test; needs root.
    pub owners: bool,
    /// Files of 4 to 13 MiB, at most.
    pub big: u64,
    /// Modification times with nanoseconds; else whole seconds.
    pub nanoseconds: bool,
}

impl Default for TreeShape {
    fn default() -> Self {
        Self {
            entries: 40,
            depth: 4,
            specials: true,
            attributes: true,
            hard_links: true,
            owners: is_root(),
            big: 1,
            nanoseconds: true,
        }
    }
}

impl TreeShape {
    /// A tree that SFTP can carry.
    #[must_use]
    pub fn of_sftp() -> Self {
        Self { specials: false, attributes: false, nanoseconds: false, ..Self::default() }
    }
}

/// Makes and changes trees. The seed and the content of the trees determine everything that it does.
#[derive(Clone, Debug)]
pub struct RandomTrees {
    random: Random,
    shape: TreeShape,
    big: u64,
}

impl RandomTrees {
    /// A maker with this seed.
    #[must_use]
    pub fn new(seed: u64, shape: TreeShape) -> Self {
        Self { random: Random::new(seed), shape, big: shape.big }
    }

    /// Fills the directory `root`, which is made if it is not there.
    pub fn fill(&mut self, root: &Path) {
        fs::create_dir_all(root).unwrap_or_else(|error| panic!("cannot make {root:?}: {error}"));
        for _ in 0..self.below(self.shape.entries) + 2 {
            let directory = self.any_directory(root);
            self.make(root, &directory);
        }
        // Each new entry has changed the times of its directory.
        for path in list(root).into_iter().rev().filter(|path| root.join(path).is_dir()) {
            if self.one_in(2) {
                self.give_time(&root.join(path));
            }
        }
    }

    fn below(&mut self, high: u64) -> u64 {
        self.random.between(0, high)
    }

    fn one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }

    fn pick<T>(&mut self, from: &[T]) -> T
    where
        T: Clone,
    {
        let at = self.below(from.len() as u64) as usize;
        from[at].clone()
    }

    /// A directory of the tree that is not too deep; often the root.
    fn any_directory(&mut self, root: &Path) -> PathBuf {
        let depth = self.shape.depth;
        let is_directory = |path: &PathBuf| {
            path.components().count() < depth
                && fs::symlink_metadata(root.join(path)).is_ok_and(|meta| meta.is_dir())
        };
        let mut directories: Vec<PathBuf> = list(root).into_iter().filter(is_directory).collect();
        directories.push(PathBuf::new());
        self.pick(&directories)
    }

    /// An entry of the tree, if there is one.
    fn any(&mut self, root: &Path, wanted: &dyn Fn(&fs::Metadata) -> bool) -> Option<PathBuf> {
        let is_wanted =
            |path: &PathBuf| fs::symlink_metadata(root.join(path)).is_ok_and(|meta| wanted(&meta));
        let found: Vec<PathBuf> = list(root).into_iter().filter(is_wanted).collect();
        (!found.is_empty()).then(|| self.pick(&found))
    }

    /// Makes an entry in `directory`, unless its name is taken. Its path below the root, if so.
    fn make(&mut self, root: &Path, directory: &Path) -> Option<PathBuf> {
        let path = directory.join(self.pick(&NAMES));
        let at = root.join(&path);
        if fs::symlink_metadata(&at).is_ok() {
            return None;
        }
        match self.below(20) {
            0..5 => fs::create_dir(&at).unwrap_or_else(|error| panic!("cannot make {at:?}: {error}")),
            5..7 => {
                let target = self.pick(&NAMES);
                std::os::unix::fs::symlink(target, &at)
                    .unwrap_or_else(|error| panic!("cannot link {at:?}: {error}"));
            }
            7 if self.shape.specials => self.make_special(&at),
            8..10 if self.shape.hard_links => match self.any(root, &fs::Metadata::is_file) {
                Some(other) => {
                    fs::hard_link(root.join(other), &at)
                        .unwrap_or_else(|error| panic!("cannot link {at:?}: {error}"));
                    // Its metadata is that of the other name.
                    return Some(path);
                }
                None => self.write(&at),
            },
            _ => self.write(&at),
        }
        self.give_metadata(&at);
        Some(path)
    }

    /// Writes a file anew.
    fn write(&mut self, at: &Path) {
        let mut len = self.pick(&LENGTHS);
        if self.big > 0 && self.one_in(12) {
            self.big -= 1;
            len = self.random.between(4 << 20, 13 << 20);
        }
        let key = self.random.next_u64();
        write_file(at, key, len);
    }

    fn make_special(&mut self, at: &Path) {
        let (kind, device) = match self.below(3) {
            0 if is_root() => (FileType::CharacterDevice, makedev(1, self.pick(&[3, 5]))),
            1 if is_root() => (FileType::BlockDevice, makedev(7, 200)),
            _ => (FileType::Fifo, 0),
        };
        mknodat(CWD, at, kind, Mode::from_raw_mode(0o600), device)
            .unwrap_or_else(|error| panic!("cannot make {at:?}: {error}"));
    }

    /// Gives an entry an owner, a mode, attributes and a time.
    fn give_metadata(&mut self, at: &Path) {
        if self.shape.owners && self.one_in(4) {
            self.give_owner(at);
        }
        if self.one_in(2) {
            self.give_mode(at);
        }
        if self.shape.attributes && self.one_in(4) {
            self.give_attribute(at);
        }
        self.give_time(at);
    }

    fn give_owner(&mut self, at: &Path) {
        let (uid, gid) = (self.pick(&[0, 1, 1000, 65534]), self.pick(&[0, 5, 1000]));
        std::os::unix::fs::lchown(at, Some(uid), Some(gid))
            .unwrap_or_else(|error| panic!("cannot give {at:?} to {uid}:{gid}: {error}"));
    }

    fn give_mode(&mut self, at: &Path) {
        let meta = fs::symlink_metadata(at).unwrap();
        if meta.is_symlink() {
            return;
        }
        // Root gets into every directory; another user has to be let in.
        let modes: &[u32] = match (meta.is_dir(), is_root()) {
            (true, true) => &[0o755, 0o700, 0o555, 0o777, 0o1777, 0o2755, 0o000],
            (true, false) => &[0o755, 0o700, 0o777],
            (false, _) => &[0o644, 0o600, 0o400, 0o755, 0o666, 0o4755, 0o000],
        };
        let mode = self.pick(modes);
        fs::set_permissions(at, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Sets an extended attribute or an ACL, where this kind of entry may have one.
    fn give_attribute(&mut self, at: &Path) {
        let kind = fs::symlink_metadata(at).unwrap().file_type();
        if !kind.is_file() && !kind.is_dir() {
            return;
        }
        let value = self.pick(&["one", "two", ""]);
        let set = |name: &str, value: &[u8]| rustix::fs::lsetxattr(at, name, value, XattrFlags::empty());
        if self.one_in(3) {
            let user = self.pick(&[7, 1234]);
            let permissions = self.pick(&[4, 6]);
            set("system.posix_acl_access", &acl(user, permissions))
        } else {
            set(self.pick(&["user.a", "user.b"]), value.as_bytes())
        }
        .unwrap_or_else(|error| panic!("cannot set an attribute of {at:?}: {error}"));
    }

    fn give_time(&mut self, at: &Path) {
        let seconds = 1_600_000_000 + self.below(100_000_000) as i64;
        let nanoseconds = if self.shape.nanoseconds { self.below(1_000_000_000) as u32 } else { 0 };
        set_time(at, seconds, nanoseconds);
    }
}

/// An access ACL in the format of the kernel, version 2: the owner may read and write, `user` has `permissions`.
fn acl(user: u32, permissions: u16) -> Vec<u8> {
    let nobody = u32::MAX;
    let entries = [
        (0x01_u16, 6, nobody),
        (0x02, permissions, user),
        (0x04, 4, nobody),
        (0x10, 6, nobody),
        (0x20, 4, nobody),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// Gives the directory `from` the name `to`, with all that is in it: `cp -a`, so that both are the same to the last
/// link.
pub fn duplicate(from: &Path, to: &Path) {
    let absent = fs::symlink_metadata(to).is_err();
    assert!(absent, "{to:?} is there already");
    // `CString` refuses a path with a NUL byte, with a better message than the shell.
    CString::new(to.as_os_str().as_bytes()).unwrap();
    crate::needs::tool(std::process::Command::new("cp").arg("-a").arg("--").arg(from).arg(to));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Care, tree_differences};

    #[test]
    fn the_same_seed_makes_the_same_tree_and_the_same_changes() {
        let here = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let root = here.path().join(name);
            let mut trees = RandomTrees::new(7, TreeShape { big: 0, ..TreeShape::default() });
            trees.fill(&root);
            let done = trees.mutate(&root, 12);
            (root, done)
        };
        let (one, other) = (make("one"), make("other"));
        assert_eq!(one.1, other.1);
        let differ = tree_differences(
            &one.0,
            &other.0,
            &Care { directory_times: false, times: false, ..Care::default() },
        );
        assert!(differ.is_empty(), "{differ:#?}");
    }

    #[test]
    fn seeds_and_changes_make_a_difference() {
        let here = tempfile::tempdir().unwrap();
        let mut seen = 0;
        for seed in 0..20 {
            let (one, other) =
                (here.path().join(format!("{seed}")), here.path().join(format!("{seed}-copy")));
            let mut trees = RandomTrees::new(seed, TreeShape { big: 0, ..TreeShape::default() });
            trees.fill(&one);
            duplicate(&one, &other);
            let same = tree_differences(&one, &other, &Care::default());
            assert!(same.is_empty(), "{same:#?}");
            let done = trees.mutate(&other, 6);
            seen +=
                usize::from(!done.is_empty() && !tree_differences(&one, &other, &Care::default()).is_empty());
        }
        assert!(seen >= 18, "changes are seen in {seen} of 20");
    }
}
