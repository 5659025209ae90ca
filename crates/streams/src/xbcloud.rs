//! Streams that xbcloud stored: each chunk of xbstream is an object `NAME/PATH.N`, where N counts the chunks of a file
//! from 0, in 20 digits. The last chunk of a file ends it.
//! <https://docs.percona.com/percona-xtrabackup/8.0/xbcloud-binary-overview.html>

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_core::{Digest, Error, ErrorKind, Result, Side};
use haul_object::{Client, Object};

use crate::sidecar::bare;

/// The digits of a number in a key.
const DIGITS: usize = 20;

/// The most chunks of a backup: they are held in memory, about 60 bytes each. xtrabackup writes chunks of 10 MiB.
const MAX_CHUNKS: usize = 1 << 21;

/// The files that xtrabackup and mariadb-backup write last. xbcloud, too, takes a backup without them as incomplete.
const LAST_FILES: [&str; 3] = ["xtrabackup_info", "xtrabackup_tablespaces", "mariadb_backup_info"];

/// The chunks of a backup, as one stream: file by file, in the order of their names.
pub struct ChunkObjects {
    client: Arc<Client>,
    /// The key of the backup, without a slash at its end.
    key: String,
    files: Vec<ChunkedFile>,
    chunks: Vec<StoredChunk>,
    len: u64,
    state: Digest,
    newest: String,
}

struct ChunkedFile {
    /// The key of its chunks, without the number.
    key: String,
    /// Its first chunk in [`ChunkObjects::chunks`].
    first: usize,
}

struct StoredChunk {
    /// Its offset in the stream.
    start: u64,
    /// The number of its file.
    file: usize,
    etag: Box<str>,
}

/// The chunks of a file that were listed: number, length, ETag.
type ListedChunks = Vec<(u64, u64, Box<str>)>;

impl ChunkObjects {
    /// The backup under this key; `None` if there are no chunks.
    ///
    /// # Errors
    /// `Corrupt` if a chunk is missing, `Unsupported` if there are too many, else the error of the listing.
    pub fn find(client: &Arc<Client>, key: &str) -> Result<Option<Self>> {
        let key = key.strip_suffix('/').unwrap_or(key);
        if key.is_empty() {
            return Ok(None);
        }
        let mut listed: BTreeMap<String, ListedChunks> = BTreeMap::new();
        let (mut count, mut newest) = (0, String::new());
        for page in client.pages(&format!("{key}/"), false) {
            for object in page?.objects {
                let Some((file, number)) = parse(&object.key) else { continue };
                let chunk = (number, object.len, object.etag.into_boxed_str());
                listed.entry(file.to_owned()).or_default().push(chunk);
                count += 1;
                newest = newest.max(object.modified);
            }
            if listed.is_empty() {
                // The page holds other objects.
                return Ok(None);
            }
            if count > MAX_CHUNKS {
                let cause = format!("it has more than {MAX_CHUNKS} chunks");
                let error = Error::new(ErrorKind::Unsupported, Side::Source, "list the chunks of", cause);
                return Err(error.on(client.name(key)));
            }
        }
        let mut found = Self {
            client: Arc::clone(client),
            key: key.to_owned(),
            files: Vec::new(),
            chunks: Vec::with_capacity(count),
            len: 0,
            state: Digest::of(b""),
            newest,
        };
        found.add(listed)?;
        Ok(Some(found))
    }

    fn add(&mut self, listed: BTreeMap<String, ListedChunks>) -> Result<()> {
        let mut state = blake3::Hasher::new();
        for (key, mut chunks) in listed {
            chunks.sort_unstable_by_key(|(number, ..)| *number);
            let (file, first) = (self.files.len(), self.chunks.len());
            for (wanted, (number, len, etag)) in (0..).zip(chunks) {
                if number != wanted {
                    let cause = "this chunk of the backup is missing";
                    let error = Error::new(ErrorKind::Corrupt, Side::Source, "find", cause);
                    return Err(error.on(self.client.name(&numbered(&key, wanted))));
                }
                state.update(format!("{key}\0{number}\0{len}\0{}\0", bare(&etag)).as_bytes());
                self.chunks.push(StoredChunk { start: self.len, file, etag });
                self.len = self.len.saturating_add(len);
            }
            self.files.push(ChunkedFile { key, first });
        }
        self.state = Digest(state.finalize().into());
        Ok(())
    }

    /// The key of the backup, without a slash at its end.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The store.
    #[must_use]
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The name, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        self.client.name(&self.key)
    }

    /// The length of the stream in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the stream has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A name for the present state of all objects.
    #[must_use]
    pub fn state(&self) -> Digest {
        self.state
    }

    /// An object without a key that was modified when the newest of the chunks was.
    #[must_use]
    pub fn newest(&self) -> Object {
        Object { modified: self.newest.clone(), ..Object::default() }
    }

    /// Checks that the backup has a file that its program writes last.
    ///
    /// # Errors
    /// `Corrupt` if not.
    pub fn check_complete(&self) -> Result<()> {
        let is_last = |file: &ChunkedFile| {
            let name = file.key.rsplit('/').next().unwrap_or_default();
            LAST_FILES.iter().any(|last| name.starts_with(last))
        };
        if self.files.iter().any(is_last) {
            return Ok(());
        }
        let cause = "the backup is incomplete: it has neither xtrabackup_info nor xtrabackup_tablespaces";
        let error = Error::new(ErrorKind::Corrupt, Side::Source, "read", cause).on(self.name());
        Err(error.with_hint("--member takes single files out of it"))
    }

    /// Hands over the bytes of a range in order.
    ///
    /// # Errors
    /// `SourceChanged` if a chunk was replaced, else the error of the request.
    pub(crate) fn read(
        &self,
        range: Range<u64>,
        unwanted: &AtomicBool,
        take: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<()> {
        let mut at = range.start;
        let mut next = self.chunks.partition_point(|chunk| chunk.start <= at).saturating_sub(1);
        while let (true, Some(chunk)) = (at < range.end, self.chunks.get(next)) {
            let end = self.chunks.get(next + 1).map_or(self.len, |after| after.start);
            let until = end.min(range.end);
            let object = self.object(next, chunk, end);
            let part = at - chunk.start..until - chunk.start;
            self.client.read(&object, part, unwanted, &mut without_repeats(take))?;
            (at, next) = (until, next + 1);
        }
        Ok(())
    }

    fn object(&self, number: usize, chunk: &StoredChunk, end: u64) -> Object {
        let file = self.files.get(chunk.file);
        let key = file.map(|file| numbered(&file.key, (number - file.first) as u64));
        Object {
            key: key.unwrap_or_default(),
            len: end - chunk.start,
            etag: chunk.etag.to_string(),
            ..Object::default()
        }
    }
}

/// Passes bytes on once. A request that is repeated, which `None` announces, brings the same bytes again: those of the
/// same ETag.
pub(crate) fn without_repeats<'a>(
    take: &'a mut (dyn FnMut(&[u8]) + Send),
) -> impl FnMut(Option<&[u8]>) + Send + 'a {
    let (mut passed, mut known) = (0, 0);
    move |bytes| match bytes {
        None => known = passed,
        Some(bytes) => {
            let skipped = known.min(bytes.len());
            known -= skipped;
            passed += bytes.len() - skipped;
            take(&bytes[skipped..]);
        }
    }
}

fn numbered(file: &str, number: u64) -> String {
    format!("{file}.{number:0DIGITS$}")
}

/// The file and the number of a chunk.
fn parse(key: &str) -> Option<(&str, u64)> {
    let (file, number) = key.rsplit_once('.')?;
    let is_number = number.len() == DIGITS && number.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && !file.is_empty() { Some((file, number.parse().ok()?)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_chunk_ends_in_twenty_digits() {
        let key = numbered("b/shop/orders.ibd", 17);
        assert_eq!(key, "b/shop/orders.ibd.00000000000000000017");
        assert_eq!(parse(&key), Some(("b/shop/orders.ibd", 17)));
        for other in
            ["b/x", "b/x.17", "b/x.0000000000000000001x", "b/x.99999999999999999999", ".00000000000000000000"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_repeated_request_hands_over_each_byte_once() {
        let mut got = Vec::new();
        let mut all = |bytes: &[u8]| got.extend_from_slice(bytes);
        let mut take = without_repeats(&mut all);
        take(None);
        take(Some(b"abc"));
        take(None);
        take(Some(b"ab"));
        take(None);
        for piece in [&b"a"[..], b"bcd", b"e"] {
            take(Some(piece));
        }
        drop(take);
        assert_eq!(got, b"abcde");
    }
}
