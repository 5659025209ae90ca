//! Opens a stream with its index.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::{Digest, Error, ErrorKind, Result, Side, Timestamp};
use haul_members::{MemberIndex, decode};
use haul_object::{Client, Object, PutOptions};

use super::aged::AgedAt;
use super::at::{ChunksAt, FileAt, ObjectAt, StreamAt};
use super::frames::FramesAt;
use super::scan::{refused, scan};
use crate::encoding::Encoding;
use crate::get::{
    ContentOutput, GetSettings, GetStatus, Got, InputFile, get, get_chunks, get_file, plain, read_slice,
    unknown,
};
use crate::index_file::{self, IndexFile};
use crate::sidecar::{self, Proof, StoredRecord};
use crate::xbcloud::ChunkObjects;

/// How the index of a stream was found.
pub enum IndexOrigin {
    /// Beside the stream.
    Beside,
    /// The stream was read to make it. Why, if there was one that could not be used.
    Made(Option<String>),
}

/// A stream and its members.
pub struct MemberStream {
    pub(super) at: Arc<dyn StreamAt>,
    /// Its members.
    pub index: MemberIndex,
    /// How the index was found.
    pub found: IndexOrigin,
    /// A name for the present state of the stream.
    pub state: Digest,
    /// When the stream was written, as far as that is known.
    pub mtime: Timestamp,
    /// The index to be written beside the stream, if it was made.
    pub made: Option<Vec<u8>>,
}

impl MemberStream {
    /// Of so many bytes for content, those for members on their way. The rest is for blocks of the stream that several
    /// readers need, or for connections.
    #[must_use]
    pub fn memory_of_members(&self, content: u64) -> u64 {
        if self.at.keeps_blocks() { content / 2 } else { content / 8 * 7 }
    }
}

/// Opens an object. `anew`: an index beside it is not used.
///
/// # Errors
/// `Usage` if it is neither xbstream nor tar, `Corrupt` or `Unsupported` if it cannot be unpacked, else the error of
/// reading.
pub fn open_object(
    client: Arc<Client>,
    object: Object,
    mtime: Timestamp,
    settings: &Arc<GetSettings>,
    status: &Arc<GetStatus>,
    anew: bool,
) -> Result<MemberStream> {
    let name = client.name(&object.key);
    let recorded = sidecar::find(&client, &object)?;
    if settings.encrypted_only && recorded.encoding.as_ref().is_ok_and(|encoding| !encoding.encrypted) {
        return Err(plain(&name));
    }
    let beside = if anew { None } else { index_file::find(&client, &object, &settings.keys)? };
    let read = |output| get(&client, &object, output, settings, status);
    let (index, found, records) = find_or_make(beside, &name, status, read)?;
    let encoding = recorded.encoding.clone().map_err(|words| unknown(&words, &name))?;
    // Whoever reads an encrypted stream cannot encrypt to its recipients.
    let file = IndexFile { etag: sidecar::bare(&object.etag).to_owned(), len: object.len };
    let made = records.filter(|_| !encoding.encrypted).map(|records| file.bytes(&records));
    let state = Digest::of(format!("{name}\0{}\0{}", object.etag, object.len).as_bytes());
    let at = decoded(ObjectAt::new(client, object), &recorded, encoding, &index, settings)?;
    Ok(MemberStream { at, index, found, state, mtime, made })
}

/// A stream that xbcloud stored, and the index beside it.
pub struct FoundChunks {
    pub(super) stream: Arc<ChunkObjects>,
    pub(super) settings: Arc<GetSettings>,
    belongs_to: IndexFile,
    beside: Option<std::result::Result<MemberIndex, String>>,
}

impl FoundChunks {
    /// Looks for the index of a stream. `anew`: an index beside it is not used.
    ///
    /// # Errors
    /// `Corrupt` if it would have to be encrypted, else the error of reading the index.
    pub fn find(stream: Arc<ChunkObjects>, settings: &Arc<GetSettings>, anew: bool) -> Result<Self> {
        if settings.encrypted_only {
            return Err(plain(&stream.name()));
        }
        let belongs_to = IndexFile { etag: stream.state().to_string(), len: stream.len() };
        let find = || index_file::find_of(stream.client(), stream.key(), &belongs_to, &settings.keys);
        let beside = if anew { None } else { find()? };
        Ok(Self { stream, settings: Arc::clone(settings), belongs_to, beside })
    }

    /// The chunks.
    #[must_use]
    pub fn stream(&self) -> &Arc<ChunkObjects> {
        &self.stream
    }

    /// Whether there is an index that can be used.
    #[must_use]
    pub fn has_index(&self) -> bool {
        matches!(self.beside, Some(Ok(_)))
    }

    /// Why an index beside the stream cannot be used, if there is one.
    #[must_use]
    pub fn refused_index(&self) -> Option<&str> {
        self.beside.as_ref().and_then(|read| read.as_ref().err()).map(String::as_str)
    }

    /// Opens it.
    ///
    /// # Errors
    /// As [`open_object`].
    pub fn open(self, mtime: Timestamp, status: &GetStatus) -> Result<MemberStream> {
        let Self { stream, settings, belongs_to, beside } = self;
        let name = stream.name();
        let read = |output| get_chunks(&stream, output, &settings, status);
        let (index, found, records) = find_or_make(beside, &name, status, read)?;
        if index.len != stream.len() {
            return Err(misfit(&name));
        }
        let (state, made) = (stream.state(), records.map(|records| belongs_to.bytes(&records)));
        Ok(MemberStream { at: Arc::new(ChunksAt::new(stream)), index, found, state, mtime, made })
    }
}

/// Writes the index of an object beside it.
///
/// # Errors
/// The error of the request.
pub fn write_index(client: &Client, key: &str, bytes: Vec<u8>) -> Result<()> {
    index_file::write(client, key, bytes, &PutOptions::default())
}

fn decoded(
    object: ObjectAt,
    recorded: &StoredRecord,
    encoding: Encoding,
    index: &MemberIndex,
    settings: &Arc<GetSettings>,
) -> Result<Arc<dyn StreamAt>> {
    let mut at: Arc<dyn StreamAt> = Arc::new(object);
    if encoding.encrypted {
        at = Arc::new(AgedAt::new(at, Arc::clone(settings))?);
    }
    if let Some(format) = encoding.packed {
        let name = at.name();
        let frames = FramesAt::new(at, format, &index.frames, index.len, settings.memory / 2);
        at = Arc::new(frames.ok_or_else(|| misfit(&name))?);
    }
    let len = recorded.plain.proof(&settings.keys).map_or(at.len(), |Proof { len, .. }| len);
    if at.len() == index.len && len == index.len { Ok(at) } else { Err(misfit(&at.name())) }
}

/// Opens a file. `beside` is the file with its index, if there is one.
///
/// # Errors
/// As [`open_object`].
pub fn open_file(
    file: InputFile,
    beside: Option<&InputFile>,
    memory: u64,
    status: &Arc<GetStatus>,
    cancel: &Arc<AtomicBool>,
) -> Result<MemberStream> {
    let belongs_to = IndexFile { etag: String::new(), len: file.entry.len };
    let beside = beside.map(|beside| {
        let content = whole(beside, cancel).map_err(|error| error.to_string())?;
        index_file::read(&content, &belongs_to, &crate::keys::Identities::default())
    });
    let read = |output| get_file(&file, output, status, cancel);
    let (index, found, records) = find_or_make(beside, &file.name, status, read)?;
    status.written.store(0, Ordering::Relaxed);
    let made = records.map(|records| belongs_to.bytes(&records));
    if index.len != file.entry.len {
        return Err(misfit(&file.name));
    }
    let (state, mtime) = (Digest::of(&file.state()), file.entry.mtime);
    let at = Arc::new(FileAt::new(file, memory / 2, Arc::clone(cancel))?);
    Ok(MemberStream { at, index, found, state, mtime, made })
}

/// The index beside a stream. If there is none to be used, reads the stream to make one, and returns its records too.
fn find_or_make(
    beside: Option<std::result::Result<MemberIndex, String>>,
    name: &str,
    status: &GetStatus,
    read: impl FnOnce(ContentOutput) -> Result<Got>,
) -> Result<(MemberIndex, IndexOrigin, Option<Vec<u8>>)> {
    let why = match beside {
        Some(Ok(index)) => return Ok((index, IndexOrigin::Beside, None)),
        other => other.and_then(std::result::Result::err),
    };
    let (scanner, _) = scan(read)?;
    let records = scanner.finish(&status.frames.lock()).map_err(|fault| refused(&fault, name))?;
    let index = decode(&records).map_err(|why| Error::new(ErrorKind::Io, Side::Local, "index", why))?;
    Ok((index, IndexOrigin::Made(why), Some(records)))
}

/// The content of a short file.
fn whole(file: &InputFile, cancel: &AtomicBool) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    if file.entry.len > index_file::MAX_LEN as u64 {
        return Err(Error::new(ErrorKind::Corrupt, Side::Source, "read", "it is too long").on(&file.name));
    }
    for index in 0..haul_core::digest::slice_count(file.entry.len) {
        content.extend_from_slice(read_slice(file, index, cancel)?.bytes());
    }
    Ok(content)
}

/// The error of an index that says something else than the stream.
pub(super) fn misfit(name: &str) -> Error {
    let cause = "its index does not fit it";
    let error = Error::new(ErrorKind::Corrupt, Side::Source, "read the members of", cause).on(name);
    error.with_hint("`haul index SRC` makes a new one")
}
