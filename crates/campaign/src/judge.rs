//! Judges a destination by its files alone, without haul.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use haul_testkit::tree::list;
use haul_testkit::{Care, tree_differences};

/// The content that final names may have during a run, or after a failed one.
pub(crate) struct AllowedContent<'a> {
    /// The source.
    pub(crate) from: &'a Path,
    /// A copy of the destination before the run.
    pub(crate) old: &'a Path,
    /// The destination.
    pub(crate) to: &'a Path,
    /// Files over 4 MiB may hold a mix of old and new content if they do not look complete.
    pub(crate) inplace: bool,
}

/// Files up to this length are replaced as a whole, even with `--inplace`.
const SMALL: u64 = 4 << 20;

impl AllowedContent<'_> {
    /// The files whose content is neither the new nor the old.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let mut found = Vec::new();
        for path in list(self.to) {
            let at = self.to.join(&path);
            let Ok(meta) = fs::symlink_metadata(&at) else { continue };
            let staged = path.components().any(|part| part.as_os_str().as_bytes().starts_with(b".haul-"));
            if !meta.is_file() || staged {
                continue;
            }
            let (new, old) = (self.from.join(&path), self.old.join(&path));
            let mixed = self.inplace && meta.len() > SMALL && fs::symlink_metadata(&old).is_ok();
            if same_content(&at, &new) || same_content(&at, &old) || mixed && !looks_complete(&meta, &new) {
                continue;
            }
            // The run may have renamed a file into place meanwhile: compare again.
            if !at.exists() || same_content(&at, &new) || same_content(&at, &old) {
                continue;
            }
            found.push(format!("{path:?} ({} bytes) holds neither the new content nor the old", meta.len()));
        }
        found
    }
}

/// Whether the next run would take the file for up to date.
fn looks_complete(meta: &fs::Metadata, new: &Path) -> bool {
    let facts = |meta: &fs::Metadata| (meta.len(), meta.mtime(), meta.mtime_nsec());
    fs::symlink_metadata(new).is_ok_and(|new| facts(&new) == facts(meta))
}

/// Whether both are files with the same bytes.
fn same_content(one: &Path, other: &Path) -> bool {
    let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    if !is_file(one) || !is_file(other) {
        return false;
    }
    let (Ok(mut one), Ok(mut other)) = (File::open(one), File::open(other)) else { return false };
    let (mut left, mut right) = (Vec::new(), Vec::new());
    one.read_to_end(&mut left).is_ok() && other.read_to_end(&mut right).is_ok() && left == right
}

/// The differences between two trees in one line; `None` if there are none.
pub(crate) fn equal(one: &Path, other: &Path, care: &Care) -> Option<String> {
    if !other.is_dir() {
        return Some(format!("{other:?} is not a directory"));
    }
    let differ = tree_differences(one, other, care);
    let shown = differ.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
    (!differ.is_empty()).then(|| format!("{} differences: {shown}", differ.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_testkit::tree::set_time;

    #[test]
    fn other_content_than_the_new_or_the_old_is_reported() {
        let here = haul_testkit::Scratch::new();
        let (from, old, to) = (here.join("from"), here.join("old"), here.join("to"));
        for dir in [&from, &old, &to] {
            fs::create_dir(dir).unwrap();
        }
        for (name, new, before, now) in
            [("new", "n", "o", "n"), ("old", "n", "o", "o"), ("mix", "n", "o", "x")]
        {
            fs::write(from.join(name), new).unwrap();
            fs::write(old.join(name), before).unwrap();
            fs::write(to.join(name), now).unwrap();
        }
        fs::write(to.join(".haul-0123.part"), "anything").unwrap();
        let names = AllowedContent { from: &from, old: &old, to: &to, inplace: false };
        let found = names.wrong();
        assert!(found.len() == 1 && found[0].contains("mix"), "{found:?}");
    }

    #[test]
    fn an_in_place_mix_must_not_look_complete() {
        let here = haul_testkit::Scratch::new();
        let (from, old, to) = (here.join("from"), here.join("old"), here.join("to"));
        for (dir, byte) in [(&from, b'n'), (&old, b'o'), (&to, b'x')] {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join("big"), vec![byte; 5 << 20]).unwrap();
            set_time(&dir.join("big"), i64::from(byte), 0);
        }
        let names = AllowedContent { from: &from, old: &old, to: &to, inplace: true };
        assert!(names.wrong().is_empty());
        set_time(&to.join("big"), i64::from(b'n'), 0);
        assert_eq!(names.wrong().len(), 1);
    }
}
