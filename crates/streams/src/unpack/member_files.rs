//! The files that pass in a stream, on their way into a sink.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use haul_core::digest::SliceHasher;
use haul_core::entry::GROWING;
use haul_core::sync::{Condvar, Mutex};
use haul_core::{
    Answer, Batch, BatchData, Buffer, BufferPool, ChainingValue, Digest, Entry, EntryKind, Error, ErrorKind,
    Extent, HardLink, Offer, Outcome, RelPath, Result, SLICE_LEN, Side, Sink, Slice, SliceData, Timestamp,
    Totals,
};
use haul_members::MemberHead;

use super::source::{DIR_MODE, MODE, RESERVED, selects};

/// Slices that the sink may hold before they are durable.
const WINDOW: usize = 128;

/// How often the sink is asked to make that durable.
const LOOK: Duration = Duration::from_millis(50);

/// How a stream is unpacked while it passes.
pub struct SequentialSettings {
    /// The directory.
    pub sink: Arc<dyn Sink>,
    /// Members that match one of these are unpacked, and those below them; all without one.
    pub patterns: Vec<Vec<u8>>,
    /// Memory in bytes for the newest slices of the files that pass.
    pub memory: u64,
    /// Memory in bytes for slices on their way into the directory.
    pub buffers: u64,
    /// The modification time of members without one.
    pub mtime: Timestamp,
}

/// Called for each file that is complete: its path, its length and its digest.
pub type FileDone<'a> = dyn Fn(&RelPath, u64, Option<Digest>) + 'a;

/// All files of a stream.
pub(super) struct MemberFiles {
    settings: SequentialSettings,
    pool: BufferPool,
    /// The paths so far, and whether they are directories.
    seen: HashMap<RelPath, bool>,
    open: HashMap<u32, OpenFile>,
    /// Files whose last slice waits until the others are stored.
    ended: VecDeque<(u32, OpenFile)>,
    links: Vec<HardLink>,
    /// Bytes that are kept in memory.
    held: u64,
    written: Arc<WrittenSlices>,
    totals: Totals,
    error: Option<Error>,
}

/// A file whose content passes.
struct OpenFile {
    entry: Arc<Entry>,
    /// The newest slice: its number, its runs of data, and their content.
    index: u32,
    extents: Vec<Extent>,
    content: Vec<u8>,
}

/// The slices that the sink has.
#[derive(Default)]
struct WrittenSlices {
    state: Mutex<WrittenState>,
    changed: Condvar,
}

#[derive(Default)]
struct WrittenState {
    /// Those that are not durable yet, and how many of them each file has.
    total: usize,
    waiting: HashMap<u32, usize>,
    complete: Vec<(RelPath, u64, Option<Digest>)>,
    error: Option<Error>,
}

impl MemberFiles {
    pub(super) fn new(settings: SequentialSettings) -> Self {
        Self {
            pool: BufferPool::new(settings.buffers),
            settings,
            seen: HashMap::new(),
            open: HashMap::new(),
            ended: VecDeque::new(),
            links: Vec::new(),
            held: 0,
            written: Arc::default(),
            totals: Totals::default(),
            error: None,
        }
    }

    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    /// A member begins.
    pub(super) fn begin(&mut self, member: u32, head: &MemberHead) {
        if self.error.is_none()
            && let Err(error) = self.try_begin(member, head)
        {
            self.error = Some(error);
        }
    }

    fn try_begin(&mut self, member: u32, head: &MemberHead) -> Result<()> {
        let path = &head.path;
        let bad =
            |cause: &str| Error::new(ErrorKind::Corrupt, Side::Source, "unpack", cause).on(path.as_bytes());
        if path.components().next() == Some(RESERVED) {
            return Err(bad("a member has the name of haul's own mark"));
        }
        let patterns = &self.settings.patterns;
        if !patterns.is_empty() && !patterns.iter().any(|pattern| selects(pattern, path)) {
            return Ok(());
        }
        let entry = self.entry(head);
        entry.check_growing().map_err(&bad)?;
        let is_dir = entry.is_dir();
        if self.seen.get(path).is_some_and(|was_dir| !was_dir || !is_dir) {
            return Err(bad("two members have this name").with_hint(
                "write the stream into a file: `haul get FILE --unpack DIR` takes the last of them, if it is tar",
            ));
        }
        self.add_parents(path)?;
        self.seen.insert(path.clone(), is_dir);
        self.totals.found += 1;
        let entry = Arc::new(entry);
        if let Some(to) = &head.link {
            if self.seen.get(to) != Some(&false) {
                return Err(bad("it is a hard link to a member that was not unpacked before it"));
            }
            self.links.push(HardLink { entry, to: to.clone() });
            return Ok(());
        }
        let is_file = entry.is_file();
        match self.offer(&entry)? {
            Answer::Need { .. } if is_file => {
                let file = OpenFile { entry, index: 0, extents: Vec::new(), content: Vec::new() };
                self.open.insert(member, file);
            }
            Answer::Made(_) => self.totals.made += 1,
            Answer::Updated(_) => self.totals.updated += 1,
            Answer::Same => self.totals.same += 1,
            Answer::Left(_) | Answer::Need { .. } => self.totals.left += 1,
        }
        Ok(())
    }

    fn offer(&self, entry: &Arc<Entry>) -> Result<Answer> {
        let offer = Offer { entry: Arc::clone(entry), digest: None };
        let answer = self.settings.sink.offer(&[offer])?.pop().transpose()?;
        answer
            .ok_or_else(|| Error::new(ErrorKind::Protocol, Side::Destination, "offer", "there is no answer"))
    }

    /// Makes the directories above a member that the stream has not named.
    fn add_parents(&mut self, path: &RelPath) -> Result<()> {
        let (mut missing, mut above) = (Vec::new(), path.parent());
        while let Some(dir) = above.filter(|dir| !dir.is_root()) {
            match self.seen.get(&dir) {
                Some(true) => break,
                Some(false) => {
                    let cause = format!("it is below {dir}, which is not a directory");
                    let error = Error::new(ErrorKind::Corrupt, Side::Source, "unpack", cause);
                    return Err(error.on(path.as_bytes()));
                }
                None => {}
            }
            above = dir.parent();
            missing.push(dir);
        }
        for dir in missing.into_iter().rev() {
            let time = self.settings.mtime;
            let entry = Entry::new(dir.clone(), EntryKind::Dir, 0);
            let _ = self.offer(&Arc::new(Entry { mode: DIR_MODE, mtime: time, atime: time, ..entry }))?;
            self.seen.insert(dir, true);
        }
        Ok(())
    }

    /// The entry of a member. Files grow: their length is known at their end.
    fn entry(&self, head: &MemberHead) -> Entry {
        let path = head.path.clone();
        let entry = match head.kind {
            EntryKind::File => Entry::stream(path, GROWING),
            _ => Entry::new(path, head.kind.clone(), 0),
        };
        let time = self.settings.mtime;
        match head.metadata.clone() {
            Some(metadata) => Entry {
                mode: metadata.mode,
                uid: metadata.uid,
                gid: metadata.gid,
                mtime: metadata.mtime,
                atime: metadata.mtime,
                xattrs: metadata.xattrs,
                ..entry
            },
            None => Entry { mode: MODE, mtime: time, atime: time, ..entry },
        }
    }

    /// Content of a member.
    pub(super) fn content(&mut self, member: u32, start: u64, mut bytes: &[u8]) {
        let Some(mut file) = self.open.remove(&member).filter(|_| self.error.is_none()) else { return };
        let mut at = start;
        while !bytes.is_empty() {
            let index = u32::try_from(at / SLICE_LEN).unwrap_or(u32::MAX);
            // A slice is whole once content of a later one comes.
            self.write_before(member, &mut file, index);
            let from = (at % SLICE_LEN) as u32;
            let len = bytes.len().min((SLICE_LEN - u64::from(from)) as usize);
            match file.extents.last_mut() {
                Some(last) if last.start + last.len == from => last.len += len as u32,
                _ => file.extents.push(Extent::data(from, len as u32)),
            }
            file.content.extend_from_slice(&bytes[..len]);
            self.held += len as u64;
            (at, bytes) = (at + len as u64, &bytes[len..]);
        }
        if self.held > self.settings.memory {
            let cause = "so many files pass at the same time that their slices take more than the memory";
            let error = Error::new(ErrorKind::Usage, Side::Local, "unpack", cause);
            self.error.get_or_insert(error.with_hint("allow more with --max-memory"));
        }
        self.open.insert(member, file);
    }

    /// A member is complete, and has this length.
    pub(super) fn end(&mut self, member: u32, len: u64) {
        let Some(mut file) = self.open.remove(&member).filter(|_| self.error.is_none()) else { return };
        let last = haul_core::digest::slice_count(len) - 1;
        // It may end with a hole.
        self.write_before(member, &mut file, last);
        self.totals.found_bytes += len;
        file.entry = Arc::new(Entry { len, ..Entry::clone(&file.entry) });
        if last == 0 {
            self.write(member, &file, len);
            self.held -= file.content.len() as u64;
        } else {
            self.ended.push_back((member, file));
        }
    }

    /// Hands the slices before number `index` to the sink. A hole may have any number of them, so this waits while the
    /// sink holds too many.
    fn write_before(&mut self, member: u32, file: &mut OpenFile, index: u32) {
        while file.index < index && self.error.is_none() {
            self.write(member, file, file.entry.len);
            self.held -= file.content.len() as u64;
            file.content.clear();
            file.extents.clear();
            file.index += 1;
            let is_full = self.written.state.lock().total >= WINDOW;
            if is_full && let Err(error) = self.settle(false) {
                self.error = Some(error);
            }
        }
    }

    /// Hands a slice to the sink, as one of a file of `len` bytes.
    fn write(&mut self, member: u32, file: &OpenFile, len: u64) {
        let slice = Slice::whole(0, file.index);
        let mut content = if file.content.is_empty() { Buffer::default() } else { self.pool.take() };
        if let Some(space) = content.grow(file.content.len()) {
            space.copy_from_slice(&file.content);
        }
        let mut hasher = SliceHasher::new(len, slice.start());
        let (mut hashed, mut rest) = (0, content.bytes());
        for extent in &file.extents {
            let (data, behind) = rest.split_at((extent.len as usize).min(rest.len()));
            hasher.update_zeros(u64::from(extent.start) - hashed);
            hasher.update(data);
            (hashed, rest) = (u64::from(extent.start) + u64::from(extent.len), behind);
        }
        hasher.update_zeros(slice.len_in(len) - hashed);
        let value = if len == 0 { ChainingValue(Digest::of(b"").0) } else { hasher.finish() };
        let entry = Arc::clone(&file.entry);
        let name = (entry.path.clone(), entry.len);
        let batch = Batch { entries: vec![entry], slices: vec![slice], again: false };
        let slices = vec![Ok(SliceData { extents: file.extents.clone(), value })];
        let data = BatchData { batch: Arc::new(batch), slices, content, at_hand: true };
        self.totals.sent_bytes += file.content.len() as u64;
        self.written.begin(member);
        let written = Arc::clone(&self.written);
        self.settings.sink.write(data, Box::new(move |outcomes| written.end(member, name, outcomes)));
    }

    /// Writes the last slices of files whose other ones are stored, and waits while the sink holds too much; with `all`,
    /// until it holds nothing more.
    ///
    /// # Errors
    /// The first error of a member, or of the sink.
    pub(super) fn settle(&mut self, all: bool) -> Result<()> {
        loop {
            if let Some(error) = self.error.clone().or_else(|| self.written.state.lock().error.clone()) {
                return Err(error);
            }
            let mut waiting = VecDeque::new();
            while let Some((member, file)) = self.ended.pop_front() {
                if self.written.state.lock().waiting.contains_key(&member) {
                    waiting.push_back((member, file));
                } else {
                    self.write(member, &file, file.entry.len);
                    self.held -= file.content.len() as u64;
                }
            }
            self.ended = waiting;
            let state = self.written.state.lock();
            let is_low = self.held < self.settings.memory / 2 || self.ended.is_empty();
            let is_done =
                if all { state.total == 0 && self.ended.is_empty() } else { state.total < WINDOW && is_low };
            if is_done && state.error.is_none() {
                return Ok(());
            }
            drop(state);
            self.settings.sink.flush();
            let state = self.written.state.lock();
            if state.total > 0 {
                drop(self.written.changed.wait_timeout(state, LOOK));
            }
        }
    }

    /// Tells the files that are complete.
    pub(super) fn tell(&mut self, done: &FileDone<'_>) {
        let complete = std::mem::take(&mut self.written.state.lock().complete);
        for (path, len, digest) in complete {
            self.totals.copied += 1;
            self.totals.copied_bytes += len;
            done(&path, len, digest);
        }
    }

    /// Makes the hard links: the files that they lead to are there.
    ///
    /// # Errors
    /// The first error.
    pub(super) fn link(&mut self) -> Result<()> {
        for answer in self.settings.sink.link(&std::mem::take(&mut self.links))? {
            answer?;
            self.totals.linked += 1;
        }
        Ok(())
    }

    /// Removes the files that are not complete.
    pub(super) fn discard(&mut self) {
        // Slices on their way would make them again.
        while self.written.state.lock().total > 0 {
            self.settings.sink.flush();
            let state = self.written.state.lock();
            if state.total > 0 {
                drop(self.written.changed.wait_timeout(state, LOOK));
            }
        }
        let ended = self.ended.drain(..).map(|(_, file)| file);
        let open = self.open.drain().map(|(_, file)| file);
        let paths: Vec<RelPath> = ended.chain(open).map(|file| file.entry.path.clone()).collect();
        // The error that has ended the run counts.
        let _ = self.settings.sink.discard(&paths);
    }
}

impl WrittenSlices {
    fn begin(&self, member: u32) {
        let mut state = self.state.lock();
        state.total += 1;
        *state.waiting.entry(member).or_default() += 1;
    }

    fn end(&self, member: u32, (path, len): (RelPath, u64), mut outcomes: Vec<Result<Outcome>>) {
        let mut state = self.state.lock();
        state.total -= 1;
        if let Some(left) = state.waiting.get_mut(&member) {
            *left -= 1;
            if *left == 0 {
                state.waiting.remove(&member);
            }
        }
        match outcomes.pop() {
            Some(Ok(Outcome::Committed(digest))) => state.complete.push((path, len, digest)),
            Some(Ok(Outcome::Stored)) if len == GROWING => {}
            Some(Ok(Outcome::Stored)) => {
                let cause = "all of it was sent, and the destination does not say that it is there";
                let error = Error::new(ErrorKind::Io, Side::Destination, "commit", cause);
                state.error.get_or_insert(error.on(path.as_bytes()));
            }
            Some(Err(error)) => drop(state.error.get_or_insert(error)),
            None => {}
        }
        drop(state);
        self.changed.notify_all();
    }
}
