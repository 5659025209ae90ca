//! Compares an entry with the destination, and creates entries without content at once.

use haul_core::policy::{self, Existing, ExistingKind, Verdict, decide};
use haul_core::{
    Answer, Changes, Compare, Digest, Entry, EntryKind, Error, ErrorKind, Offer, RelPath, Result,
    SinkOptions, SkipReason, Timestamp,
};
use haul_object::{Object, Payload};
use haul_streams::sidecar;

use super::listing::{ListedName, NotListed};
use super::read;
use super::sink_state::SinkState;
use super::source_state::{Detail, SourceState};
use super::{kept, metadata, server_side_copy};

/// Answers an offer.
pub(super) fn offer(sink: &SinkState, offer: &Offer) -> Result<Answer> {
    let entry = &*offer.entry;
    let path = &entry.path;
    sink.check(entry)?;
    let mut with_metadata = None;
    let seen = match path.parent() {
        Some(parent) => {
            let page = sink.listings.of(&sink.tree, &parent)?;
            if !sink.options.dry_run && !sink.options.ignore_existing && page.take_blocked() {
                remove(sink, &[sink.tree.key(&parent)])?;
            }
            with_metadata = page.take_with_metadata(&sink.tree, path);
            page.seen(&sink.tree, path)
        }
        None if entry.is_dir() => {
            let directory = sink.listings.of(&sink.tree, path)?.is_there();
            ListedName { object: Err(NotListed), directory: Ok(directory) }
        }
        None => ListedName { object: Err(NotListed), directory: Err(NotListed) },
    };
    if sink.options.ignore_existing && is_below_object(sink, entry)? {
        return Ok(Answer::Left(SkipReason::Exists));
    }
    if entry.is_dir() { directory(sink, entry, seen) } else { file(sink, offer, seen, with_metadata) }
}

/// Whether a path above the entry is an object and not a directory.
fn is_below_object(sink: &SinkState, entry: &Entry) -> Result<bool> {
    let mut above = entry.path.parent();
    while let Some(directory) = above.filter(|directory| !directory.is_root()) {
        above = directory.parent();
        let Some(parent) = &above else { break };
        let seen = sink.listings.of(&sink.tree, parent)?.seen(&sink.tree, &directory);
        if matches!(seen.object, Ok(Some(_))) && seen.directory != Ok(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn directory(sink: &SinkState, entry: &Entry, seen: ListedName) -> Result<Answer> {
    let key = sink.tree.directory(&entry.path);
    if key.is_empty() {
        let preserve = &sink.options.preserve;
        if preserve.owner || preserve.group || preserve.perms || preserve.has_times(&entry.kind) {
            sink.warnings.note("owner, mode and times of the root", "a bucket has none", &entry.path);
        }
        return Ok(Answer::Same);
    }
    let dry_run = sink.options.dry_run;
    // An object with the name of the directory. That of the root takes one request.
    let in_the_way = match seen.object {
        Ok(there) => there.is_some(),
        Err(NotListed) => {
            entry.path.is_root() && sink.tree.client.look(&sink.tree.key(&entry.path))?.is_some()
        }
    };
    if in_the_way && sink.options.ignore_existing {
        return Ok(Answer::Left(SkipReason::Exists));
    }
    let own = if seen.directory == Ok(false) { None } else { sink.tree.look_directory(&entry.path)? };
    if own.as_ref().is_some_and(|object| metadata::is_same(object, entry, &sink.options.preserve))
        && !in_the_way
    {
        return Ok(Answer::Same);
    }
    let exists = own.is_some() || seen.directory == Ok(true);
    if sink.options.compare == Compare::Metadata && exists && !in_the_way {
        return Ok(kept::answer(sink, entry, own.as_ref()));
    }
    let is_new = own.is_none() && seen.directory != Ok(true);
    if is_new && !in_the_way && sink.options.existing {
        return Ok(Answer::Left(SkipReason::Missing));
    }
    if !dry_run {
        if in_the_way {
            remove(sink, &[sink.tree.key(&entry.path)])?;
        }
        write_directory(sink, entry, &key, own.as_ref())?;
    }
    let differing = |object| metadata::changes(object, entry, &sink.options.preserve);
    Ok(if in_the_way {
        Answer::Made(Changes::KIND.when(sink.options.itemize))
    } else if is_new {
        Answer::Made(Changes::NEW)
    } else {
        Answer::Updated(own.as_ref().map_or(Changes::NONE, differing).when(sink.options.itemize))
    })
}

/// `with_metadata` is the existing object, if the listing includes its metadata.
fn file(sink: &SinkState, offer: &Offer, seen: ListedName, with_metadata: Option<Object>) -> Result<Answer> {
    let entry = &*offer.entry;
    let options = &sink.options;
    let key = sink.tree.key(&entry.path);
    // A different length is enough, unless the existing time matters.
    let differs = matches!(seen.object, Ok(Some(len)) if entry.is_file() && len != entry.len);
    let now = match seen.object {
        Ok(None) => None,
        Ok(Some(len)) if (differs && !options.update) || options.ignore_existing => {
            Some(Object { len, ..Object::default() })
        }
        Ok(Some(_)) if with_metadata.is_some() => with_metadata,
        Ok(Some(_)) | Err(NotListed) => sink.tree.client.look(&key)?,
    };
    let changes = match now {
        None => {
            if let Some(left) = no_object(sink, &entry.path, seen.directory)? {
                return Ok(Answer::Left(left));
            }
            Changes::NEW
        }
        Some(now) => {
            let there = metadata::read(&entry.path, &now, false, None);
            match compare(sink, offer, &now, &there)? {
                Verdict::Left(left) => return Ok(Answer::Left(left)),
                Verdict::Same if options.compare == Compare::Metadata => {
                    return Ok(kept::answer(sink, entry, Some(&now)));
                }
                Verdict::Same if metadata::is_same(&now, entry, &options.preserve) => {
                    return Ok(Answer::Same);
                }
                Verdict::Same => {
                    if !options.dry_run {
                        server_side_copy::restate(sink, entry, &now)?;
                    }
                    let changes = metadata::changes(&now, entry, &options.preserve);
                    return Ok(Answer::Updated(changes.when(options.itemize)));
                }
                verdict => changes(options, entry, &now, &there, &verdict),
            }
        }
    };
    let content = match &entry.kind {
        EntryKind::File => return Ok(Answer::Need { changes, have: Vec::new() }),
        EntryKind::Symlink(target) => target.clone(),
        _ => Vec::new(),
    };
    if !options.dry_run {
        write(sink, entry, &key, &Payload::from_bytes(content), None)?;
    }
    Ok(Answer::Made(changes))
}

/// Clears the way where there is no object: a directory of this name has to be empty. `directory` says whether there is
/// one, if the listing shows it. Returns why nothing is to be created, if so.
pub(super) fn no_object(
    sink: &SinkState,
    path: &RelPath,
    directory: std::result::Result<bool, NotListed>,
) -> Result<Option<SkipReason>> {
    let options = &sink.options;
    let is_directory = match directory {
        Ok(is_directory) => is_directory,
        Err(NotListed) => below(sink, path, false)?,
    };
    if is_directory && options.ignore_existing {
        return Ok(Some(SkipReason::Exists));
    }
    if options.existing && !is_directory && !sink.cleared.has(path) {
        return Ok(Some(SkipReason::Missing));
    }
    if is_directory {
        clear_directory(sink, path)?;
    }
    Ok(None)
}

/// The object at the place of an offered entry.
struct ObjectEntry<'a> {
    options: &'a SinkOptions,
    /// The entry that the object stands for.
    entry: &'a Entry,
    /// The object has a modification time of its own; else that of the entry is when the object was written.
    has_mtime: bool,
}

impl Existing for ObjectEntry<'_> {
    fn kind(&self) -> Option<ExistingKind> {
        Some(ExistingKind::from(&self.entry.kind))
    }

    fn size(&self) -> Option<u64> {
        Some(self.entry.len)
    }

    fn has_time(&self, time: Timestamp) -> bool {
        self.has_mtime && self.options.is_same_time(self.entry.mtime, time)
    }

    fn is_newer_than(&self, time: Timestamp) -> bool {
        self.entry.mtime > time && !self.options.is_same_time(self.entry.mtime, time)
    }

    fn device(&self) -> Option<u64> {
        match self.entry.kind {
            EntryKind::CharDevice(number) | EntryKind::BlockDevice(number) => Some(number),
            _ => None,
        }
    }
}

/// Whether `--update` excludes `entry`, as the file at its place is newer.
pub(super) fn is_newer(sink: &SinkState, there: &Entry, entry: &Entry) -> bool {
    let existing = ObjectEntry { options: &sink.options, entry: there, has_mtime: false };
    sink.options.update && entry.is_file() && there.is_file() && existing.is_newer_than(entry.mtime)
}

/// Compares an offered entry with `now`, the object at its place, which stands for `there`.
fn compare(sink: &SinkState, offer: &Offer, now: &Object, there: &Entry) -> Result<Verdict> {
    let has_mtime = now.meta("mtime").is_some();
    let existing = ObjectEntry { options: &sink.options, entry: there, has_mtime };
    Ok(match decide(&sink.options, offer, Some(&existing)) {
        Verdict::CompareTarget => Verdict::of_comparison(offer.entry.kind == there.kind),
        Verdict::CompareDigest(wanted) => {
            let recorded = sink.tree.recorded(now)?;
            let digest = match recorded {
                Some(digest) => digest,
                None => digest_by_reading(sink, &offer.entry.path)?,
            };
            Verdict::of_comparison(digest == wanted)
        }
        verdict => verdict,
    })
}

/// How `now`, the object at the place of `entry`, which stands for `there`, differs from it. Of an object whose length
/// differs, only the listing may be known.
pub(super) fn changes(
    options: &SinkOptions,
    entry: &Entry,
    now: &Object,
    there: &Entry,
    verdict: &Verdict,
) -> Changes {
    let existing = ObjectEntry { options, entry: there, has_mtime: false };
    policy::changes(options, entry, Some(&existing), verdict, || {
        let has_some = !now.metadata.is_empty();
        if has_some { metadata::changes(now, entry, &options.preserve) } else { Changes::NONE }
    })
}

/// Whether there are objects below the name; with `inside`, not counting the directory's own.
fn below(sink: &SinkState, path: &RelPath, inside: bool) -> Result<bool> {
    let directory = sink.tree.directory(path);
    let found = match sink.tree.below_prefix(&directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        found => found?,
    };
    let own = [&sidecar::key_of(&directory), &directory];
    Ok(found.is_some_and(|page| {
        page.next.is_some() || !inside || page.objects.iter().any(|object| !own.contains(&&object.key))
    }))
}

/// Removes an empty directory that is in the way; fails if it is not empty.
fn clear_directory(sink: &SinkState, path: &RelPath) -> Result<()> {
    if below(sink, path, true)? {
        return Err(Error::not_empty(sink.tree.side).on(sink.tree.shown(path)));
    }
    if sink.options.dry_run {
        Ok(())
    } else {
        let directory = sink.tree.directory(path);
        remove(sink, &[sidecar::key_of(&directory), directory])?;
        sink.cleared.add(&sink.options, path);
        Ok(())
    }
}

fn remove(sink: &SinkState, keys: &[String]) -> Result<()> {
    sink.tree.client.remove(keys)?.pop().map_or(Ok(()), |(_, error)| Err(error))
}

/// Writes a directory's own object. The first one shows whether the store keeps metadata with such objects.
fn write_directory(sink: &SinkState, entry: &Entry, key: &str, there: Option<&Object>) -> Result<()> {
    let nothing = || Payload::from_bytes(Vec::new());
    write(sink, entry, key, &nothing(), there)?;
    let keeps = match sink.keeps_directories.get() {
        Some(keeps) => *keeps,
        None => {
            let keeps = sink.tree.client.look(key)?.is_some_and(|object| metadata::are_there(&object));
            *sink.keeps_directories.get_or_init(|| keeps)
        }
    };
    if keeps { Ok(()) } else { write(sink, entry, &sidecar::key_of(key), &nothing(), there) }
}

fn write(
    sink: &SinkState,
    entry: &Entry,
    key: &str,
    content: &Payload,
    there: Option<&Object>,
) -> Result<()> {
    let client = &sink.tree.client;
    sink.with_metadata(entry, None, there, |options| client.write_object(key, content, options).map(drop))
}

/// Reads an existing object to compute its digest.
fn digest_by_reading(sink: &SinkState, path: &RelPath) -> Result<Digest> {
    let tree = sink.tree.again(sink.tree.side);
    let there = SourceState::new(tree, Detail::Full, sink.buffers.clone());
    let digest = read::digest(&there, std::slice::from_ref(path))?.pop();
    digest.unwrap_or_else(|| Err(sink.tree.error(ErrorKind::Io, "hash", path, "there is no answer")))
}
