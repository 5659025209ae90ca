//! What is known on this machine of uploads that haul began: a small file for each, gone when it is complete or
//! given up.
//!
//! Stores do not tell who began an upload. The files are in `$XDG_STATE_HOME/haul/uploads` (by default
//! `~/.local/state`), and are synced when they are made; the process that works on an upload holds a lock on its file.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use haul_core::Digest;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::encoding::Encoding;
use crate::store::Upload;

/// The name is that of the file, and not of another one by a link.
const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// What a file says.
#[derive(Serialize, Deserialize)]
struct Line {
    object: String,
    endpoint: String,
    id: String,
    /// What is done to the stream before it is stored.
    #[serde(default)]
    encoding: String,
}

/// The file of an upload that this process works on. Dropped without [`Record::done`], it stays for a later run.
pub struct Record {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

/// Whose an upload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// haul began it on this machine, and no process works on it any more.
    Ours,
    /// A process on this machine works on it.
    Busy,
    /// Nothing is known of it here.
    Unknown,
}

/// The folder of the files; `None` where there is none that is this user's own.
fn folder() -> Option<PathBuf> {
    crate::state::folder("uploads").ok()
}

fn path_of(client: &Client, upload: &Upload) -> Option<PathBuf> {
    let name = format!("{} {} {}", client.name(&upload.key), client.endpoint(), upload.id);
    let digest = Digest::of(name.as_bytes()).to_string();
    Some(folder()?.join(format!("{}.json", &digest[..32])))
}

/// Notes an upload, or takes over the file that there is. Where no file can be made, the upload goes on without.
#[must_use]
pub fn record(client: &Client, upload: &Upload, encoding: Encoding) -> Option<Record> {
    let path = path_of(client, upload)?;
    crate::state::make(path.parent()?).ok()?;
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false).mode(0o600).custom_flags(NOFOLLOW);
    let mut file = options.open(&path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let line = Line {
        object: client.name(&upload.key),
        endpoint: client.endpoint().to_owned(),
        id: upload.id.clone(),
        encoding: encoding.to_string(),
    };
    file.set_len(0).ok()?;
    file.write_all(&serde_json::to_vec(&line).ok()?).ok()?;
    // After a power cut the upload is known as ours only if its file is there. A disk that cannot do it stops no upload.
    let _ = file.sync_all().and_then(|()| File::open(path.parent().unwrap_or(&path))?.sync_all());
    Some(Record { path, _file: file })
}

impl Record {
    /// The upload is complete or given up.
    pub fn done(self) {
        // What stays names an upload that is gone, which harms nothing.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whose an upload is, as far as this machine knows.
#[must_use]
pub fn owner(client: &Client, upload: &Upload) -> Owner {
    let Some(file) = path_of(client, upload).and_then(|path| File::open(path).ok()) else {
        return Owner::Unknown;
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Owner::Ours,
        Err(_) => Owner::Busy,
    }
}

/// What is known of how the stream of an upload is encoded, in words.
pub(crate) fn encoding(client: &Client, upload: &Upload) -> Option<String> {
    let line = fs::read(path_of(client, upload)?).ok()?;
    serde_json::from_slice::<Line>(&line).ok().map(|line| line.encoding)
}

/// Forgets an upload that is gone.
pub fn forget(client: &Client, upload: &Upload) {
    if let Some(path) = path_of(client, upload) {
        let _ = fs::remove_file(path);
    }
}
