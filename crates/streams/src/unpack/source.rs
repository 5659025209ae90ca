//! The source.

use std::collections::{BTreeSet, HashMap};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use haul_core::digest::SliceHasher;
use haul_core::filter::matches_name;
use haul_core::source::ScanVisit;
use haul_core::{
    Batch, BatchData, Buffer, BufferPool, Digest, Entry, EntryKind, Error, ErrorKind, Extent, PageChecks,
    PageReport, RelPath, Result, Retry, SLICE_LEN, ScanBatch, ScanOptions, Side, Slice, SliceData, Source,
    SourceCaps, Timestamp, Traffic,
};
use haul_members::{Member, MemberPiece};

use super::at::StreamAt;
use super::open::MemberStream;
use super::pages::MemberPages;

/// The name in the directory of an unpack that says which stream is unpacked there.
pub const RESERVED: &[u8] = b".haul-unpack";

/// The mode of files without one, before the umask: that of mbstream(1).
pub(super) const MODE: u32 = 0o660;

/// The mode of directories that the stream does not name, before the umask.
pub(super) const DIR_MODE: u32 = 0o770;

/// Entries that are handed over at once.
const ENTRIES: usize = 1000;

/// Pieces with so many bytes between them are read in one request.
const GAP: u64 = 64 << 10;

/// The members of a stream.
pub struct MemberSource {
    at: Arc<dyn StreamAt>,
    entries: Vec<Arc<Entry>>,
    /// The pieces of each entry.
    pieces: Vec<Arc<Vec<MemberPiece>>>,
    places: HashMap<RelPath, usize>,
    pool: BufferPool,
    /// Checks the pages of database files.
    pages: Option<MemberPages>,
}

/// A piece to be read, and where it belongs.
struct PieceRead {
    piece: MemberPiece,
    /// Its place in the content of the batch.
    to: usize,
    /// The slice in the batch.
    slice: usize,
}

impl MemberSource {
    /// The members whose paths match one of the patterns, and the members below those; all without a pattern.
    ///
    /// # Errors
    /// `NotFound` if none matches, `Corrupt` if a member has a name that it may not have.
    pub fn new(
        stream: MemberStream,
        patterns: &[Vec<u8>],
        pool: BufferPool,
        pages: Option<PageChecks>,
    ) -> Result<Self> {
        let name = stream.at.name();
        let all: HashMap<&RelPath, usize> =
            stream.index.members.iter().enumerate().map(|(at, member)| (&member.head.path, at)).collect();
        let mut links: HashMap<usize, u32> = HashMap::new();
        let target = |member: &Member| member.head.link.as_ref().and_then(|link| all.get(link).copied());
        for member in &stream.index.members {
            if let Some(to) = target(member) {
                *links.entry(to).or_default() += 1;
            }
        }
        let mut this = Self {
            at: stream.at,
            entries: Vec::new(),
            pieces: Vec::new(),
            places: HashMap::new(),
            pool,
            pages: pages.map(MemberPages::new),
        };
        let pieces: Vec<Arc<Vec<MemberPiece>>> =
            stream.index.members.iter().map(|member| Arc::new(member.pieces.clone())).collect();
        for (at, member) in stream.index.members.iter().enumerate() {
            let path = &member.head.path;
            if path.components().next() == Some(RESERVED) {
                let cause = "a member has the name of haul's own mark";
                return Err(Error::new(ErrorKind::Corrupt, Side::Source, "unpack", cause).on(path.as_bytes()));
            }
            if !patterns.is_empty() && !patterns.iter().any(|pattern| selects(pattern, path)) {
                continue;
            }
            let first = target(member).unwrap_or(at);
            let content = stream.index.members.get(first).unwrap_or(member);
            let names = links.get(&first).map_or(1, |links| links + 1);
            let entry = entry(member, content, (names, first), (&stream.state, stream.mtime));
            entry.check().map_err(|cause| {
                Error::new(ErrorKind::Corrupt, Side::Source, "unpack", cause).on(path.as_bytes())
            })?;
            this.places.insert(path.clone(), this.entries.len());
            this.entries.push(Arc::new(entry));
            this.pieces.push(Arc::clone(&pieces[first]));
        }
        this.add_parents(stream.mtime);
        if this.entries.is_empty() && !patterns.is_empty() {
            let error = Error::new(ErrorKind::NotFound, Side::Source, "unpack", "no member matches");
            return Err(error.on(name).with_hint("`haul ls SRC --members` lists the members"));
        }
        Ok(this)
    }

    /// Adds the directories that members are in and that the stream does not name, as it does none in xbstream.
    fn add_parents(&mut self, mtime: Timestamp) {
        let mut missing = BTreeSet::new();
        for entry in &self.entries {
            let mut above = entry.path.parent();
            while let Some(dir) = above.filter(|dir| !dir.is_root() && !self.places.contains_key(dir)) {
                above = dir.parent();
                if !missing.insert(dir) {
                    break;
                }
            }
        }
        for path in missing {
            let entry =
                Entry { mode: DIR_MODE, mtime, atime: mtime, ..Entry::new(path.clone(), EntryKind::Dir, 0) };
            self.places.insert(path, self.entries.len());
            self.entries.push(Arc::new(entry));
            self.pieces.push(Arc::default());
        }
    }

    /// The entries, in the order of the stream.
    #[must_use]
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Plans the slices of a batch: their extents, and the pieces to be read.
    fn plan(&self, batch: &Batch) -> Result<(Vec<Vec<Extent>>, Vec<PieceRead>, usize)> {
        let (mut extents, mut runs, mut total) = (Vec::new(), Vec::new(), 0);
        for (at, (entry, slice)) in batch.iter().enumerate() {
            let unknown = || {
                let cause = "it is no member of the stream";
                Error::new(ErrorKind::NotFound, Side::Source, "read", cause).on(entry.path.as_bytes())
            };
            let place = *self.places.get(&entry.path).ok_or_else(unknown)?;
            let mut of_slice: Vec<Extent> = Vec::new();
            for piece in in_slice(&self.pieces[place], slice) {
                let start = (piece.start - slice.start()) as u32;
                match of_slice.last_mut() {
                    Some(last) if last.start + last.len == start => last.len += piece.len,
                    _ => of_slice.push(Extent::data(start, piece.len)),
                }
                runs.push(PieceRead { piece, to: total, slice: at });
                total += piece.len as usize;
            }
            extents.push(of_slice);
        }
        runs.sort_by_key(|run| run.piece.at);
        Ok((extents, runs, total))
    }

    /// Up to `len` bytes, at most those of the first slice, from the beginning of a member.
    fn head(&self, path: &RelPath, len: usize) -> Result<Vec<u8>> {
        let unknown =
            || Error::new(ErrorKind::NotFound, Side::Source, "read", "it is no member of the stream");
        let place = *self.places.get(path).ok_or_else(|| unknown().on(path.as_bytes()))?;
        let whole = usize::try_from(self.entries[place].len).unwrap_or(len).min(len);
        let mut head = vec![0; whole];
        let mut runs = Vec::new();
        for piece in in_slice(&self.pieces[place], Slice::whole(0, 0)) {
            let to = usize::try_from(piece.start).unwrap_or(whole);
            if to < whole {
                runs.push(PieceRead { piece, to, slice: 0 });
            }
        }
        runs.sort_by_key(|run| run.piece.at);
        // The last piece may be longer.
        let most = runs.iter().map(|run| run.to + run.piece.len as usize).max().unwrap_or(0);
        head.resize(most.max(whole), 0);
        self.fetch(&runs, &mut head)?;
        head.truncate(whole);
        Ok(head)
    }

    /// Reads these pieces, which are in order in the stream.
    fn fetch(&self, runs: &[PieceRead], content: &mut [u8]) -> Result<()> {
        let mut rest = runs;
        while let Some(first) = rest.first() {
            let mut end = first.piece.at;
            let together = rest.iter().take_while(|run| {
                let near = run.piece.at <= end + GAP;
                end = end.max(run.piece.at + u64::from(run.piece.len));
                near
            });
            let (group, left) = rest.split_at(together.count());
            rest = left;
            let range = group
                .first()
                .zip(group.last())
                .map_or(0..0, |(first, last)| first.piece.at..last.piece.at + u64::from(last.piece.len));
            self.scatter(range, group, content)?;
        }
        Ok(())
    }

    /// Reads a range, and copies the pieces in it to their places.
    fn scatter(&self, range: Range<u64>, group: &[PieceRead], content: &mut [u8]) -> Result<()> {
        let (mut at, mut next) = (range.start, 0);
        let start = range.start;
        self.at.read(range, &mut |bytes| {
            let Some(mut bytes) = bytes else {
                (at, next) = (start, 0);
                return;
            };
            while let (Some(run), false) = (group.get(next), bytes.is_empty()) {
                let skipped = run.piece.at.saturating_sub(at).min(bytes.len() as u64);
                (at, bytes) = (at + skipped, &bytes[skipped as usize..]);
                let done = at.saturating_sub(run.piece.at);
                let len = (u64::from(run.piece.len) - done).min(bytes.len() as u64);
                let to = run.to + done as usize;
                if at >= run.piece.at
                    && let Some(space) = content.get_mut(to..to + len as usize)
                {
                    space.copy_from_slice(&bytes[..len as usize]);
                    (at, bytes) = (at + len, &bytes[len as usize..]);
                }
                if at == run.piece.at + u64::from(run.piece.len) {
                    next += 1;
                }
            }
            at += bytes.len() as u64;
        })
    }
}

/// The pieces of a slice.
fn in_slice(pieces: &[MemberPiece], slice: Slice) -> impl Iterator<Item = MemberPiece> + use<'_> {
    let (start, end) = (slice.start(), slice.start() + SLICE_LEN);
    let from = pieces.partition_point(|piece| piece.start < start);
    pieces[from..].iter().take_while(move |piece| piece.start < end).copied()
}

/// Whether a pattern selects a path: it matches the path or a directory above it.
pub(super) fn selects(pattern: &[u8], path: &RelPath) -> bool {
    let mut at = Some(path.clone());
    while let Some(path) = at.filter(|path| !path.is_root()) {
        if matches_name(pattern, path.as_bytes()) {
            return true;
        }
        at = path.parent();
    }
    false
}

/// The entry of a member with the content of `content`, itself or the file that it is a hard link to.
fn entry(
    member: &Member,
    content: &Member,
    (names, first): (u32, usize),
    (state, mtime): (&Digest, Timestamp),
) -> Entry {
    // Files of an earlier run are of the same stream only if the inodes are equal.
    let number = state.0.iter().take(8).fold(0_u64, |all, byte| all << 8 | u64::from(*byte)) >> 1;
    let ino = (number ^ first as u64) & (u64::MAX >> 1);
    let entry = Entry::new(member.head.path.clone(), content.head.kind.clone(), content.len);
    let metadata = content.head.metadata.clone();
    let entry = Entry { ino, dev: 1, nlink: names, allocated: content.allocated(), ..entry };
    match metadata {
        Some(metadata) => Entry {
            mode: metadata.mode,
            uid: metadata.uid,
            gid: metadata.gid,
            mtime: metadata.mtime,
            atime: metadata.mtime,
            xattrs: metadata.xattrs,
            ..entry
        },
        None => Entry { mode: MODE, mtime, atime: mtime, ..entry },
    }
}

impl Source for MemberSource {
    fn caps(&self) -> SourceCaps {
        SourceCaps::default()
    }

    fn root(&self) -> Result<Option<Entry>> {
        let root = RelPath::root();
        let found = self.places.get(&root).map(|at| Entry::clone(&self.entries[*at]));
        Ok(Some(found.unwrap_or_else(|| Entry { mode: 0o755, ..Entry::new(root, EntryKind::Dir, 0) })))
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        for entries in self.entries.chunks(ENTRIES) {
            let kept = entries.iter().filter(|entry| !options.is_wrong_size_or_age(entry));
            let entries = kept.map(|entry| Entry::clone(entry)).collect();
            if visit(ScanBatch { entries, ..ScanBatch::default() }) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        let find = |path| self.places.get(path).map(|at| Entry::clone(&self.entries[*at]));
        Ok(paths.iter().map(|path| Ok(find(path))).collect())
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        let (extents, runs, total) = self.plan(batch)?;
        let mut content = if total == 0 { Buffer::default() } else { self.pool.take() };
        if content.grow(total).is_none() && total > 0 {
            return Err(Error::new(ErrorKind::Protocol, Side::Source, "read", "the batch is too large"));
        }
        self.fetch(&runs, content.bytes_mut())?;
        let bytes = content.bytes();
        let bad = runs.iter().filter(|run| {
            !bytes.get(run.to..run.to + run.piece.len as usize).is_some_and(|found| run.piece.proves(found))
        });
        let bad: HashMap<usize, u64> = bad.map(|run| (run.slice, run.piece.at)).collect();
        let mut from = 0;
        let mut slices = Vec::with_capacity(extents.len());
        for (at, ((entry, slice), extents)) in batch.iter().zip(extents).enumerate() {
            let mut hasher = SliceHasher::new(entry.len, slice.start());
            let (mut hashed, data) = (0, from);
            for extent in &extents {
                hasher.update_zeros(u64::from(extent.start) - hashed);
                hasher.update(&bytes[from..from + extent.len as usize]);
                from += extent.len as usize;
                hashed = u64::from(extent.start) + u64::from(extent.len);
            }
            hasher.update_zeros(slice.len_in(entry.len) - hashed);
            let value = hasher.finish();
            slices.push(match bad.get(&at) {
                None => {
                    let head = |path: &RelPath, len: usize| self.head(path, len);
                    let checked = self.pages.as_ref().map_or(Ok(()), |pages| {
                        pages.check((entry, slice), &extents, &bytes[data..from], &head)
                    });
                    checked.map(|()| SliceData { extents, value })
                }
                Some(place) => {
                    let cause = format!("from byte {place} of the stream on, the content has another CRC-32 than before");
                    let error = Error::new(ErrorKind::Corrupt, Side::Source, "verify", cause);
                    Err(error.on(entry.path.as_bytes()).with_retry(Retry::Again).with_hint(
                        "the stream is damaged, or its index is of another one: `haul index SRC` makes a new one",
                    ))
                }
            });
        }
        Ok(BatchData { batch: Arc::clone(batch), slices, content, at_hand: true })
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        let none = || {
            Error::new(ErrorKind::Unsupported, Side::Source, "hash", "a stream has no digest of its members")
        };
        Ok(paths.iter().map(|path| Err(none().on(path.as_bytes()))).collect())
    }

    fn page_report(&self) -> Result<Option<PageReport>> {
        Ok(self.pages.as_ref().map(MemberPages::report))
    }

    fn streams(&self) -> u32 {
        self.at.streams()
    }

    fn traffic(&self) -> Traffic {
        Traffic { wire_bytes: self.at.came(), ..Traffic::default() }
    }
}
