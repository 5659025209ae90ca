//! Small files. A new one gets its name, content and times in one frame: the server has all of it before it creates the
//! file. If it then fails to write, the file is shorter than its entry, and is removed. A file that replaces another one
//! is staged and renamed.

use std::borrow::Cow;
use std::sync::Arc;

use haul_core::{Digest, Entry, Error, ErrorKind, Outcome, Result, SLICE_LEN, SliceData};

use super::read;
use super::remove::remove_at;
use super::reply::{Fault, Replies};
use super::state::SmbSink;
use super::step::{ChainStep, OpenedKind, WRITE};

/// Whether a file is small: one slice.
pub(super) fn is_small(entry: &Entry) -> bool {
    entry.len <= SLICE_LEN
}

/// Writes a file.
pub(super) async fn write(
    sink: &SmbSink,
    entry: &Arc<Entry>,
    data: &SliceData,
    content: &[u8],
) -> Result<Outcome> {
    let whole = with_zeros(entry, data, content);
    let failed = |fault| sink.tree.error("write", &entry.path, fault);
    // The chaining value of the only slice is the digest of the file.
    let committed = Ok(Outcome::Committed(Some(Digest(data.value.0))));
    let replaces = sink.replaces(&entry.path);
    let options = &sink.options;
    let is_direct = !replaces
        && !options.atomic
        && !options.verify_disk
        && whole.len() <= sink.tree.smb.server.most()
        // They are written before the file gets its name.
        && !sink.wants_streams(entry);
    if is_direct && create(sink, entry, &whole).await.map_err(failed)? {
        return committed;
    }
    if is_direct {
        sink.check_spelling(&entry.path).await.map_err(failed)?;
    }
    let part = sink.stage(&entry.path)?;
    let staged = stage(sink, &part.remote, entry, data, &whole, replaces || is_direct).await;
    if staged.is_err() {
        let _removed = remove_at(&sink.tree, &part.remote).await;
    }
    staged.map_err(failed)?;
    committed
}

/// The content with zeros in the place of holes.
fn with_zeros<'a>(entry: &Entry, data: &SliceData, content: &'a [u8]) -> Cow<'a, [u8]> {
    if content.len() as u64 == entry.len {
        return content.into();
    }
    // A small file: its length was checked with its proof.
    let mut whole = vec![0; entry.len.min(SLICE_LEN) as usize];
    let mut used = 0;
    for extent in &data.extents {
        let (start, len) = (extent.start as usize, extent.len as usize);
        if let (Some(to), Some(from)) = (whole.get_mut(start..start + len), content.get(used..used + len)) {
            to.copy_from_slice(from);
        }
        used += len;
    }
    whole.into()
}

/// Creates a new file in one frame. Returns whether it did; not if something has its name.
async fn create(sink: &SmbSink, entry: &Entry, whole: &[u8]) -> Result<bool, Fault> {
    let remote = sink.tree.remote(&entry.path)?;
    let set = sink.wish(entry).step(None);
    let (writes, sets) = (usize::from(!whole.is_empty()), usize::from(set.is_some()));
    let mut chain = vec![ChainStep::make(&remote, OpenedKind::File, WRITE)];
    if writes > 0 {
        chain.push(ChainStep::write(0, whole, sink.options.durable));
    }
    chain.extend(set);
    chain.push(ChainStep::close());
    sink.directories.touch(&entry.path);
    let replies = sink.tree.run(&chain).await?;
    match replies.opened() {
        Ok(_) => {}
        Err(fault) if fault.is_collision() => return Ok(false),
        Err(fault) => return Err(fault),
    }
    let done = check_write(&replies, 1, whole.len(), writes)
        .and_then(|()| if sets > 0 { sink.accept(replies.ok(1 + writes), entry).map(drop) } else { Ok(()) })
        .and_then(|()| replies.ok(1 + writes + sets));
    if done.is_err() {
        let _removed = remove_at(&sink.tree, &remote).await;
    }
    done?;
    sink.warn(entry);
    sink.set_security(entry).await?;
    Ok(true)
}

/// Checks that a write took all bytes.
pub(super) fn check_write(replies: &Replies, at: usize, len: usize, writes: usize) -> Result<(), Fault> {
    if writes > 0 && replies.written(at)? != len as u64 {
        return Err(Fault::Status(smb2::types::status::NtStatus::DISK_FULL));
    }
    Ok(())
}

/// Writes a staged file, checks it, and renames it.
async fn stage(
    sink: &SmbSink,
    part: &str,
    entry: &Arc<Entry>,
    data: &SliceData,
    whole: &[u8],
    replaces: bool,
) -> Result<(), Fault> {
    let mut at = 0;
    loop {
        let piece = &whole[at..whole.len().min(at + sink.tree.smb.server.most())];
        let open = if at == 0 {
            ChainStep::make_empty(part, WRITE)
        } else {
            ChainStep::open(part, OpenedKind::File, WRITE)
        };
        let mut chain = vec![open];
        if !piece.is_empty() {
            chain.push(ChainStep::write(at as u64, piece, sink.options.durable));
        }
        chain.push(ChainStep::close());
        let replies = sink.tree.run(&chain).await?;
        replies.opened()?;
        check_write(&replies, 1, piece.len(), usize::from(!piece.is_empty()))?;
        replies.all_ok()?;
        at += piece.len();
        if at >= whole.len() {
            break;
        }
    }
    if sink.options.verify_disk && read::staged(&sink.tree, part, entry.len, 0).await? != Some(data.value) {
        return Err(gave_back_other(sink, entry).into());
    }
    sink.publish(part, entry, replaces).await
}

/// The error of content that differs when it is read back.
pub(super) fn gave_back_other(sink: &SmbSink, entry: &Entry) -> Error {
    let cause = "the server gave back other content than was sent";
    sink.tree.fault(ErrorKind::Corrupt, "verify", &entry.path, cause)
}
