//! A walk over the keys below a root: many listings side by side, and a question about each object.
//!
//! All keys below a folder are asked for first: mostly they fit one page, and nothing below it is listed again. Else the
//! folder's own names are listed, and those below them side by side. A page at a time is in memory for each thread.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;

use haul_core::source::ScanVisit;
use haul_core::{Entry, Error, ErrorKind, Failure, RelPath, Result, ScanBatch, ScanOptions, filter};
use haul_object::companion::{self, Beside};
use haul_object::{Object, Page};

use super::source::ObjectSource;
use super::tree::{At, Tree};
use super::{Detail, notes};
use crate::frontier::Frontier;

/// Listings side by side.
const THREADS: usize = 8;
/// Objects that are asked for before they are told, so that the first are moved while the next are asked for.
const ASKED: usize = 256;

const EMPTY: &str = "its name ends in an empty component";

struct Walk<'a> {
    source: &'a ObjectSource,
    options: &'a ScanOptions,
    visit: ScanVisit<'a>,
    work: Frontier<Work>,
}

/// Something to be listed.
enum Work {
    /// A folder with all that is below it.
    Folder(RelPath),
    /// The names right in a folder, from a page on.
    Names { folder: RelPath, next: Option<String>, held: Vec<Object> },
}

/// What keys say of a folder and what is below it.
#[derive(Default)]
struct Found {
    files: Vec<(RelPath, Object)>,
    /// Folders, with their own objects where they have any.
    folders: BTreeMap<RelPath, Option<Object>>,
    failures: Vec<Failure>,
}

/// Walks below the root of `source`.
pub(super) fn walk(source: &ObjectSource, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
    if options.one_file_system {
        let cause = "an object store has no file systems in it";
        let error = Error::new(ErrorKind::Usage, source.tree.side, "obey --one-file-system", cause);
        return Err(error.with_hint("leave it out"));
    }
    let walk = Walk { source, options, visit, work: Frontier::new() };
    walk.hand_over(walk.starts()?);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| walk.run());
        }
    });
    walk.work.end()
}

/// A folder without an object of its own: it has the time of the first object in it.
pub(super) fn implied(first: Option<&Object>) -> Object {
    Object { modified: first.map(|first| first.modified.clone()).unwrap_or_default(), ..Object::default() }
}

impl Walk<'_> {
    fn tree(&self) -> &Tree {
        &self.source.tree
    }

    /// The starts that are no folders, and the folders above them; folders are told when they are listed.
    fn starts(&self) -> Result<ScanBatch> {
        let mut batch = ScanBatch::default();
        if self.options.starts.is_empty() {
            match self.source.at_root()? {
                At::Folder => self.work.add([Work::Folder(RelPath::root())]),
                At::Object => self.start(&RelPath::root(), &mut batch),
                At::Nothing => self.missing(&RelPath::root(), &mut batch),
            }
            return Ok(batch);
        }
        let above = self.options.above_starts();
        for found in self.source.look.each(&above, |path| self.source.ask_folder(path)) {
            batch.entries.extend(found.ok().flatten().map(|fact| fact.entry.clone()));
        }
        let starts: BTreeSet<&RelPath> = self.options.starts.iter().collect();
        for start in starts {
            self.start(start, &mut batch);
        }
        Ok(batch)
    }

    fn start(&self, path: &RelPath, batch: &mut ScanBatch) {
        match self.source.ask(path) {
            Ok(Some(fact)) => {
                let is_dir = fact.entry.is_dir();
                if !path.is_root() && filter::excludes(&self.options.rules, path, is_dir) {
                    batch.excluded += 1;
                } else if is_dir {
                    self.work.add([Work::Folder(path.clone())]);
                } else {
                    batch.entries.push(fact.entry.clone());
                }
            }
            Ok(None) => self.missing(path, batch),
            Err(error) => batch.errors.push(Failure { path: path.clone(), error }),
        }
    }

    fn missing(&self, path: &RelPath, batch: &mut ScanBatch) {
        let error =
            self.tree().error(ErrorKind::NotFound, "look at", path, "no object has a name that begins so");
        batch.errors.push(Failure { path: path.clone(), error });
    }

    fn run(&self) {
        while let Some(work) = self.work.take(|_| 1, || ()) {
            self.work.done(work.into_iter().try_for_each(|work| match work {
                Work::Folder(folder) => self.folder(&folder),
                Work::Names { folder, next, held } => self.names(&folder, next.as_deref(), held),
            }));
        }
    }

    /// A folder and all below it, if that is one page of keys.
    fn folder(&self, folder: &RelPath) -> Result<()> {
        let prefix = self.tree().folder(folder);
        let page = self.tree().client.list(&prefix, false, None)?;
        if page.next.is_some() {
            return self.names(folder, None, Vec::new());
        }
        let mut found = Found::default();
        let first = implied(page.objects.first());
        found.folders.insert(folder.clone(), None);
        for object in page.objects {
            found.take(self.tree(), folder, object);
        }
        found.refuse_double(self.tree());
        self.tell(found, &first)
    }

    /// A page of the names right in a folder. `held` are objects whose keys may turn out to be those of folders too.
    fn names(&self, folder: &RelPath, next: Option<&str>, held: Vec<Object>) -> Result<()> {
        let prefix = self.tree().folder(folder);
        let page = self.tree().client.list(&prefix, true, next)?;
        let first = implied(page.objects.first());
        let mut found = Found::default();
        if next.is_none() {
            found.folders.insert(folder.clone(), None);
        }
        let after = page.next.clone();
        let (folders, held) = found.take_names(self.tree(), folder, page, held);
        let (out, folders): (Vec<_>, Vec<_>) =
            folders.into_iter().partition(|folder| filter::excludes(&self.options.rules, folder, true));
        if !out.is_empty() {
            self.hand_over(ScanBatch { excluded: out.len() as u64, ..ScanBatch::default() });
        }
        // Below the folders that come out of this page, so that those are done first and what waits stays little.
        let rest = after.map(|next| Work::Names { folder: folder.clone(), next: Some(next), held });
        self.work.add(rest.into_iter().chain(folders.into_iter().map(Work::Folder)));
        self.tell(found, &first)
    }

    /// Tells what was found, without what the rules leave out. Folders without an object get their time from `first`.
    fn tell(&self, found: Found, first: &Object) -> Result<()> {
        let mut batch = ScanBatch { errors: found.failures, ..ScanBatch::default() };
        let mut left_out: HashSet<RelPath> = HashSet::new();
        // In this order a folder comes before what is in it.
        let mut folders = Vec::new();
        for (path, object) in found.folders {
            if path.parent().is_some_and(|parent| left_out.contains(&parent)) {
                left_out.insert(path);
            } else if !path.is_root() && filter::excludes(&self.options.rules, &path, true) {
                batch.excluded += 1;
                left_out.insert(path);
            } else {
                folders.push((path, object, true));
            }
        }
        let mut all = folders;
        for (path, object) in found.files {
            if path.parent().is_some_and(|parent| left_out.contains(&parent)) {
                continue;
            }
            if filter::excludes(&self.options.rules, &path, false) {
                batch.excluded += 1;
                continue;
            }
            all.push((path, Some(object), false));
        }
        for some in all.chunks(ASKED) {
            let told = self
                .source
                .look
                .each(some, |(path, object, folder)| self.entry(path, object.as_ref(), *folder, first));
            for ((path, ..), told) in some.iter().zip(told) {
                match told {
                    Ok(Some(entry)) if self.options.is_wrong_size(&entry) => batch.excluded += 1,
                    Ok(Some(entry)) => batch.entries.push(entry),
                    // It vanished since it was listed, or is what haul keeps beside an object.
                    Ok(None) => {}
                    Err(error) if error.kind() == ErrorKind::Unreachable => return Err(error),
                    Err(error) => batch.errors.push(Failure { path: path.clone(), error }),
                }
            }
            self.hand_over(std::mem::take(&mut batch));
            if self.work.is_stopped() {
                break;
            }
        }
        self.hand_over(batch);
        Ok(())
    }

    /// What an object stands for, as its notes tell.
    fn entry(
        &self,
        path: &RelPath,
        object: Option<&Object>,
        folder: bool,
        first: &Object,
    ) -> Result<Option<Entry>> {
        let client = &self.tree().client;
        if let Some(object) = object.filter(|object| !folder && object.len <= companion::MAX_LEN as u64)
            && let Some(owner) = object.key.strip_suffix(".haul")
        {
            let is_ours = if owner.ends_with('/') {
                client.look(&object.key)?.is_some_and(|object| notes::is_folder(&object))
            } else {
                companion::beside(client, owner)? == Beside::Companion
            };
            if is_ours {
                return Ok(None);
            }
        }
        let learn = |object: Object| Ok(Some(self.source.learn(path, object, folder)?.entry.clone()));
        match (self.source.detail, object) {
            (Detail::Names, object) => learn(object.unwrap_or(first).clone()),
            (Detail::Full, Some(object)) if object.noted && (!folder || notes::are_there(object)) => {
                learn(object.clone())
            }
            (Detail::Full, Some(object)) if !folder => client.look(&object.key)?.map_or(Ok(None), learn),
            // Not all stores list a folder's own object.
            (Detail::Full, _) => learn(self.tree().look_folder(path)?.unwrap_or_else(|| first.clone())),
        }
    }

    fn hand_over(&self, batch: ScanBatch) {
        let empty = batch.entries.is_empty() && batch.errors.is_empty() && batch.excluded == 0;
        if !empty && let ControlFlow::Break(()) = (self.visit)(batch) {
            self.work.stop();
        }
    }
}

impl Found {
    /// Takes an object below `folder`, and the folders that it is in.
    fn take(&mut self, tree: &Tree, folder: &RelPath, object: Object) {
        let (name, is_folder) = match object.key.strip_suffix('/') {
            Some(name) => (name, true),
            None => (&object.key[..], false),
        };
        if is_folder && tree.folder(folder) == object.key {
            self.keep_folder(tree, folder.clone(), object);
            return;
        }
        let path = match tree.path(name) {
            Ok(path) if !path.is_root() => path,
            Ok(_) => return self.refuse(tree, folder, &object.key, EMPTY),
            Err(bad) => return self.refuse(tree, folder, &object.key, &bad.to_string()),
        };
        let mut above = path.parent();
        while let Some(dir) = above.filter(|dir| dir != folder && !self.folders.contains_key(dir)) {
            above = dir.parent();
            self.folders.insert(dir, None);
        }
        if is_folder {
            self.keep_folder(tree, path, object);
        } else {
            self.files.push((path, object));
        }
    }

    /// A folder's own object has no content: what has some is not what haul or others make for folders.
    fn keep_folder(&mut self, tree: &Tree, path: RelPath, object: Object) {
        if object.len > 0 {
            let cause = "its name ends in a slash, as those of folders do, and it has content";
            self.refuse(tree, &path, &object.key, cause);
        }
        self.folders.insert(path, Some(object));
    }

    fn refuse(&mut self, tree: &Tree, near: &RelPath, key: &str, cause: &str) {
        let error = Error::new(ErrorKind::Unsupported, tree.side, "take as a file", cause);
        let error =
            error.on(tree.client.name(key)).with_hint("rename or remove the object, or leave it where it is");
        self.failures.push(Failure { path: near.clone(), error });
    }

    /// Refuses files whose names are those of folders too.
    fn refuse_double(&mut self, tree: &Tree) {
        let (double, files): (Vec<_>, Vec<_>) = std::mem::take(&mut self.files)
            .into_iter()
            .partition(|(path, _)| self.folders.contains_key(path));
        self.files = files;
        double.into_iter().for_each(|(path, object)| self.refuse_one(tree, &path, &object));
    }

    fn refuse_one(&mut self, tree: &Tree, path: &RelPath, object: &Object) {
        self.refuse(tree, path, &object.key, "there are objects below it: it would be a file and a folder");
    }

    /// Takes a page of the names right in `folder`. Gives the folders in it, and objects of which a later page may tell
    /// that they are folders too: those whose keys are the beginning of the last key.
    fn take_names(
        &mut self,
        tree: &Tree,
        folder: &RelPath,
        page: Page,
        mut held: Vec<Object>,
    ) -> (Vec<RelPath>, Vec<Object>) {
        let is_last = page.next.is_none();
        let mut names: Vec<(String, Option<Object>)> =
            page.objects.into_iter().map(|object| (object.key.clone(), Some(object))).collect();
        names.extend(page.prefixes.into_iter().map(|prefix| (prefix, None)));
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut folders = Vec::new();
        for (key, object) in names {
            // What a key does not begin with, no later one does.
            while let Some(settled) = held.pop_if(|held| !key.starts_with(&held.key)) {
                self.take(tree, folder, settled);
            }
            match object {
                Some(object) if key.ends_with('/') => self.take(tree, folder, object),
                Some(object) => held.push(object),
                None => {
                    let name = key.strip_suffix('/').unwrap_or(&key);
                    if let Some(at) = held.iter().position(|held| held.key == name) {
                        let double = held.remove(at);
                        self.refuse_one(tree, folder, &double);
                    }
                    match tree.path(name) {
                        Ok(path) if !path.is_root() => folders.push(path),
                        bad => {
                            let bad = bad.map_or_else(|bad| bad.to_string(), |_| EMPTY.to_owned());
                            self.refuse(tree, folder, &key, &format!("{bad}; nothing below it is taken"));
                        }
                    }
                }
            }
        }
        if is_last {
            held.drain(..).for_each(|object| self.take(tree, folder, object));
        }
        (folders, held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{ObjectKind, ObjectPlace, Place, PlaceRoot, Side};
    use std::sync::Arc;
    use std::time::Duration;

    /// Below `t/`; nothing is asked of any store.
    fn tree() -> Tree {
        let place = ObjectPlace { kind: ObjectKind::S3, bucket: "b".to_owned(), key: String::new() };
        let endpoint = Some("http://127.0.0.1:1".to_owned());
        let settings = haul_object::StoreSettings { endpoint, region: None, timeout: Duration::from_secs(1) };
        let client = haul_object::open(&place, Side::Source, &settings, Arc::default(), Arc::new(|_| ()));
        let place = Place { path: b"t/".to_vec(), root: PlaceRoot::Exactly };
        Tree::open(Arc::new(client.unwrap()), &place, Side::Source).unwrap()
    }

    fn object(key: &str) -> Object {
        Object { key: key.to_owned(), len: u64::from(!key.ends_with('/')), ..Object::default() }
    }

    fn names(found: &Found) -> Vec<String> {
        let files = found.files.iter().map(|(path, _)| path.to_string());
        let folders = found.folders.keys().map(|path| format!("{path}/"));
        files.chain(folders).collect()
    }

    #[test]
    fn a_page_of_all_below_gives_files_folders_and_what_is_refused() {
        let (tree, mut found) = (tree(), Found::default());
        found.folders.insert(RelPath::root(), None);
        let bad = ["t//x", "t/a/../x", "t/.", "t/a/\0", "t/a//", "t/q\u{201b}zz", "t/both"];
        for key in ["t/", "t/a/b/c", "t/a/f", "t/both/x", "t/e/"].into_iter().chain(bad) {
            found.take(&tree, &RelPath::root(), object(key));
        }
        found.refuse_double(&tree);
        assert_eq!(names(&found), ["a/b/c", "a/f", "both/x", "./", "a/", "a/b/", "both/", "e/"]);
        assert_eq!(found.failures.len(), bad.len());
        for (failure, key) in found.failures.iter().zip(bad) {
            assert!(failure.error.subject().ends_with(haul_core::path::printable(key.as_bytes()).as_bytes()));
        }
        found.take(&tree, &RelPath::root(), Object { len: 5, ..object("t/e/") });
        assert_eq!(found.failures.len(), bad.len() + 1);
    }

    #[test]
    fn a_file_that_a_later_page_tells_to_be_a_folder_too_is_refused() {
        let (tree, root) = (tree(), RelPath::root());
        let page = |objects: &[&str], prefixes: &[&str], next: bool| Page {
            objects: objects.iter().map(|key| object(key)).collect(),
            prefixes: prefixes.iter().map(|&prefix| prefix.to_owned()).collect(),
            next: next.then(|| "n".to_owned()),
        };
        let mut first = Found::default();
        let one = page(&["t/", "t/Z", "t/a", "t/a!"], &["t//", "t/B/"], true);
        let (folders, held) = first.take_names(&tree, &root, one, Vec::new());
        assert_eq!(folders, [RelPath::new(b"B").unwrap()]);
        // `a!` may be a folder too, and so may `a`, of whose name it is the beginning.
        assert_eq!(held.iter().map(|held| &held.key[..]).collect::<Vec<_>>(), ["t/a", "t/a!"]);
        assert_eq!(names(&first), ["Z", "./"]);
        let mut second = Found::default();
        let two = page(&["t/b"], &["t/a/"], false);
        let (folders, held) = second.take_names(&tree, &root, two, held);
        assert_eq!((folders.len(), held.len()), (1, 0));
        assert_eq!(names(&second), ["a!", "b"]);
        assert_eq!((first.failures.len(), second.failures.len()), (1, 1));
    }
}
