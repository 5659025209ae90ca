//! Local records of the uploads that haul began: one small file each, removed when the upload is complete or aborted.
//!
//! Stores do not say who began an upload. The files are in `$XDG_STATE_HOME/haul/uploads` (by default `~/.local/state`)
//! and are synced when they are created; the process that works on an upload locks its file.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use haul_core::Digest;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::encoding::Encoding;
use haul_object::Client;
use haul_object::Upload;

/// A symbolic link is not followed.
const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// The content of a file.
#[derive(Serialize, Deserialize)]
struct UploadFile {
    object: String,
    endpoint: String,
    id: String,
    /// The encoding of the stream.
    #[serde(default)]
    encoding: String,
}

/// The file of an upload that this process works on. If it is dropped without [`UploadRecord::done`], it stays for a
/// later run.
pub struct UploadRecord {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

/// Who works on an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// haul began it on this host, and no process works on it any more.
    Ours,
    /// A process on this host works on it.
    Busy,
    /// There is no local record of it.
    Unknown,
}

/// The directory of the files; `None` if this user has none.
fn directory() -> Option<PathBuf> {
    haul_state::directory("uploads").ok()
}

fn path_of(client: &Client, upload: &Upload) -> Option<PathBuf> {
    let name = format!("{} {} {}", client.name(&upload.key), client.endpoint(), upload.id);
    let digest = Digest::of(name.as_bytes()).to_string();
    Some(directory()?.join(format!("{}.json", &digest[..32])))
}

/// Records an upload, or takes over its record. If no file can be written, the upload goes on without one.
#[must_use]
pub fn record(client: &Client, upload: &Upload, encoding: Encoding) -> Option<UploadRecord> {
    let path = path_of(client, upload)?;
    haul_state::make(path.parent()?).ok()?;
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false).mode(0o600).custom_flags(NOFOLLOW);
    let mut file = options.open(&path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let line = UploadFile {
        object: client.name(&upload.key),
        endpoint: client.endpoint().to_owned(),
        id: upload.id.clone(),
        encoding: encoding.to_string(),
    };
    file.set_len(0).ok()?;
    file.write_all(&serde_json::to_vec(&line).ok()?).ok()?;
    // After a power failure the upload is known as haul's own only if its file survives. A failed sync does not stop
    // the upload.
    let _ = file.sync_all().and_then(|()| File::open(path.parent().unwrap_or(&path))?.sync_all());
    Some(UploadRecord { path, _file: file })
}

impl UploadRecord {
    /// The upload is complete or aborted.
    pub fn done(self) {
        // A file that stays names an upload that is gone, which is harmless.
        let _ = fs::remove_file(&self.path);
    }
}

/// Who works on an upload, as far as this host knows.
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

/// The recorded encoding of the stream of an upload, as text.
pub(crate) fn encoding(client: &Client, upload: &Upload) -> Option<String> {
    let line = fs::read(path_of(client, upload)?).ok()?;
    serde_json::from_slice::<UploadFile>(&line).ok().map(|line| line.encoding)
}

/// Removes the record of an upload that is gone.
pub fn forget(client: &Client, upload: &Upload) {
    if let Some(path) = path_of(client, upload) {
        let _ = fs::remove_file(path);
    }
}
