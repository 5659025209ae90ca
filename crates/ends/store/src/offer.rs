//! Is it there already? And what has no content is made at once.

use haul_core::policy::{Existing, Kind, Verdict, decide};
use haul_core::{
    Answer, Entry, EntryKind, Error, ErrorKind, Left, Offer, RelPath, Result, SinkOptions, Timestamp,
};
use haul_object::{Object, Payload, sidecar};

use super::pages::{Seen, Unknown};
use super::sink::ObjectSink;
use super::{notes, within};

/// Answers an offer.
pub(super) fn offer(sink: &ObjectSink, offer: &Offer) -> Result<Answer> {
    let entry = &*offer.entry;
    let path = &entry.path;
    let mut noted = None;
    let seen = match path.parent() {
        Some(parent) => {
            let page = sink.pages.of(&sink.tree, &parent)?;
            if !sink.options.dry_run && !sink.options.ignore_existing && page.take_blocked() {
                remove(sink, &[sink.tree.key(&parent)])?;
            }
            noted = page.take_noted(&sink.tree, path);
            page.seen(&sink.tree, path)
        }
        None if entry.is_dir() => {
            let folder = sink.pages.of(&sink.tree, path)?.is_there();
            Seen { object: Err(Unknown), folder: Ok(folder) }
        }
        None => Seen { object: Err(Unknown), folder: Err(Unknown) },
    };
    if sink.options.ignore_existing && is_below_object(sink, entry)? {
        return Ok(Answer::Left(Left::Exists));
    }
    if entry.is_dir() { folder(sink, entry, seen) } else { file(sink, offer, seen, noted) }
}

/// Whether something above the entry is an object, and no folder.
fn is_below_object(sink: &ObjectSink, entry: &Entry) -> Result<bool> {
    let mut above = entry.path.parent();
    while let Some(folder) = above.filter(|folder| !folder.is_root()) {
        above = folder.parent();
        let Some(parent) = &above else { break };
        let seen = sink.pages.of(&sink.tree, parent)?.seen(&sink.tree, &folder);
        if matches!(seen.object, Ok(Some(_))) && seen.folder != Ok(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn folder(sink: &ObjectSink, entry: &Entry, seen: Seen) -> Result<Answer> {
    let key = sink.tree.folder(&entry.path);
    if key.is_empty() {
        sink.notes.note("owner, mode and times of the root", "a bucket has none", &entry.path);
        return Ok(Answer::Same);
    }
    let dry_run = sink.options.dry_run;
    // An object in its place: that of the root is found by asking for it, once.
    let in_the_way = match seen.object {
        Ok(there) => there.is_some(),
        Err(Unknown) => entry.path.is_root() && sink.tree.client.look(&sink.tree.key(&entry.path))?.is_some(),
    };
    if in_the_way && sink.options.ignore_existing {
        return Ok(Answer::Left(Left::Exists));
    }
    let own = if seen.folder == Ok(false) { None } else { sink.tree.look_folder(&entry.path)? };
    if own.as_ref().is_some_and(|object| notes::is_same(object, entry)) && !in_the_way {
        return Ok(Answer::Same);
    }
    let is_new = own.is_none() && seen.folder != Ok(true);
    if is_new && sink.options.existing {
        return Ok(Answer::Left(Left::Missing));
    }
    if !dry_run {
        if in_the_way {
            remove(sink, &[sink.tree.key(&entry.path)])?;
        }
        write_folder(sink, entry, &key)?;
    }
    Ok(if is_new || in_the_way { Answer::Made } else { Answer::Updated })
}

/// `noted` is what is there, where the listing told its notes.
fn file(sink: &ObjectSink, offer: &Offer, seen: Seen, noted: Option<Object>) -> Result<Answer> {
    let entry = &*offer.entry;
    let options = &sink.options;
    let key = sink.tree.key(&entry.path);
    // A length that differs says enough, unless the time of what is there matters.
    let differs = matches!(seen.object, Ok(Some(len)) if entry.is_file() && len != entry.len);
    let now = match seen.object {
        Ok(None) => None,
        Ok(Some(len)) if (differs && !options.update) || options.ignore_existing => {
            Some(Object { len, ..Object::default() })
        }
        Ok(Some(_)) if noted.is_some() => noted,
        Ok(Some(_)) | Err(Unknown) => sink.tree.client.look(&key)?,
    };
    let is_new = now.is_none();
    match now {
        None => {
            if let Some(left) = no_object(sink, &entry.path, seen.folder)? {
                return Ok(Answer::Left(left));
            }
        }
        Some(now) => {
            let there = notes::read(&entry.path, &now, false, None);
            match compare(sink, offer, &now, &there)? {
                Verdict::Left(left) => return Ok(Answer::Left(left)),
                Verdict::Same if notes::is_same(&now, entry) => return Ok(Answer::Same),
                Verdict::Same => {
                    if !options.dry_run {
                        within::restate(sink, entry, &now)?;
                    }
                    return Ok(Answer::Updated);
                }
                _ => {}
            }
        }
    }
    let content = match &entry.kind {
        EntryKind::File => return Ok(Answer::Need { new: is_new, have: Vec::new() }),
        EntryKind::Symlink(target) => target.clone(),
        _ => Vec::new(),
    };
    if !options.dry_run {
        write(sink, entry, &key, &Payload::from_bytes(content))?;
    }
    Ok(Answer::Made)
}

/// Makes way where there is no object: a folder in its place has to be empty. `folder` tells whether there is one, as far
/// as that is known. Why nothing is to be made there, if so.
pub(super) fn no_object(
    sink: &ObjectSink,
    path: &RelPath,
    folder: std::result::Result<bool, Unknown>,
) -> Result<Option<Left>> {
    let options = &sink.options;
    let is_folder = match folder {
        Ok(is_folder) => is_folder,
        Err(Unknown) => below(sink, path, false)?,
    };
    if is_folder && options.ignore_existing {
        return Ok(Some(Left::Exists));
    }
    if options.existing && !is_folder {
        return Ok(Some(Left::Missing));
    }
    if is_folder {
        clear_folder(sink, path)?;
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
    fn kind(&self) -> Option<Kind> {
        Some(Kind::from(&self.entry.kind))
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
pub(super) fn is_newer(sink: &ObjectSink, there: &Entry, entry: &Entry) -> bool {
    let existing = ObjectEntry { options: &sink.options, entry: there, has_mtime: false };
    sink.options.update && entry.is_file() && there.is_file() && existing.is_newer_than(entry.mtime)
}

/// Compares an offered entry with `now`, the object at its place, which stands for `there`.
fn compare(sink: &ObjectSink, offer: &Offer, now: &Object, there: &Entry) -> Result<Verdict> {
    let has_mtime = now.note("mtime").is_some();
    let existing = ObjectEntry { options: &sink.options, entry: there, has_mtime };
    Ok(match decide(&sink.options, offer, Some(&existing)) {
        Verdict::CompareTarget => Verdict::of_comparison(offer.entry.kind == there.kind),
        Verdict::CompareDigest(wanted) => {
            let recorded = sink.tree.recorded(now)?;
            let digest = match recorded {
                Some(digest) => digest,
                None => sink.read_digest(&offer.entry.path)?,
            };
            Verdict::of_comparison(digest == wanted)
        }
        verdict => verdict,
    })
}

/// Whether there are objects below the name, besides a folder's own with `inside`.
fn below(sink: &ObjectSink, path: &RelPath, inside: bool) -> Result<bool> {
    let folder = sink.tree.folder(path);
    let found = match sink.tree.below_prefix(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        found => found?,
    };
    let own = [&sidecar::key_of(&folder), &folder];
    Ok(found.is_some_and(|page| {
        page.next.is_some() || !inside || page.objects.iter().any(|object| !own.contains(&&object.key))
    }))
}

/// An empty folder in the way of something else gives way; one with something in it does not.
fn clear_folder(sink: &ObjectSink, path: &RelPath) -> Result<()> {
    if below(sink, path, true)? {
        return Err(Error::not_empty(sink.tree.side).on(sink.tree.shown(path)));
    }
    if sink.options.dry_run {
        Ok(())
    } else {
        let folder = sink.tree.folder(path);
        remove(sink, &[sidecar::key_of(&folder), folder])
    }
}

fn remove(sink: &ObjectSink, keys: &[String]) -> Result<()> {
    sink.tree.client.remove(keys)?.pop().map_or(Ok(()), |(_, error)| Err(error))
}

/// Writes a folder's own object. Whether the store keeps notes with such is found out with the first.
fn write_folder(sink: &ObjectSink, entry: &Entry, key: &str) -> Result<()> {
    let nothing = || Payload::from_bytes(Vec::new());
    write(sink, entry, key, &nothing())?;
    let keeps = match sink.keeps_folders.get() {
        Some(keeps) => *keeps,
        None => {
            let keeps = sink.tree.client.look(key)?.is_some_and(|object| notes::are_there(&object));
            *sink.keeps_folders.get_or_init(|| keeps)
        }
    };
    if keeps { Ok(()) } else { write(sink, entry, &sidecar::key_of(key), &nothing()) }
}

fn write(sink: &ObjectSink, entry: &Entry, key: &str, content: &Payload) -> Result<()> {
    sink.noted(entry, None, |options| sink.tree.client.write_object(key, content, options).map(drop))
}
