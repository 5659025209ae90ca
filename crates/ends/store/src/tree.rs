//! Keys and the paths that they stand for.

use std::sync::Arc;

use haul_core::{Digest, Error, ErrorKind, Place, PlaceRoot, RelPath, Result, SLICE_LEN, Side};
use haul_object::{Client, ListPage, Object};
use haul_streams::sidecar;

use super::metadata;
use super::names::{BadKey, decode, encode};

/// The root of a tree in a bucket.
pub(super) struct Tree {
    pub(super) client: Arc<Client>,
    pub(super) side: Side,
    /// The key of the root, without a slash at its end; empty for the whole bucket.
    root: String,
    /// The user wrote the location with a slash at its end.
    is_directory: bool,
}

/// The kind of the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RootKind {
    Nothing,
    Object,
    Directory,
}

impl Tree {
    /// Resolves a location.
    ///
    /// # Errors
    /// `Usage` if it is not UTF-8, else the error of the failed request.
    pub(super) fn open(client: Arc<Client>, place: &Place, side: Side) -> Result<Self> {
        let path = std::str::from_utf8(&place.path).map_err(|_| {
            let cause = "the name of an object is text in UTF-8";
            Error::new(ErrorKind::Usage, side, "use the location", cause).on(&place.path)
        })?;
        let key = path.strip_suffix('/').unwrap_or(path);
        let mut tree =
            Self { client, side, root: key.to_owned(), is_directory: path.is_empty() || path.ends_with('/') };
        let kind = tree.client.kind();
        let inside = |name: &[u8]| join(key, &encode(kind, name));
        match &place.root {
            PlaceRoot::Exactly => {}
            PlaceRoot::Inside(name) => (tree.root, tree.is_directory) = (inside(name), false),
            PlaceRoot::InsideIfDir(name) => {
                if tree.is_directory || tree.has_below()? {
                    (tree.root, tree.is_directory) = (inside(name), false);
                }
            }
        }
        Ok(tree)
    }

    /// The same root, with errors attributed to `side`.
    pub(super) fn again(&self, side: Side) -> Self {
        Self {
            client: Arc::clone(&self.client),
            side,
            root: self.root.clone(),
            is_directory: self.is_directory,
        }
    }

    /// The whole bucket.
    pub(super) fn top(&self) -> Self {
        Self { root: String::new(), is_directory: true, ..self.again(self.side) }
    }

    /// The key of the root as an absolute path.
    pub(super) fn root_path(&self) -> String {
        format!("/{}", self.root)
    }

    /// Looks up the kind of the root.
    pub(super) fn at_root(&self) -> Result<RootKind> {
        if self.root.is_empty() {
            return Ok(RootKind::Directory);
        }
        if !self.is_directory && self.client.look(&self.root)?.is_some() {
            return Ok(RootKind::Object);
        }
        Ok(if self.has_below()? { RootKind::Directory } else { RootKind::Nothing })
    }

    /// Whether there is a directory at the root: a key that continues after a slash.
    pub(super) fn has_below(&self) -> Result<bool> {
        if self.root.is_empty() {
            return Ok(true);
        }
        match self.below_prefix(&format!("{}/", self.root)) {
            Ok(found) => Ok(found.is_some()),
            // There is no such bucket: the first write reports it.
            Err(error) if error.kind() == ErrorKind::NotFound && self.side == Side::Destination => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The first objects whose keys begin with `prefix`, if there are any. Objects are listed, not common prefixes:
    /// SeaweedFS still lists a directory for a while after its last object is gone.
    pub(super) fn below_prefix(&self, prefix: &str) -> Result<Option<ListPage>> {
        let page = self.client.list(prefix, false, None)?;
        Ok(Some(page).filter(|page| !page.objects.is_empty() || page.next.is_some()))
    }

    /// Encodes a path or a name as the end of a key.
    pub(super) fn encode(&self, path: &[u8]) -> String {
        encode(self.client.kind(), path)
    }

    /// The key of the object at `path`; empty for the whole bucket.
    pub(super) fn key(&self, path: &RelPath) -> String {
        join(&self.root, &self.encode(path.as_bytes()))
    }

    /// The prefix of the keys below the directory at `path`, which is also the key of its own object.
    pub(super) fn directory(&self, path: &RelPath) -> String {
        let mut key = self.key(path);
        if !key.is_empty() {
            key.push('/');
        }
        key
    }

    /// The object with the metadata of the directory at `path`: its own object, or `.haul` in it where the store keeps
    /// no metadata with the former. `None` if the directory has no object of its own.
    ///
    /// # Errors
    /// The error of the failed request.
    pub(super) fn look_directory(&self, path: &RelPath) -> Result<Option<Object>> {
        let key = self.directory(path);
        if key.is_empty() {
            return Ok(None);
        }
        let Some(own) = self.client.look(&key)? else { return Ok(None) };
        if metadata::are_there(&own) {
            return Ok(Some(own));
        }
        let beside = self.client.look(&sidecar::key_of(&key))?.filter(metadata::is_directory);
        Ok(Some(beside.unwrap_or(own)))
    }

    /// The recorded digest of an object: in its metadata or, for a large file, in its sidecar.
    ///
    /// # Errors
    /// The error of the failed request.
    pub(super) fn recorded(&self, object: &Object) -> Result<Option<Digest>> {
        match metadata::digest(object) {
            None if object.len > SLICE_LEN => sidecar::digest_of(&self.client, object),
            noted => Ok(noted),
        }
    }

    /// Decodes the path of a key that begins with [`Tree::directory`] of the root.
    pub(super) fn path(&self, key: &str) -> std::result::Result<RelPath, BadKey> {
        let skip = if self.root.is_empty() { 0 } else { self.root.len() + 1 };
        decode(self.client.kind(), key.get(skip..).unwrap_or_default())
    }

    /// The undecoded text of a key below the root as a path, if it can be one.
    pub(super) fn below(&self, key: &str) -> Option<RelPath> {
        let skip = if self.root.is_empty() { 0 } else { self.root.len() + 1 };
        let text = key.get(skip..)?;
        let path = RelPath::new(text.strip_suffix('/').unwrap_or(text).as_bytes());
        path.ok().filter(|path| !path.is_root())
    }

    /// The name of the object at `path`, for messages.
    pub(super) fn shown(&self, path: &RelPath) -> String {
        self.client.name(&self.key(path))
    }

    pub(super) fn error(&self, kind: ErrorKind, operation: &str, path: &RelPath, cause: &str) -> Error {
        Error::new(kind, self.side, operation, cause).on(self.shown(path))
    }
}

fn join(root: &str, rest: &str) -> String {
    match (root, rest) {
        (root, "") => root.to_owned(),
        ("", rest) => rest.to_owned(),
        (root, rest) => format!("{root}/{rest}"),
    }
}
