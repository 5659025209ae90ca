//! The words about a destination that is full: the free space, and the space that hidden files of haul hold.

use haul_core::path::printable;
use haul_core::staging::{PART, is_staging_name};
use haul_core::text::bytes;
use haul_core::{Error, ErrorKind};

/// The known facts of a file system that is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullDisk {
    /// The bytes that this user may still write.
    pub free: Option<u64>,
    /// It can hold no more files.
    pub has_no_inodes: bool,
    /// The bytes that staged files hold.
    pub staged: StagedBytes,
}

/// The bytes that staged files hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StagedBytes {
    /// Those of runs that have ended.
    pub ended: u64,
    /// Those of this run, and of others that still run.
    pub running: u64,
}

/// Whether the name is that of a staged file.
#[must_use]
pub fn is_part(name: &[u8]) -> bool {
    is_staging_name(name) && name.ends_with(PART)
}

impl FullDisk {
    /// The error of an entry in the directory `dir`, with the known facts. Another error stays as it is.
    #[must_use]
    pub fn explain(self, error: Error, dir: &[u8]) -> Error {
        if error.kind() != ErrorKind::NoSpace || error.hint().is_some() {
            return error;
        }
        match self.hint(dir, error.cause().contains("quota")) {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    fn hint(self, dir: &[u8], is_quota: bool) -> Option<String> {
        let mut told = Vec::new();
        let free = self.free.map(bytes);
        match free {
            Some(free) if is_quota => {
                told.push(format!("the quota is used up; the file system has {free} free"));
            }
            Some(free) if self.has_no_inodes => {
                told.push(format!(
                    "the file system can hold no more files: no inodes are left, though {free} are free"
                ));
            }
            // This run removes its own ones before it ends.
            Some(free) if self.staged.running > 0 => {
                let held = bytes(self.staged.running);
                told.push(format!(
                    "{free} were free there, while unfinished files of running copies held {held}"
                ));
            }
            Some(free) => told.push(format!("{free} were free there")),
            None => {}
        }
        if self.staged.ended > 0 {
            let dir = printable(if dir.is_empty() { b"." } else { dir });
            let held = bytes(self.staged.ended);
            told.push(format!(
                "unfinished files of earlier runs of haul hold {held} there, hidden as `{dir}/.haul-*`: the same \
                 command as then resumes and removes them; if it will not run again, remove them"
            ));
        }
        (!told.is_empty()).then(|| told.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::Side;

    fn full(cause: &str) -> Error {
        Error::new(ErrorKind::NoSpace, Side::Destination, "write", cause)
    }

    #[test]
    fn a_full_disk_is_told_with_what_is_free_and_held() {
        let disk = FullDisk { free: Some(3 << 20), has_no_inodes: false, ..FullDisk::default() };
        let hint = |disk: FullDisk, cause: &str| {
            disk.explain(full(cause), b"/dst").hint().map(str::to_owned).unwrap_or_default()
        };
        assert_eq!(hint(disk, "No space left on device"), "3.00 MiB were free there");
        let none = FullDisk { has_no_inodes: true, ..disk };
        assert!(hint(none, "No space left on device").starts_with("the file system can hold no more files"));
        assert!(hint(disk, "Disk quota exceeded").starts_with("the quota is used up"));
        let running = FullDisk { staged: StagedBytes { ended: 0, running: 5 << 20 }, ..disk };
        let expected = "3.00 MiB were free there, while unfinished files of running copies held 5.00 MiB";
        assert_eq!(hint(running, "No space left on device"), expected);
        let held = FullDisk { staged: StagedBytes { ended: 1536 << 10, running: 0 }, ..disk };
        assert!(hint(held, "x").contains("hold 1.50 MiB there, hidden as `/dst/.haul-*`"));
        assert_eq!(hint(FullDisk::default(), "x"), "");
        let other = Error::new(ErrorKind::Io, Side::Destination, "write", "x");
        assert_eq!(disk.explain(other.clone(), b"/dst"), other);
    }
}
