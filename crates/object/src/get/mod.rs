//! An object as a stream: fetched in parallel, handed over in order, verified before its last bytes are.

mod check;
mod output;
mod window;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use haul_core::{Error, ErrorKind, Result, Side};

use crate::client::Client;
use crate::companion;
use crate::store::Object;
pub use check::{Check, Checked};
pub use output::Output;
use window::{Piece, Window};

/// Where it stands. Bytes.
#[derive(Debug, Default)]
pub struct GetStatus {
    /// Handed over so far.
    pub written: AtomicU64,
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
}

/// What is there under `key`.
///
/// # Errors
/// If nothing is, or the store does not say.
pub fn find(client: &Client, key: &str) -> Result<Object> {
    client.head(key)?.ok_or_else(|| {
        let error = Error::new(ErrorKind::NotFound, Side::Source, "find", "there is no such object");
        error.on(client.name(key)).with_hint("`haul ls` lists what is there")
    })
}

/// Moves an object to `output`, with `memory` bytes (at least 24 MiB) for content.
///
/// # Errors
/// If it cannot be read or written, or does not verify. Then its last bytes were not handed over.
pub fn get(
    client: &Client,
    object: &Object,
    mut output: Output,
    memory: u64,
    status: &Arc<GetStatus>,
) -> Result<Got> {
    let window = Window::new(client, object, output.there(), memory);
    let got = thread::scope(|scope| {
        let recorded = scope.spawn(|| companion::find(client, object));
        for _ in 0..window.threads() {
            let fetcher =
                thread::Builder::new().name("range".to_owned()).spawn_scoped(scope, || window.fetch());
            if let Err(error) = fetcher {
                window.end();
                return Err(Error::io(Side::Local, "start a thread", &error));
            }
        }
        let recorded = recorded.join().unwrap_or(Ok(None));
        let delivered = recorded.and_then(|proof| {
            let mut check = Check::new(object, proof.as_ref());
            if proof.is_some_and(|proof| proof.len != object.len) {
                let cause = "it has another length than was recorded";
                return Err(Error::new(ErrorKind::Corrupt, Side::Source, "verify", cause)
                    .on(client.name(&object.key)));
            }
            output.reread(&mut |bytes| check.update(bytes))?;
            status.resumed.store(output.there(), Ordering::Relaxed);
            deliver(&window, check, &mut output, &client.name(&object.key), status)
        });
        window.end();
        delivered
    });
    match got {
        Ok(checked) => {
            if checked.is_some() {
                output.finish()?;
            }
            Ok(Got { checked, asked_again: window.asked_again() })
        }
        Err(error) => {
            if error.kind() == ErrorKind::Corrupt {
                output.discard();
            }
            Err(error)
        }
    }
}

/// Hands over everything but the last range, checks all, and hands over that. `None`: the reader had enough.
fn deliver(
    window: &Window<'_>,
    mut check: Check,
    output: &mut Output,
    name: &str,
    status: &GetStatus,
) -> Result<Option<Checked>> {
    let mut write = |piece: &Piece| -> Result<bool> {
        for buffer in piece {
            if !output.write(buffer.bytes())? {
                return Ok(false);
            }
            status.written.fetch_add(buffer.bytes().len() as u64, Ordering::Relaxed);
        }
        Ok(true)
    };
    let mut held: Option<Piece> = None;
    loop {
        status.waits.store(true, Ordering::Relaxed);
        let Some(piece) = window.next()? else { break };
        status.waits.store(false, Ordering::Relaxed);
        piece.iter().for_each(|buffer| check.update(buffer.bytes()));
        if let Some(before) = held.replace(piece)
            && !write(&before)?
        {
            return Ok(None);
        }
    }
    let checked = check.finish(name)?;
    match held {
        Some(last) if !write(&last)? => Ok(None),
        _ => Ok(Some(checked)),
    }
}
