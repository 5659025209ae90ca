//! The files and directories that the keys of a listing stand for.

use std::collections::BTreeMap;

use haul_core::{Error, ErrorKind, Failure, RelPath};
use haul_object::{ListPage, Object};

use super::tree::Tree;

const EMPTY: &str = "its name ends in an empty component";

/// The entries of one page of a listing.
#[derive(Default)]
pub(super) struct ListingEntries {
    pub(super) files: Vec<(RelPath, Object)>,
    /// The directories, with their own objects where they have any.
    pub(super) directories: BTreeMap<RelPath, Option<Object>>,
    /// Directories that were already reported.
    pub(super) above: Vec<RelPath>,
    pub(super) failures: Vec<Failure>,
}

impl ListingEntries {
    /// Adds an object below `directory`, and the directories that its key implies.
    fn take(&mut self, tree: &Tree, directory: &RelPath, object: Object) {
        let (name, is_directory) = match object.key.strip_suffix('/') {
            Some(name) => (name, true),
            None => (&object.key[..], false),
        };
        if is_directory && tree.directory(directory) == object.key {
            self.keep_directory(tree, directory.clone(), object);
            return;
        }
        let path = match tree.path(name) {
            Ok(path) if !path.is_root() => path,
            Ok(_) => return self.refuse(tree, directory, &object.key, EMPTY),
            Err(bad) => return self.refuse(tree, directory, &object.key, &bad.to_string()),
        };
        let mut above = path.parent();
        let is_known = |dir: &RelPath| self.directories.contains_key(dir) || self.above.contains(dir);
        let mut new = Vec::new();
        while let Some(dir) = above.filter(|dir| dir != directory && !is_known(dir)) {
            above = dir.parent();
            new.push(dir);
        }
        self.directories.extend(new.into_iter().map(|dir| (dir, None)));
        if is_directory {
            self.keep_directory(tree, path, object);
        } else {
            self.files.push((path, object));
        }
    }

    /// The directories that the keys after `key` may be in.
    pub(super) fn above(&self, tree: &Tree, key: &str) -> Vec<RelPath> {
        let known = self.directories.keys().chain(&self.above);
        known.filter(|dir| key.starts_with(&tree.directory(dir))).cloned().collect()
    }

    /// Adds a directory's own object. It must be empty: neither haul nor other tools write content into one.
    fn keep_directory(&mut self, tree: &Tree, path: RelPath, object: Object) {
        if object.len > 0 {
            let cause = "its name ends in a slash, as those of directories do, and it has content";
            self.refuse(tree, &path, &object.key, cause);
        }
        self.directories.insert(path, Some(object));
    }

    fn refuse(&mut self, tree: &Tree, local: &RelPath, key: &str, cause: &str) {
        let error = Error::new(ErrorKind::Unsupported, tree.side, Failure::NO_FILE, cause);
        let error =
            error.on(tree.client.name(key)).with_hint("rename or remove the object, or leave it where it is");
        // The failure names the key itself wherever it can be a path.
        let path = tree.below(key).unwrap_or_else(|| local.clone());
        self.failures.push(Failure { path, error });
    }

    fn refuse_one(&mut self, tree: &Tree, path: &RelPath, object: &Object) {
        self.refuse(
            tree,
            path,
            &object.key,
            "there are objects below it: it would be a file and a directory",
        );
    }

    /// Adds a page of the names in `directory`, or of all keys below it. Returns the directories that were listed as
    /// common prefixes, and the objects that a later page may show to be directories too: those whose keys are a prefix
    /// of the page's last key.
    pub(super) fn take_page(
        &mut self,
        tree: &Tree,
        directory: &RelPath,
        page: ListPage,
        mut held: Vec<Object>,
    ) -> (Vec<RelPath>, Vec<Object>) {
        let is_last = page.next.is_none();
        let mut names: Vec<(String, Option<Object>)> =
            page.objects.into_iter().map(|object| (object.key.clone(), Some(object))).collect();
        names.extend(page.prefixes.into_iter().map(|prefix| (prefix, None)));
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut directories = Vec::new();
        for (key, object) in names {
            // Keys are sorted: if a key does not begin with the held one, no later key does.
            while let Some(settled) = held.pop_if(|held| !key.starts_with(&held.key)) {
                self.take(tree, directory, settled);
            }
            let is_above =
                |held: &Object| key.strip_prefix(&held.key).is_some_and(|rest| rest.starts_with('/'));
            if let Some(at) = held.iter().position(is_above) {
                let double = held.remove(at);
                self.refuse_one(tree, directory, &double);
            }
            match object {
                Some(object) if key.ends_with('/') => self.take(tree, directory, object),
                Some(object) => held.push(object),
                None => {
                    let name = key.strip_suffix('/').unwrap_or(&key);
                    match tree.path(name) {
                        Ok(path) if !path.is_root() => directories.push(path),
                        bad => {
                            let bad = bad.map_or_else(|bad| bad.to_string(), |_| EMPTY.to_owned());
                            self.refuse(tree, directory, &key, &format!("{bad}; nothing below it is taken"));
                        }
                    }
                }
            }
        }
        if is_last {
            held.drain(..).for_each(|object| self.take(tree, directory, object));
        }
        (directories, held)
    }
}

/// A directory without an object of its own; it takes the modification time of the first object in it.
pub(super) fn implied(first: Option<&Object>) -> Object {
    Object { modified: first.map(|first| first.modified.clone()).unwrap_or_default(), ..Object::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{ObjectKind, ObjectPlace, Place, PlaceRoot, Side, StoreNumber};
    use std::sync::Arc;
    use std::time::Duration;

    /// A tree below `t/`. It makes no requests.
    fn tree() -> Tree {
        let place = ObjectPlace {
            kind: ObjectKind::S3,
            bucket: "b".to_owned(),
            key: String::new(),
            store: StoreNumber::default(),
        };
        let endpoint = Some("http://127.0.0.1:1".to_owned());
        let settings = haul_object::StoreSettings {
            endpoint,
            timeout: Duration::from_secs(1),
            ..haul_object::StoreSettings::default()
        };
        let client = haul_object::open(&place, Side::Source, &settings, Arc::default(), Arc::new(|_| ()));
        let place = Place { path: b"t/".to_vec(), root: PlaceRoot::Exactly };
        Tree::open(Arc::new(client.unwrap()), &place, Side::Source).unwrap()
    }

    fn object(key: &str) -> Object {
        Object { key: key.to_owned(), len: u64::from(!key.ends_with('/')), ..Object::default() }
    }

    fn names(found: &ListingEntries) -> Vec<String> {
        let files = found.files.iter().map(|(path, _)| path.to_string());
        let directories = found.directories.keys().map(|path| format!("{path}/"));
        files.chain(directories).collect()
    }

    #[test]
    fn a_page_of_all_keys_yields_files_directories_and_failures() {
        let (tree, mut found) = (tree(), ListingEntries::default());
        found.directories.insert(RelPath::root(), None);
        let bad = ["t/.", "t//x", "t/a/\0", "t/a/../x", "t/a//", "t/both", "t/q\u{201b}zz"];
        let good = ["t/", "t/a/b/c", "t/a/f", "t/both!", "t/both/x", "t/e/"];
        let objects = good.into_iter().chain(bad).map(object).collect();
        let page = ListPage { objects, ..ListPage::default() };
        let (_, held) = found.take_page(&tree, &RelPath::root(), page, Vec::new());
        assert!(held.is_empty());
        assert_eq!(names(&found), ["a/b/c", "a/f", "both!", "both/x", "./", "a/", "a/b/", "both/", "e/"]);
        let refused = |failure: &Failure| String::from_utf8_lossy(failure.error.subject()).into_owned();
        let mut refused: Vec<_> = found.failures.iter().map(refused).collect();
        refused.sort();
        let shown = |key: &str| format!("s3://b/{}", haul_core::path::printable(key.as_bytes()));
        let mut expected = bad.map(shown);
        expected.sort();
        assert_eq!(refused, expected);
        let named = |failure: &Failure| (!failure.has_no_path()).then(|| failure.path.to_string());
        let mut named: Vec<_> = found.failures.iter().filter_map(named).collect();
        named.sort();
        assert_eq!(named, ["both", "q\u{201b}zz"]);
        found.take(&tree, &RelPath::root(), Object { len: 5, ..object("t/e/") });
        assert_eq!(found.failures.len(), bad.len() + 1);
    }

    #[test]
    fn pages_of_keys_name_each_directory_once() {
        let (tree, root) = (tree(), RelPath::root());
        let page = |keys: &[&str], next: bool| ListPage {
            objects: keys.iter().map(|key| object(key)).collect(),
            next: next.then(|| "n".to_owned()),
            ..ListPage::default()
        };
        let mut first = ListingEntries::default();
        first.directories.insert(root.clone(), None);
        let (_, held) = first.take_page(&tree, &root, page(&["t/a/b/1", "t/a/c"], true), Vec::new());
        assert_eq!(names(&first), ["a/b/1", "./", "a/", "a/b/"]);
        let above = first.above(&tree, "t/a/c");
        assert_eq!(above, [root.clone(), RelPath::new(b"a").unwrap()]);
        let mut second = ListingEntries { above, ..ListingEntries::default() };
        let (_, held) = second.take_page(&tree, &root, page(&["t/a/c/x", "t/a/d", "t/e"], false), held);
        assert!(held.is_empty());
        // `a/c` is a directory by now.
        assert_eq!(
            (names(&second), second.failures.len()),
            (vec!["a/c/x".into(), "a/d".into(), "e".into(), "a/c/".into()], 1)
        );
    }

    #[test]
    fn a_file_that_a_later_page_shows_to_be_a_directory_is_refused() {
        let (tree, root) = (tree(), RelPath::root());
        let page = |objects: &[&str], prefixes: &[&str], next: bool| ListPage {
            objects: objects.iter().map(|key| object(key)).collect(),
            prefixes: prefixes.iter().map(|&prefix| prefix.to_owned()).collect(),
            next: next.then(|| "n".to_owned()),
        };
        let mut first = ListingEntries::default();
        let one = page(&["t/", "t/Z", "t/a", "t/a!"], &["t//", "t/B/"], true);
        let (directories, held) = first.take_page(&tree, &root, one, Vec::new());
        assert_eq!(directories, [RelPath::new(b"B").unwrap()]);
        // `a!` may be a directory too, and so may `a`, which is a prefix of it.
        assert_eq!(held.iter().map(|held| &held.key[..]).collect::<Vec<_>>(), ["t/a", "t/a!"]);
        assert_eq!(names(&first), ["Z", "./"]);
        let mut second = ListingEntries::default();
        let two = page(&["t/b"], &["t/a/"], false);
        let (directories, held) = second.take_page(&tree, &root, two, held);
        assert_eq!((directories.len(), held.len()), (1, 0));
        assert_eq!(names(&second), ["a!", "b"]);
        assert_eq!((first.failures.len(), second.failures.len()), (1, 1));
    }
}
