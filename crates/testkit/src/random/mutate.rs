//! Random changes of a tree.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{NAMES, RandomTrees};
use crate::tree::list;

impl RandomTrees {
    /// Makes up to `count` changes in the tree at `root`. Returns a description of each, for the report of a failure.
    pub fn mutate(&mut self, root: &Path, count: u64) -> Vec<String> {
        self.big = self.shape.big;
        (0..count).filter_map(|_| self.change(root)).collect()
    }

    /// One change; `None` if the tree has nothing that it could be made to.
    fn change(&mut self, root: &Path) -> Option<String> {
        let is_any = |_: &fs::Metadata| true;
        match self.below(16) {
            0 | 1 => {
                let directory = self.any_directory(root);
                self.make(root, &directory).map(|path| format!("make {path:?}"))
            }
            2 => self.remove_any(root),
            3 | 4 => self.replace(root),
            5 => {
                let path = self.any(root, &fs::Metadata::is_file)?;
                self.write(&root.join(&path));
                self.give_time(&root.join(&path));
                Some(format!("write {path:?}"))
            }
            6 => {
                let path = self.any(root, &fs::Metadata::is_file)?;
                let mut file = OpenOptions::new().append(true).open(root.join(&path)).unwrap();
                file.write_all(b"more").unwrap();
                drop(file);
                self.give_time(&root.join(&path));
                Some(format!("append to {path:?}"))
            }
            7 => {
                let path = self.any(root, &is_any)?;
                self.give_mode(&root.join(&path));
                Some(format!("change the mode of {path:?}"))
            }
            8 => {
                let path = self.any(root, &is_any)?;
                self.give_time(&root.join(&path));
                Some(format!("change the time of {path:?}"))
            }
            9 if self.shape.owners => {
                let path = self.any(root, &is_any)?;
                self.give_owner(&root.join(&path));
                Some(format!("change the owner of {path:?}"))
            }
            10 if self.shape.attributes => {
                let path = self.any(root, &is_any)?;
                self.give_attribute(&root.join(&path));
                Some(format!("change an attribute of {path:?}"))
            }
            11 => self.rename(root),
            12 | 13 if self.shape.hard_links => self.split(root),
            14 if self.shape.hard_links => self.join(root),
            _ => self.swap(root),
        }
    }

    fn remove_any(&mut self, root: &Path) -> Option<String> {
        let path = self.any(root, &|_| true)?;
        remove(&root.join(&path));
        Some(format!("remove {path:?}"))
    }

    /// Something else takes the place of an entry: a directory with something in it that of a file, a file that of a
    /// directory, and so on.
    fn replace(&mut self, root: &Path) -> Option<String> {
        let path = self.any(root, &|_| true)?;
        let at = root.join(&path);
        let was_dir = fs::symlink_metadata(&at).unwrap().is_dir();
        remove(&at);
        let (directory, what) =
            (path.parent().unwrap().to_owned(), if was_dir { "a file" } else { "a directory" });
        if was_dir {
            self.write(&at);
        } else {
            fs::create_dir(&at).unwrap();
            self.make(root, &path);
        }
        self.give_metadata(&at);
        Some(format!("put {what} in the place of {:?} in {directory:?}", path.file_name()))
    }

    fn rename(&mut self, root: &Path) -> Option<String> {
        let path = self.any(root, &|_| true)?;
        let directory = self.any_directory(root);
        let to = directory.join(self.pick(&NAMES));
        if to.starts_with(&path) || fs::symlink_metadata(root.join(&to)).is_ok() {
            return None;
        }
        fs::rename(root.join(&path), root.join(&to)).unwrap();
        Some(format!("rename {path:?} to {to:?}"))
    }

    /// A name leaves its group of hard links: with the same content and times, with other metadata, or with other
    /// content.
    fn split(&mut self, root: &Path) -> Option<String> {
        use std::os::unix::fs::MetadataExt;
        let path = self.any(root, &|meta| meta.is_file() && meta.nlink() > 1)?;
        let at = root.join(&path);
        let aside = root.join(".split");
        super::duplicate(&at, &aside);
        fs::rename(&aside, &at).unwrap();
        let how = match self.below(3) {
            0 => "the same",
            1 => {
                self.give_mode(&at);
                "another mode"
            }
            _ => {
                self.write(&at);
                self.give_time(&at);
                "other content"
            }
        };
        Some(format!("make {path:?} a file of its own, with {how}"))
    }

    /// A file becomes a further name of another one.
    fn join(&mut self, root: &Path) -> Option<String> {
        let (from, to) = (self.any(root, &fs::Metadata::is_file)?, self.any(root, &fs::Metadata::is_file)?);
        if from == to {
            return None;
        }
        fs::remove_file(root.join(&to)).unwrap();
        fs::hard_link(root.join(&from), root.join(&to)).unwrap();
        Some(format!("link {to:?} to {from:?}"))
    }

    /// Two entries change places.
    fn swap(&mut self, root: &Path) -> Option<String> {
        let all = list(root);
        if all.len() < 2 {
            return None;
        }
        let (one, other): (PathBuf, PathBuf) = (self.pick(&all), self.pick(&all));
        if one.starts_with(&other) || other.starts_with(&one) {
            return None;
        }
        let aside = root.join(".swap");
        fs::rename(root.join(&one), &aside).unwrap();
        fs::rename(root.join(&other), root.join(&one)).unwrap();
        fs::rename(&aside, root.join(&other)).unwrap();
        Some(format!("swap {one:?} and {other:?}"))
    }
}

/// Removes an entry with all that is in it.
fn remove(at: &Path) {
    let is_dir = fs::symlink_metadata(at).is_ok_and(|meta| meta.is_dir());
    let removed = if is_dir { fs::remove_dir_all(at) } else { fs::remove_file(at) };
    removed.unwrap_or_else(|error| panic!("cannot remove {at:?}: {error}"));
}
