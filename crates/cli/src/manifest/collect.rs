//! Collects the digests of a run and writes them as a manifest, sorted by name.

use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_core::event::{Action, Content};
use haul_core::sync::Mutex;
use haul_core::{Digest, Error, Result, Side};
use haul_spool::Sorter;
use serde::{Deserialize, Serialize};

use super::sign::{check_key, sign};
use super::temporary::temporary;
use super::write::write_line;
use crate::settings::of_option;

/// A manifest that the user asked for.
#[derive(Clone, Debug)]
pub(crate) struct ManifestRequest {
    /// The file to write.
    pub(crate) file: PathBuf,
    /// Its digests are those of [`Manifest::add_sha256`].
    pub(crate) sha256: bool,
    /// The ssh key to sign it with.
    pub(crate) key: Option<PathBuf>,
    /// The names in it.
    pub(crate) names: ManifestNames,
}

/// How a manifest names the files of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ManifestNames {
    /// By the path relative to the destination.
    Path,
    /// By the last component: streams are reported by their whole location.
    Last,
    /// By the name of the one file that the run writes.
    Given(Vec<u8>),
}

impl ManifestNames {
    fn of<'a>(&'a self, name: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Path => name,
            Self::Last => name.rsplit(|byte| *byte == b'/').next().unwrap_or(name),
            Self::Given(given) => given,
        }
    }
}

/// The manifest of a run. Its memory is bounded, however many files there are.
pub(crate) struct Manifest {
    file: PathBuf,
    sha256: bool,
    key: Option<PathBuf>,
    names: ManifestNames,
    collected: Mutex<Collected>,
}

#[derive(Default)]
struct Collected {
    files: Sorter<ManifestFile>,
    links: Sorter<ManifestLink>,
    /// Orders the digests of one name in time: a later source may replace the file of an earlier one.
    next: u64,
    /// Files at the destination whose content the run did not verify.
    without_digest: u64,
    failure: Option<io::Error>,
}

impl Collected {
    fn push(&mut self, name: &[u8], digest: Digest) -> io::Result<()> {
        self.next += 1;
        self.files.push(ManifestFile { name: name.to_vec(), at: self.next, digest: digest.0 })
    }
}

/// A file, ordered by name and then by time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct ManifestFile {
    name: Vec<u8>,
    at: u64,
    digest: [u8; 32],
}

/// A further name of a file, ordered by the first name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct ManifestLink {
    first_name: Vec<u8>,
    name: Vec<u8>,
}

/// A manifest that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WrittenManifest {
    /// The file.
    #[serde(serialize_with = "as_text")]
    pub(crate) file: PathBuf,
    /// Lines in it.
    pub(crate) files: u64,
    /// Files that the run handled without a digest, so that the manifest lacks them.
    pub(crate) without_digest: u64,
    /// It was signed.
    pub(crate) signed: bool,
}

fn as_text<S: serde::Serializer>(path: &Path, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

impl Manifest {
    /// Checks that the file can be written and the key can be read, and collects digests.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if no file can be created in its directory, if it is not a regular file, or if
    /// the key cannot be read.
    pub(crate) fn begin(request: &ManifestRequest) -> Result<Self> {
        let file = &request.file;
        let refused = |error: &io::Error| {
            of_option(Error::io(Side::Local, "write the manifest", error).on(file.as_os_str().as_bytes()))
        };
        let file = match std::fs::metadata(file) {
            Ok(found) if !found.is_file() => {
                return Err(refused(&io::Error::other("it is not a regular file")));
            }
            // A symbolic link stays; the file that it points to is replaced.
            Ok(_) => file.canonicalize().map_err(|error| refused(&error))?,
            Err(_) => file.to_owned(),
        };
        temporary(&file).map_err(|error| refused(&error))?;
        if let Some(key) = &request.key {
            check_key(key).map_err(|error| {
                let error = Error::io(Side::Local, "read the key of --sign", &error);
                of_option(error.on(key.as_os_str().as_bytes()))
            })?;
        }
        let ManifestRequest { sha256, key, names, .. } = request.clone();
        Ok(Self { file, sha256, key, names, collected: Mutex::default() })
    }

    /// Records an entry of the run.
    pub(crate) fn add(&self, action: Action, name: &[u8], content: Content<'_>) {
        let name = self.names.of(name);
        let mut collected = self.collected.lock();
        let pushed = match (action, content) {
            (Action::Made | Action::Left | Action::Removed | Action::RemovedAtSource, _) => Ok(()),
            // The other digest follows.
            (_, Content::Digest(_)) if self.sha256 => Ok(()),
            (_, Content::Digest(digest)) => collected.push(name, digest),
            (_, Content::OfName(first)) => {
                collected.links.push(ManifestLink { first_name: first.to_vec(), name: name.to_vec() })
            }
            // Directories and links are updated too.
            (Action::Updated, Content::Unknown) => Ok(()),
            (_, Content::Unknown) => {
                collected.without_digest += 1;
                Ok(())
            }
        };
        if let Err(error) = pushed {
            collected.failure.get_or_insert(error);
        }
    }

    /// Records the SHA-256 of a file of the run, if the manifest has such digests; `None` if there is none.
    pub(crate) fn add_sha256(&self, name: &[u8], digest: Option<Digest>) {
        if !self.sha256 {
            return;
        }
        let name = self.names.of(name);
        let mut collected = self.collected.lock();
        match digest.map(|digest| collected.push(name, digest)) {
            None => collected.without_digest += 1,
            Some(Ok(())) => {}
            Some(Err(error)) => {
                collected.failure.get_or_insert(error);
            }
        }
    }

    /// Writes the file: under a temporary name first, so that an older manifest stays until this one is complete. Signs
    /// it if a key was given and the run was `successful`.
    ///
    /// # Errors
    /// The error of a write, or of the temporary lists.
    pub(crate) fn write(&self, successful: bool) -> io::Result<WrittenManifest> {
        let Collected { files, links, mut without_digest, failure, .. } =
            std::mem::take(&mut *self.collected.lock());
        if let Some(error) = failure {
            return Err(error);
        }
        let mut out = BufWriter::new(temporary(&self.file)?);
        let mut count = 0;
        let mut write = |file: ManifestFile| {
            count += 1;
            out.write_all(&write_line(&file.name, &Digest(file.digest)))
        };
        let mut files = Latest(files.sorted()?.peekable());
        if links.is_empty() {
            files.try_for_each(|file| write(file?))?;
        } else {
            let mut all = Sorter::default();
            without_digest += join(files, links, &mut all)?;
            for file in all.sorted()? {
                write(file?)?;
            }
        }
        let new = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        new.as_file().sync_all()?;
        new.persist(&self.file)?;
        let key = self.key.as_ref().filter(|_| successful);
        let signature = key.map(|key| sign(&self.file, key)).transpose()?;
        Ok(WrittenManifest {
            file: self.file.clone(),
            files: count,
            without_digest,
            signed: signature.is_some(),
        })
    }
}

/// Gives each further name the digest of the first one. Returns how many have none, because the run did not copy or
/// compare the first name.
fn join(
    files: impl Iterator<Item = io::Result<ManifestFile>>,
    links: Sorter<ManifestLink>,
    all: &mut Sorter<ManifestFile>,
) -> io::Result<u64> {
    let mut links = links.sorted()?.peekable();
    let mut without_digest = 0;
    for file in files {
        let file = file?;
        let is_due =
            |link: &io::Result<ManifestLink>| link.as_ref().is_ok_and(|link| link.first_name <= file.name);
        while let Some(link) = links.next_if(is_due).transpose()? {
            if link.first_name == file.name {
                all.push(ManifestFile { name: link.name, ..file.clone() })?;
            } else {
                without_digest += 1;
            }
        }
        all.push(file)?;
    }
    for link in links {
        link?;
        without_digest += 1;
    }
    Ok(without_digest)
}

/// The last digest of each name.
struct Latest<I: Iterator<Item = io::Result<ManifestFile>>>(std::iter::Peekable<I>);

impl<I: Iterator<Item = io::Result<ManifestFile>>> Iterator for Latest<I> {
    type Item = io::Result<ManifestFile>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut last = match self.0.next()? {
            Ok(file) => file,
            Err(error) => return Some(Err(error)),
        };
        while let Some(Ok(later)) =
            self.0.next_if(|next| next.as_ref().is_ok_and(|next| next.name == last.name))
        {
            last = later;
        }
        Some(Ok(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::ErrorKind;

    fn begin(file: &Path) -> Result<Manifest> {
        Manifest::begin(&ManifestRequest {
            file: file.to_owned(),
            sha256: false,
            key: None,
            names: ManifestNames::Path,
        })
    }

    fn digest(byte: u8) -> Content<'static> {
        Content::Digest(Digest([byte; 32]))
    }

    fn line(name: &str, byte: u8) -> String {
        String::from_utf8(write_line(name.as_bytes(), &Digest([byte; 32]))).unwrap()
    }

    #[test]
    fn files_are_sorted_and_further_names_have_the_digest_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("m");
        std::fs::write(&file, "old").unwrap();
        let manifest = begin(&file).unwrap();
        manifest.add(Action::Copied, b"c", digest(3));
        manifest.add(Action::Replaced, b"b", digest(2));
        manifest.add(Action::Same, b"d", digest(4));
        manifest.add(Action::Linked, b"a", Content::OfName(b"c"));
        manifest.add(Action::Same, b"e", Content::OfName(b"c"));
        manifest.add(Action::Linked, b"lost", Content::OfName(b"b2"));
        manifest.add(Action::Linked, b"lost too", Content::OfName(b"x"));
        // A later source replaces the file of an earlier one.
        manifest.add(Action::Replaced, b"b", digest(5));
        manifest.add(Action::Copied, b"cloned", Content::Unknown);
        manifest.add(Action::Made, b"dir", Content::Unknown);
        manifest.add(Action::Updated, b"dir", Content::Unknown);
        manifest.add(Action::Removed, b"gone", Content::Unknown);
        manifest.add(Action::RemovedAtSource, b"c", Content::Unknown);
        assert_eq!(std::fs::read(&file).unwrap(), b"old");
        let written = manifest.write(true).unwrap();
        assert_eq!(
            written,
            WrittenManifest { file: file.clone(), files: 5, without_digest: 3, signed: false }
        );
        let expected: String =
            [("a", 3), ("b", 5), ("c", 3), ("d", 4), ("e", 3)].map(|(name, byte)| line(name, byte)).concat();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_a_regular_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::fs::write(dir.path().join("m"), "old").unwrap();
        std::os::unix::fs::symlink("m", &link).unwrap();
        begin(&link).unwrap().write(true).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read(dir.path().join("m")).unwrap(), b"");
        for refused in [dir.path().to_owned(), dir.path().join("no/m"), PathBuf::from("/dev/null")] {
            let error = begin(&refused).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
            assert!(!error.to_string().contains(".haul-"), "{error}");
        }
    }
}
