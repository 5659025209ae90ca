//! Finds the mount of a directory in `/proc/self/mountinfo`, see proc(5).

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use haul_core::path::printable;
use haul_core::probe::MountedFs;
use rustix::fs::{major, minor};

/// The mount of `directory`, an absolute path without symbolic links.
pub(super) fn of(directory: &Path) -> Option<MountedFs> {
    let table = fs::read("/proc/self/mountinfo").ok()?;
    let dev = fs::metadata(directory).ok()?.dev();
    find(&table, directory.as_os_str().as_bytes(), &format!("{}:{}", major(dev), minor(dev)))
}

/// The last mount with the longest mount point above `directory`; preferably with the device number of `directory`
/// (files on subvolumes have other device numbers than their mount).
fn find(table: &[u8], directory: &[u8], dev: &str) -> Option<MountedFs> {
    let lines: Vec<MountLine> = table.split(|b| *b == b'\n').filter_map(parse).collect();
    let above = || lines.iter().filter(|line| is_above(&line.point, directory));
    let best = |same_device: bool| {
        above().filter(|line| !same_device || line.dev == dev.as_bytes()).max_by_key(|line| line.point.len())
    };
    let line = best(true).or_else(|| best(false))?;
    Some(MountedFs { point: printable(&line.point), kind: line.kind.clone(), options: line.options.clone() })
}

struct MountLine {
    dev: Vec<u8>,
    point: Vec<u8>,
    kind: String,
    options: Vec<String>,
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse(line: &[u8]) -> Option<MountLine> {
    let words: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let dash = words.iter().position(|word| *word == b"-")?;
    let (dev, point, own) = (words.get(2)?, words.get(4)?, words.get(5)?);
    let (kind, of_system) = (words.get(dash + 1)?, words.get(dash + 3)?);
    let mut options: Vec<String> = Vec::new();
    for option in own.split(|b| *b == b',').chain(of_system.split(|b| *b == b',')) {
        let option = String::from_utf8_lossy(option).into_owned();
        if !options.contains(&option) {
            options.push(option);
        }
    }
    let kind = String::from_utf8_lossy(kind).into_owned();
    Some(MountLine { dev: dev.to_vec(), point: unescape(point), kind, options })
}

fn is_above(point: &[u8], directory: &[u8]) -> bool {
    let Some(rest) = directory.strip_prefix(point) else { return false };
    rest.is_empty() || rest[0] == b'/' || point == b"/"
}

/// Decodes space, tab, newline and backslash, which are written as `\` and three octal digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match (first, digits) {
            (b'\\', Some(&[a, b, c])) => {
                bytes.push((a - b'0').wrapping_mul(64).wrapping_add((b - b'0') * 8 + (c - b'0')));
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=continue\n\
        30 22 0:26 / /mnt/my\\040nfs rw,relatime shared:9 - nfs4 nas:/x rw,vers=4.1,rsize=8192,wsize=1048576,soft\n\
        31 22 0:40 / /mnt rw - tmpfs tmpfs rw,size=1024k\n\
        32 22 254:0 /deep /mnt/bound ro,noatime - ext4 /dev/vda rw\n\
        not a line\n";

    fn kind(directory: &str, dev: &str) -> (String, String) {
        let mount = find(TABLE, directory.as_bytes(), dev).unwrap();
        (mount.point, mount.kind)
    }

    #[test]
    fn the_nearest_mount_above_is_found() {
        let pair = |point: &str, kind: &str| (point.to_owned(), kind.to_owned());
        assert_eq!(kind("/srv/x", "254:0"), pair("/", "ext4"));
        assert_eq!(kind("/mnt", "0:40"), pair("/mnt", "tmpfs"));
        assert_eq!(kind("/mntx", "254:0"), pair("/", "ext4"));
        assert_eq!(kind("/mnt/my nfs/a", "0:26"), pair("/mnt/my nfs", "nfs4"));
        assert_eq!(kind("/mnt/bound/y", "9:9"), pair("/mnt/bound", "ext4"));
        assert_eq!(find(b"", b"/", "1:1"), None);
    }

    #[test]
    fn options_of_mount_and_file_system_are_merged() {
        let mount = find(TABLE, b"/mnt/my nfs", "0:26").unwrap();
        for option in ["rw", "soft", "rsize=8192", "relatime"] {
            assert!(mount.options.iter().any(|known| known == option), "{option}");
        }
        assert_eq!(mount.options.iter().filter(|option| *option == "rw").count(), 1);
    }
}
