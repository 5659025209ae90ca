//! Compares two trees by a walk of its own, without the program under test and without rsync.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::tree::list;

/// The properties to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is one thing that is compared or not")]
pub struct Care {
    /// Owner and group.
    pub owners: bool,
    /// Permission bits, with set-ID and sticky bits.
    pub modes: bool,
    /// Modification times of entries other than directories and links.
    pub times: bool,
    /// Modification times of directories.
    pub directory_times: bool,
    /// Modification times of symbolic links.
    pub link_times: bool,
    /// Compare times in nanoseconds instead of seconds.
    pub nanoseconds: bool,
    /// Extended attributes and ACLs.
    pub attributes: bool,
    /// Hard links.
    pub hard_links: bool,
}

impl Default for Care {
    fn default() -> Self {
        Self {
            owners: true,
            modes: true,
            times: true,
            directory_times: true,
            link_times: true,
            nanoseconds: true,
            attributes: true,
            hard_links: true,
        }
    }
}

impl Care {
    /// The properties that SFTP transfers.
    #[must_use]
    pub fn of_sftp() -> Self {
        Self { nanoseconds: false, attributes: false, ..Self::default() }
    }
}

/// The differences between two trees, including the metadata of their roots: at most one line for each path.
#[must_use]
pub fn tree_differences(one: &Path, other: &Path, care: &Care) -> Vec<String> {
    let names =
        |root: &Path| -> BTreeSet<PathBuf> { list(root).into_iter().chain([PathBuf::new()]).collect() };
    let (here, there) = (names(one), names(other));
    let (groups, other_groups) = (groups(one, &here), groups(other, &there));
    let mut found = Vec::new();
    for path in here.union(&there) {
        let difference = if !there.contains(path) {
            Some("only in the first".to_owned())
        } else if !here.contains(path) {
            Some("only in the second".to_owned())
        } else if care.hard_links && groups.get(path) != other_groups.get(path) {
            Some(format!("one file with {:?}, and with {:?}", groups.get(path), other_groups.get(path)))
        } else {
            entry_difference(&one.join(path), &other.join(path), care)
        };
        found.extend(difference.map(|difference| format!("{path:?}: {difference}")));
    }
    found
}

/// For each name of a file with several names in the tree, the first of these names.
fn groups(root: &Path, names: &BTreeSet<PathBuf>) -> BTreeMap<PathBuf, PathBuf> {
    let mut all: HashMap<(u64, u64), Vec<&PathBuf>> = HashMap::new();
    for path in names {
        if let Ok(meta) = fs::symlink_metadata(root.join(path))
            && !meta.is_dir()
        {
            all.entry((meta.dev(), meta.ino())).or_default().push(path);
        }
    }
    let several = all.into_values().filter(|names| names.len() > 1);
    several
        .flat_map(|names| names.iter().map(|path| ((*path).clone(), names[0].clone())).collect::<Vec<_>>())
        .collect()
}

fn entry_difference(one: &Path, other: &Path, care: &Care) -> Option<String> {
    let (here, there) = match (fs::symlink_metadata(one), fs::symlink_metadata(other)) {
        (Ok(here), Ok(there)) => (here, there),
        (here, there) => return Some(format!("cannot be looked at: {:?}, {:?}", here.err(), there.err())),
    };
    let unequal = |what: &str, here: String, there: String| {
        (here != there).then(|| format!("{what} {here}, and {there}"))
    };
    let is_link = here.is_symlink();
    let cares_for_time = match () {
        () if here.is_dir() => care.directory_times,
        () if is_link => care.link_times,
        () => care.times,
    };
    let time = |meta: &Metadata| {
        format!("{}.{:09}", meta.mtime(), if care.nanoseconds { meta.mtime_nsec() } else { 0 })
    };
    unequal("kind", kind(&here), kind(&there))
        .or_else(|| here.is_file().then(|| content_difference(one, other)).flatten())
        .or_else(|| is_link.then(|| unequal("target", target(one), target(other))).flatten())
        .or_else(|| {
            let mode = |meta: &Metadata| format!("{:o}", meta.mode() & 0o7777);
            (care.modes && !is_link).then(|| unequal("mode", mode(&here), mode(&there))).flatten()
        })
        .or_else(|| {
            let owner = |meta: &Metadata| format!("{}:{}", meta.uid(), meta.gid());
            care.owners.then(|| unequal("owner", owner(&here), owner(&there))).flatten()
        })
        .or_else(|| cares_for_time.then(|| unequal("time", time(&here), time(&there))).flatten())
        .or_else(|| {
            care.attributes.then(|| unequal("attributes", attributes(one), attributes(other))).flatten()
        })
}

fn kind(meta: &Metadata) -> String {
    let kind = meta.file_type();
    match () {
        () if kind.is_file() => "file".to_owned(),
        () if kind.is_dir() => "directory".to_owned(),
        () if kind.is_symlink() => "link".to_owned(),
        () if kind.is_fifo() => "pipe".to_owned(),
        () if kind.is_socket() => "socket".to_owned(),
        () if kind.is_char_device() => format!("character device {}", meta.rdev()),
        () => format!("block device {}", meta.rdev()),
    }
}

fn target(path: &Path) -> String {
    fs::read_link(path).map_or_else(|error| error.to_string(), |to| format!("{to:?}"))
}

/// The offset of the first difference between two files.
fn content_difference(one: &Path, other: &Path) -> Option<String> {
    let open = |path: &Path| File::open(path).unwrap_or_else(|error| panic!("cannot open {path:?}: {error}"));
    let (mut one, mut other) = (open(one), open(other));
    let (mut left, mut right) = (vec![0; 1 << 18], vec![0; 1 << 18]);
    let mut at = 0;
    loop {
        let (here, there) = (read_full(&mut one, &mut left), read_full(&mut other, &mut right));
        let same = left[..here].iter().zip(&right[..there]).take_while(|(here, there)| here == there).count();
        if same < here || same < there {
            return Some(format!("content from byte {} on", at + same));
        }
        if here == 0 {
            return None;
        }
        at += here;
    }
}

fn read_full(file: &mut File, buffer: &mut [u8]) -> usize {
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..]).unwrap() {
            0 => break,
            read => len += read,
        }
    }
    len
}

/// The attributes and ACLs of an entry as sorted text, without the labels of security modules.
fn attributes(path: &Path) -> String {
    let mut names = vec![0; 1 << 16];
    let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let mut found = BTreeMap::new();
    for name in names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let shown = String::from_utf8_lossy(name).into_owned();
        if shown.starts_with("security.") && shown != "security.capability"
            || shown.starts_with("trusted.SGI_ACL")
        {
            continue;
        }
        let mut value = vec![0; 1 << 16];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap_or(0);
        found.insert(shown, String::from_utf8_lossy(&value[..len]).escape_debug().to_string());
    }
    format!("{found:?}")
}
