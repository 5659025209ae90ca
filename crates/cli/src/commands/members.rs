//! The members of streams: opens a stream with its index, `haul index`, and `haul ls --members`.

use std::sync::Arc;

use haul_core::path::printable;
use haul_core::{BufferPool, Error, ErrorKind, Location, Note, Pace, Result, Side, Timestamp};
use haul_engine::Cancel;
use haul_job::{Ends, EndsConfig, create_index, find_index, open_file};
use haul_object::{Client, Object, StoreSettings};
use haul_streams::get::{GetSettings, GetStatus};
use haul_streams::put::write_file;
use haul_streams::unpack::{
    FoundChunks, IndexOrigin, MemberStream, join, open_file as open_file_stream, open_object, write_index,
};

use super::stored_stream::{StoredStream, find_stream};
use crate::args::{ConnectionArgs, DecodeArgs, IndexStreamArgs, LsArgs, MemoryArgs, ReachArgs};
use crate::exit_code::Exit;
use crate::locations::parse_location;
use crate::render::{OutputLines, member_line, print_line};
use crate::settings::{LinkSettings, content_memory, identities, store_settings_of, usage};

/// The memory of `haul ls --members`.
const LISTING: MemoryArgs = MemoryArgs { max_memory: 128 << 20 };

/// How a stream is reached and decoded.
pub(super) struct Opening {
    pub(super) config: EndsConfig,
    pub(super) settings: Arc<GetSettings>,
    pub(super) status: Arc<GetStatus>,
    pub(super) cancel: Cancel,
    pub(super) note: Note,
    stores: StoreSettings,
    memory: MemoryArgs,
    anew: bool,
    /// All members are wanted: an incomplete backup is refused.
    pub(super) is_whole: bool,
}

/// An open stream, and the ends and client that keep it open.
pub(super) struct OpenStream {
    pub(super) stream: MemberStream,
    pub(super) ends: Ends,
    pub(super) client: Option<Arc<Client>>,
    key: String,
}

/// A stream that was found and is not open yet.
pub(super) enum FoundStream {
    /// A file.
    File,
    /// An object of a store.
    Object(Arc<Client>, Object),
    /// The chunks that xbcloud stored.
    Chunks(Arc<Client>, FoundChunks),
    /// The streams of one backup.
    Several(Arc<Client>, Vec<Object>),
}

impl Opening {
    /// # Errors
    /// [`ErrorKind::Usage`] if an option is of no use.
    pub(super) fn new(at: &Location, reach: &ReachArgs, decode: &DecodeArgs) -> Result<Self> {
        let content = content_memory(&reach.memory, 1, 0)?;
        let mut config = LinkSettings::resolve(&reach.link(), &reach.given)?.config;
        // Half of the memory or more is for members on their way, up to a quarter for blocks of the stream.
        config.pool = BufferPool::new(content / 4);
        let settings = GetSettings {
            memory: content,
            raw: false,
            keys: Arc::new(identities(decode)?),
            encrypted_only: decode.encrypted_only(),
        };
        let stores = match at {
            Location::Object(place) => store_settings_of(reach, place, &Pace::default()),
            _ => StoreSettings::default(),
        };
        Ok(Self {
            config,
            settings: Arc::new(settings),
            status: Arc::default(),
            cancel: Cancel::default(),
            note: Arc::new(print_line),
            stores,
            memory: reach.memory.clone(),
            anew: false,
            is_whole: false,
        })
    }

    /// Limits the rate.
    pub(super) fn limit(&mut self, pace: Pace) {
        self.stores.pace = pace.clone();
        self.config.set_pace(pace.clone());
        self.status = Arc::new(GetStatus::new(pace));
    }

    /// Finds the stream, and the index of chunks.
    ///
    /// # Errors
    /// Those of finding it; `Corrupt` if a part of it is missing.
    pub(super) fn find(&self, at: &Location) -> Result<FoundStream> {
        let Location::Object(place) = at else { return Ok(FoundStream::File) };
        let (flag, note) = (self.cancel.flag(), Arc::clone(&self.note));
        let client = Arc::new(haul_object::open(place, Side::Source, &self.stores, flag, note)?);
        Ok(match find_stream(&client, place)? {
            StoredStream::Object(object) => FoundStream::Object(client, object),
            StoredStream::Chunks(chunks) => {
                if self.is_whole {
                    chunks.check_complete()?;
                }
                FoundStream::Chunks(client, FoundChunks::find(chunks, &self.settings, self.anew)?)
            }
            StoredStream::Several(_) if self.anew => {
                let error = usage("index", "it is a backup of several streams").on(place.to_string());
                return Err(error.with_hint("index each of them"));
            }
            StoredStream::Several(objects) => FoundStream::Several(client, objects),
        })
    }

    /// Opens the stream.
    ///
    /// # Errors
    /// Those of finding and opening it, and of a stream without members.
    pub(super) fn open(self, at: &Location) -> Result<OpenStream> {
        let found = self.find(at)?;
        self.open_found(at, found)
    }

    /// Opens a stream that was found. If it has to be read to make an index, the user is told.
    ///
    /// # Errors
    /// Those of opening it, and of a stream without members.
    pub(super) fn open_found(self, at: &Location, found: FoundStream) -> Result<OpenStream> {
        let (flag, note) = (self.cancel.flag(), Arc::clone(&self.note));
        let memory = self.settings.memory / 4;
        let stored = self.stored(at, found)?;
        let mut ends = Ends::new(self.config, Arc::clone(&note), self.cancel.flag());
        let (stream, client, key) = if let Some((stream, client, key)) = stored {
            (stream, Some(client), key)
        } else {
            let file = open_file(&mut ends, at)?;
            let beside = if self.anew { None } else { find_index(&mut ends, at)? };
            let stream = open_file_stream(file, beside.as_ref(), memory, &self.status, &flag)?;
            (stream, None, String::new())
        };
        if let (IndexOrigin::Made(why), false) = (&stream.found, self.anew) {
            if let Some(why) = why {
                note(&format!("the index of the stream is not used: {why}"));
            }
            note("the stream had to be read to find its members: `haul index` writes an index of it");
        }
        Ok(OpenStream { stream, ends, client, key })
    }

    /// Opens a stream in a store. Returns the client, and the key that its index is beside; `None` for a file.
    ///
    /// # Errors
    /// Those of [`Opening::open_found`].
    fn stored(
        &self,
        at: &Location,
        found: FoundStream,
    ) -> Result<Option<(MemberStream, Arc<Client>, String)>> {
        let (settings, status) = (&self.settings, &self.status);
        let open = |client: &Arc<Client>, object: Object, settings| {
            let mtime = modified(&object);
            open_object(Arc::clone(client), object, mtime, settings, status, self.anew)
        };
        Ok(Some(match found {
            FoundStream::File => return Ok(None),
            FoundStream::Object(client, object) => {
                let key = object.key.clone();
                (open(&client, object, settings)?, client, key)
            }
            FoundStream::Chunks(client, chunks) => {
                let (key, mtime) = (chunks.stream().key().to_owned(), written_at(&chunks));
                (chunks.open(mtime, status)?, client, key)
            }
            FoundStream::Several(client, objects) => {
                let memory = content_memory(&self.memory, objects.len() as u64, 0)?;
                let each = Arc::new(GetSettings { memory, ..GetSettings::clone(settings) });
                let streams = objects.into_iter().map(|object| open(&client, object, &each));
                let joined = join(streams.collect::<Result<_>>()?, at.to_string())?;
                (joined, client, String::new())
            }
        }))
    }
}

fn modified(object: &Object) -> Timestamp {
    haul_store::modified(object).unwrap_or_default()
}

/// When the newest of the chunks was written.
pub(super) fn written_at(chunks: &FoundChunks) -> Timestamp {
    modified(&chunks.stream().newest())
}

/// Writes the index of a stream.
///
/// # Errors
/// Those of reading the stream, and of writing the index.
pub(super) fn index(args: &IndexStreamArgs) -> Result<Exit> {
    let at = parse_location(&args.source, &args.reach.given)?;
    let decode = DecodeArgs { raw: false, identity: Vec::new(), allow_plain: false };
    let mut opening = Opening::new(&at, &args.reach, &decode)?;
    opening.anew = true;
    let OpenStream { stream, mut ends, client, key } = opening.open(&at)?;
    let Some(bytes) = stream.made else {
        let cause = "the stream is encrypted, and its index would not be";
        let error = Error::new(ErrorKind::Unsupported, Side::Source, "index", cause).on(at.to_string());
        return Err(error.with_hint("`haul put` writes an index when it encrypts the stream"));
    };
    match &client {
        Some(client) => write_index(client, &key, bytes)?,
        None => write_file(&create_index(&mut ends, &at)?, &bytes)?,
    }
    let (members, format) = (stream.index.members.len(), stream.index.format);
    let noun = if members == 1 { "member" } else { "members" };
    print_line(&format!("{members} {noun} of {format} in {}", printable(at.to_string().as_bytes())));
    Ok(Exit::Done)
}

/// Lists the members of streams.
///
/// # Errors
/// Those of opening a stream.
pub(super) fn list(args: &LsArgs) -> Result<Exit> {
    let reach = ReachArgs {
        given: args.given.clone(),
        host: args.host.clone(),
        connections: ConnectionArgs::default(),
        store: args.store.clone(),
        memory: LISTING,
    };
    let decode = DecodeArgs { raw: false, identity: args.identity.clone(), allow_plain: true };
    super::start::each(&args.places, |place| {
        let at = parse_location(place, &args.given)?;
        let opened = Opening::new(&at, &reach, &decode)?.open(&at)?;
        let lines = OutputLines::stdout();
        for member in &opened.stream.index.members {
            lines.write(&member_line(member.len, member.head.path.as_bytes(), args.json));
        }
        lines.end(Exit::Done)
    })
}
