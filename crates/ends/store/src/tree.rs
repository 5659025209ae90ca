//! Keys and the paths that they stand for.

use std::sync::Arc;

use haul_core::{Digest, Error, ErrorKind, Place, PlaceRoot, RelPath, Result, SLICE_LEN, Side};
use haul_object::{Client, Object, Page, sidecar};

use super::names::{BadKey, decode, encode};
use super::notes;

/// A root in a bucket.
pub(super) struct Tree {
    pub(super) client: Arc<Client>,
    pub(super) side: Side,
    /// The key of the root, without a slash at its end; empty for the whole bucket.
    root: String,
    /// The person said that it is a folder.
    is_folder: bool,
}

/// What is at the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Nothing,
    Object,
    Folder,
}

impl Tree {
    /// Resolves a place.
    ///
    /// # Errors
    /// If it is no key, or the store does not say what is there.
    pub(super) fn open(client: Arc<Client>, place: &Place, side: Side) -> Result<Self> {
        let path = std::str::from_utf8(&place.path).map_err(|_| {
            let cause = "the name of an object is text in UTF-8";
            Error::new(ErrorKind::Usage, side, "use the location", cause).on(&place.path)
        })?;
        let key = path.strip_suffix('/').unwrap_or(path);
        let mut tree =
            Self { client, side, root: key.to_owned(), is_folder: path.is_empty() || path.ends_with('/') };
        let kind = tree.client.kind();
        let inside = |name: &[u8]| join(key, &encode(kind, name));
        match &place.root {
            PlaceRoot::Exactly => {}
            PlaceRoot::Inside(name) => (tree.root, tree.is_folder) = (inside(name), false),
            PlaceRoot::InsideIfDir(name) => {
                if tree.is_folder || tree.has_below()? {
                    (tree.root, tree.is_folder) = (inside(name), false);
                }
            }
        }
        Ok(tree)
    }

    /// The same root, with errors blamed on `side`.
    pub(super) fn again(&self, side: Side) -> Self {
        Self { client: Arc::clone(&self.client), side, root: self.root.clone(), is_folder: self.is_folder }
    }

    /// What is at the root.
    pub(super) fn at_root(&self) -> Result<At> {
        if self.root.is_empty() {
            return Ok(At::Folder);
        }
        if !self.is_folder && self.client.look(&self.root)?.is_some() {
            return Ok(At::Object);
        }
        Ok(if self.has_below()? { At::Folder } else { At::Nothing })
    }

    /// Whether there is a folder at the root: an object whose key goes on after a slash.
    pub(super) fn has_below(&self) -> Result<bool> {
        if self.root.is_empty() {
            return Ok(true);
        }
        match self.below_prefix(&format!("{}/", self.root)) {
            Ok(found) => Ok(found.is_some()),
            // A bucket that is not there: who writes to it hears of it.
            Err(error) if error.kind() == ErrorKind::NotFound && self.side == Side::Destination => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The first of the objects whose keys begin with `prefix`, if there are any. They are asked for themselves, and not
    /// prefixes: SeaweedFS shows a folder for a while after the last object in it is gone.
    pub(super) fn below_prefix(&self, prefix: &str) -> Result<Option<Page>> {
        let page = self.client.list(prefix, false, None)?;
        Ok(Some(page).filter(|page| !page.objects.is_empty() || page.next.is_some()))
    }

    /// A path or a name as the end of a key.
    pub(super) fn encode(&self, path: &[u8]) -> String {
        encode(self.client.kind(), path)
    }

    /// The key of the object at `path`; empty for the whole bucket.
    pub(super) fn key(&self, path: &RelPath) -> String {
        join(&self.root, &self.encode(path.as_bytes()))
    }

    /// What the keys below the folder at `path` begin with; also the key of the folder's own object.
    pub(super) fn folder(&self, path: &RelPath) -> String {
        let mut key = self.key(path);
        if !key.is_empty() {
            key.push('/');
        }
        key
    }

    /// What is noted of the folder at `path`: with its own object or, as some stores keep nothing with that, in the object
    /// `.haul` in it. `None` if it has no object of its own.
    ///
    /// # Errors
    /// If the store does not say.
    pub(super) fn look_folder(&self, path: &RelPath) -> Result<Option<Object>> {
        let key = self.folder(path);
        if key.is_empty() {
            return Ok(None);
        }
        let Some(own) = self.client.look(&key)? else { return Ok(None) };
        if notes::are_there(&own) {
            return Ok(Some(own));
        }
        let beside = self.client.look(&sidecar::key_of(&key))?.filter(notes::is_folder);
        Ok(Some(beside.unwrap_or(own)))
    }

    /// The digest that is recorded of an object: with it or, of a large file, beside it.
    ///
    /// # Errors
    /// If the store does not say.
    pub(super) fn recorded(&self, object: &Object) -> Result<Option<Digest>> {
        match notes::digest(object) {
            None if object.len > SLICE_LEN => sidecar::digest_of(&self.client, object),
            noted => Ok(noted),
        }
    }

    /// The path that a key means, which begins with [`Tree::folder`] of the root.
    pub(super) fn path(&self, key: &str) -> std::result::Result<RelPath, BadKey> {
        let skip = if self.root.is_empty() { 0 } else { self.root.len() + 1 };
        decode(self.client.kind(), key.get(skip..).unwrap_or_default())
    }

    /// The text of a key below the root as a path, where it can be one; it need not be what the key means.
    pub(super) fn below(&self, key: &str) -> Option<RelPath> {
        let skip = if self.root.is_empty() { 0 } else { self.root.len() + 1 };
        let text = key.get(skip..)?;
        let path = RelPath::new(text.strip_suffix('/').unwrap_or(text).as_bytes());
        path.ok().filter(|path| !path.is_root())
    }

    /// How a person names the object at `path`.
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
