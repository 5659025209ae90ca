//! The files of the repository.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// All files of the repository that are text, by their paths in it.
pub(crate) struct RepositoryFiles {
    files: Vec<(PathBuf, String)>,
}

/// Directories whose content is not part of the repository, by name.
const SKIPPED: [&str; 5] = ["target", ".git", "corpus", "artifacts", "node_modules"];

impl RepositoryFiles {
    /// Reads the repository at `root`.
    ///
    /// # Errors
    /// If a directory or a file cannot be read.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        let mut waiting = vec![root.to_owned()];
        while let Some(dir) = waiting.pop() {
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                let (path, kind) = (entry.path(), entry.file_type()?);
                let skipped = SKIPPED.iter().any(|name| entry.file_name() == *name);
                if kind.is_dir() && !skipped {
                    waiting.push(path);
                } else if kind.is_file()
                    && let Ok(text) = String::from_utf8(fs::read(&path)?)
                {
                    files.push((path.strip_prefix(root).unwrap_or(&path).to_owned(), text));
                }
            }
        }
        files.sort();
        Ok(Self { files })
    }

    /// All files, with their texts.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files.iter().map(|(path, text)| (path.as_path(), text.as_str()))
    }

    /// The files with this extension.
    pub(crate) fn texts<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = (&'a Path, &'a str)> {
        self.all().filter(move |(path, _)| path.extension().is_some_and(|found| found == extension))
    }
}
