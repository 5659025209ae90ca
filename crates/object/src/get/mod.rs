//! An object as a stream: fetched in parallel, handed over in order, verified before its last bytes are.

mod check;
mod decode;
mod output;
mod stored;
mod window;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use haul_core::{Error, ErrorKind, Result, Side};
use haul_threads::{ThreadPool, both};

use crate::client::Client;
use crate::encoding::{self, Encoding};
use crate::keys::Identities;
use crate::sidecar::{self, Found};
use crate::store::Object;
pub use check::{Check, Checked};
use decode::Decoder;
pub use output::Output;
use stored::Stored;
use window::Window;

/// How it is read.
#[derive(Default)]
pub struct GetSettings {
    /// Memory for content in bytes, at least 24 MiB.
    pub memory: u64,
    /// As it is stored, not as it was.
    pub raw: bool,
    /// What decrypts it.
    pub keys: Identities,
    /// What is not stored encrypted is refused.
    pub encrypted_only: bool,
}

/// Where it stands. Bytes.
#[derive(Debug, Default)]
pub struct GetStatus {
    /// Of what is stored: dealt with so far.
    pub written: AtomicU64,
    /// Of the stream as it was before it was stored, if that is another.
    pub plain: AtomicU64,
    /// There from an earlier run.
    pub resumed: AtomicU64,
    /// The store is waited for, not the reader.
    pub waits: AtomicBool,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got {
    /// What it was checked by; `None` if the reader had enough before the end.
    pub checked: Option<Checked>,
    /// Ranges that were slow and asked for once more.
    pub asked_again: u64,
    /// How it was stored; nothing with [`GetSettings::raw`].
    pub encoding: Encoding,
    /// Its length in bytes, as it was handed over.
    pub len: u64,
}

/// What is there under `key`.
///
/// # Errors
/// If nothing is, or the store does not say.
pub fn find(client: &Client, key: &str) -> Result<Object> {
    client.head(key)?.ok_or_else(|| client.missing(key, "find"))
}

/// Moves an object to `output`: as it was before it was stored, as far as that is noted.
///
/// # Errors
/// If it cannot be read or written, decoded, or does not verify. Then its last bytes were not handed over.
pub fn get(
    client: &Client,
    object: &Object,
    mut output: Output,
    settings: &GetSettings,
    status: &Arc<GetStatus>,
) -> Result<Got> {
    let mut found = None;
    let encoded = |found: &Found| !settings.raw && found.encoding != Ok(Encoding::default());
    if output.there() > 0 {
        let recorded = sidecar::find(client, object)?;
        // Where in what is stored the rest begins is not known.
        if encoded(&recorded) {
            output.restart()?;
        }
        found = Some(recorded);
    }
    // What was noted with it tells how memory is divided; what it is decoded by, the sidecar may know better.
    let may_decode = !settings.raw && object.note(encoding::NOTE).is_some();
    let memory = settings.memory - if may_decode { decode::share(settings.memory) } else { 0 };
    let window = Window::new(client, object, output.there(), memory);
    let name = &client.name(&object.key);
    let mut encoding = Encoding::default();
    let got = thread::scope(|scope| {
        let fetchers = ThreadPool::new(scope, "range", |_| window.fetch());
        if let Err(error) = fetchers.grow(1) {
            window.end();
            return Err(error);
        }
        let recorded = both(
            "find",
            || found.take().map_or_else(|| sidecar::find(client, object), Ok),
            || fetchers.grow(window.threads()),
        );
        let recorded = recorded.and_then(|(recorded, _)| recorded);
        let delivered = recorded.and_then(|found| {
            let mut check = Check::new(object, found.stored.as_ref());
            if found.stored.is_some_and(|proof| proof.len != object.len) {
                let cause = "it has another length than was recorded";
                return Err(Error::new(ErrorKind::Corrupt, Side::Source, "verify", cause).on(name));
            }
            if settings.encrypted_only && found.encoding.as_ref().is_ok_and(|found| !found.encrypted) {
                return Err(plain(name));
            }
            output.reread(&mut |bytes| check.update(bytes))?;
            status.resumed.store(output.there(), Ordering::Relaxed);
            let checked = Cell::new(None);
            let mut stored = Stored::new(&window, check, name, status, &checked);
            if !encoded(&found) {
                return deliver(&mut stored, &mut output);
            }
            encoding = found.encoding.map_err(|words| unknown(&words, name))?;
            let mut decoder = Decoder::new(stored, encoding, &found.plain, settings)?;
            deliver(&mut decoder, &mut output)
        });
        window.end();
        delivered
    });
    match got {
        Ok(checked) => {
            if checked.is_some() {
                output.finish()?;
            }
            let plain = status.plain.load(Ordering::Relaxed);
            let len = if encoding.is_plain() { object.len } else { plain };
            Ok(Got { checked, asked_again: window.asked_again(), encoding, len })
        }
        Err(error) => {
            if error.kind() == ErrorKind::Corrupt {
                output.discard();
            }
            Err(error)
        }
    }
}

/// A stream in pieces.
trait Pieces {
    type Piece: AsRef<[u8]>;

    /// The next one; `None` at the end.
    fn next(&mut self) -> Result<Option<Self::Piece>>;

    /// After the end: how all of them were checked.
    fn checked(&mut self) -> Result<Checked>;
}

/// Hands over everything but the last piece, checks all, and hands over that. `None`: the reader had enough.
fn deliver<P: Pieces>(pieces: &mut P, output: &mut Output) -> Result<Option<Checked>> {
    let mut held: Option<P::Piece> = None;
    while let Some(piece) = pieces.next()? {
        if let Some(before) = held.replace(piece)
            && !output.write(before.as_ref())?
        {
            return Ok(None);
        }
    }
    let checked = pieces.checked()?;
    match held {
        Some(last) if !output.write(last.as_ref())? => Ok(None),
        _ => Ok(Some(checked)),
    }
}

/// The error for an object in plain where one that is encrypted was expected: whoever may write to the bucket can have put
/// it there.
fn plain(name: &str) -> Error {
    let cause = "it is not encrypted, and --identity was given";
    let error = Error::new(ErrorKind::Corrupt, Side::Source, "verify", cause).on(name);
    error.with_hint("somebody may have replaced it; --allow-plain takes it as it is")
}

fn unknown(words: &str, name: &str) -> Error {
    let cause = format!("it is stored as `{words}`, which this version does not know");
    let error = Error::new(ErrorKind::Unsupported, Side::Source, "decode", cause).on(name);
    error.with_hint("--raw gets what is stored")
}
