//! A target of a stream, of either kind.

use std::sync::Arc;
use std::thread::Scope;

use haul_core::Result;

use super::cut::StreamPart;
use super::file::FileStream;
use super::settings::{PutSettings, PutStatus, PutTarget, StoredObject};
use super::target::ObjectStream;
use crate::encoding::Encoding;
use crate::sidecar::NewRecord;

/// A target while the stream is read.
pub(super) enum Upstream<'a> {
    Object(Box<ObjectStream<'a>>),
    File(FileStream<'a>),
}

impl<'a> Upstream<'a> {
    pub(super) fn new(
        target: &'a PutTarget,
        settings: &'a PutSettings,
        encoding: Encoding,
        status: &'a Arc<PutStatus>,
    ) -> Self {
        match target {
            PutTarget::Object(target) => {
                Self::Object(Box::new(ObjectStream::new(target, settings, encoding, status)))
            }
            PutTarget::File(target) => Self::File(FileStream::new(target, settings, status)),
        }
    }

    /// Whether it has failed; nothing more is sent then.
    pub(super) fn has_failed(&self) -> bool {
        match self {
            Self::Object(object) => object.has_failed(),
            Self::File(file) => file.has_failed(),
        }
    }

    /// Checks that the target may be written.
    pub(super) fn prepare(&mut self) {
        match self {
            Self::Object(object) => object.prepare(),
            Self::File(file) => file.prepare(),
        }
    }

    /// Begins a stream of several parts, unless it has begun.
    pub(super) fn begin<'scope>(&mut self, scope: &'scope Scope<'scope, '_>)
    where
        'a: 'scope,
    {
        match self {
            Self::Object(object) => object.begin(scope),
            Self::File(file) => file.begin(scope),
        }
    }

    /// Hands over a part; waits until a thread takes it.
    pub(super) fn feed(&mut self, part: &Arc<StreamPart>) {
        match self {
            Self::Object(object) => object.feed(Arc::clone(part)),
            Self::File(file) => file.feed(part),
        }
    }

    /// There are no more parts.
    pub(super) fn close(&mut self) {
        match self {
            Self::Object(object) => object.close(),
            Self::File(file) => file.close(),
        }
    }

    /// The input has failed: content on its way is not wanted any more.
    pub(super) fn stop(&self) {
        match self {
            Self::Object(object) => object.stop(),
            Self::File(file) => file.stop(),
        }
    }

    /// Takes the whole stream, which is one part and known to be complete.
    pub(super) fn write_whole(&mut self, part: &Arc<StreamPart>, recorded: &NewRecord, len: u64) {
        match self {
            Self::Object(object) => object.write_whole(&part.payload, recorded, len),
            Self::File(file) => file.feed(part),
        }
    }

    /// Completes the target of a complete input, and writes the index of its members beside it.
    ///
    /// # Errors
    /// The first error of a part, or that of the completion.
    pub(super) fn commit(
        self,
        recorded: &NewRecord,
        (len, crc64): (u64, u64),
        index: Option<&[u8]>,
    ) -> Result<StoredObject> {
        match self {
            Self::Object(object) => object.commit(recorded, (len, crc64), index),
            Self::File(file) => file.commit(len, index),
        }
    }

    /// The input was incomplete: nothing of it stays, unless a later run is to go on and so it `keeps` that.
    pub(super) fn give_up(self, keeps: bool) -> Option<Result<StoredObject>> {
        match self {
            Self::Object(object) => object.give_up(keeps),
            Self::File(file) => file.give_up(keeps),
        }
    }
}
