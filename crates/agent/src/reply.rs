//! The answer to a request: exactly one, from whichever thread has it.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use haul_codec::SendingBatch;
use haul_core::sink::ArrivingContent;
use haul_core::{Buffer, Error, ErrorKind, Result, Side, SliceData};
use haul_transport::{FrameWriter, Liveness, SharedWriter, Transmit};
use haul_wire::{FrameKind, Response, encode};

/// Content of a response, until it is written.
#[derive(Default)]
pub(crate) struct OutgoingContent {
    pub(crate) content: Buffer,
    /// Dropped when the content was written, which measures the time that sending took.
    pub(crate) sending: Option<SendingBatch>,
}

/// A message to the thread that writes.
pub(crate) enum OutMessage {
    Frame(Vec<u8>, Option<OutgoingContent>),
    End,
}

/// The responses of one connection that wait to be written. Adding one never waits for the network, as the threads of
/// sinks add them. Slices that are read while they are sent do not wait here.
pub(crate) struct Outbox {
    pub(crate) liveness: Arc<Liveness>,
    out: Sender<OutMessage>,
    /// The writing direction of the connection.
    pub(crate) writer: SharedWriter,
}

impl Outbox {
    /// An outbox, and the end that the writing thread takes from.
    pub(crate) fn new(to: Transmit) -> (Arc<Self>, Receiver<OutMessage>) {
        let (out, from) = unbounded();
        let liveness = Arc::<Liveness>::default();
        let writer = SharedWriter::new(Box::new(FrameWriter::new(to, liveness.clone())));
        (Arc::new(Self { liveness, out, writer }), from)
    }

    /// Adds a message. On a dead connection it is dropped.
    pub(crate) fn send(&self, out: OutMessage) {
        let _ = self.out.send(out);
    }

    /// Ends both threads of the connection.
    pub(crate) fn end(&self) {
        self.liveness.end();
        self.send(OutMessage::End);
    }

    fn is_ended(&self) -> bool {
        self.liveness.is_ended()
    }
}

/// The duty to answer one request. If it is dropped without an answer, the request fails.
pub(crate) struct ReplyDuty {
    /// `None` once it was answered.
    to: Option<Arc<Outbox>>,
    id: u64,
}

impl ReplyDuty {
    pub(crate) fn new(to: Arc<Outbox>, id: u64) -> Self {
        Self { to: Some(to), id }
    }

    /// The number of the request.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether the connection has ended, so that nobody would get the answer.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.to.as_ref().is_none_or(|to| to.is_ended())
    }

    /// Answers.
    pub(crate) fn send(self, response: &Response) {
        self.send_with(response, OutgoingContent::default());
    }

    /// Answers with content.
    pub(crate) fn send_with(self, response: &Response, content: OutgoingContent) {
        let len = content.content.bytes().len();
        let (frame, content) = match encode(FrameKind::Response, self.id, response, len) {
            Ok(frame) => (frame, (len > 0).then_some(content)),
            Err(_) => match encode(FrameKind::Response, self.id, &Response::TooLarge, 0) {
                Ok(frame) => (frame, None),
                Err(_) => return,
            },
        };
        self.send_out(frame, content);
    }

    /// Answers with the content of one slice that is read while it is sent, on this thread. `false` if it cannot be sent so: then
    /// nothing was read.
    ///
    /// # Errors
    /// If the slice cannot be read to its end: then the answer had no proof.
    pub(crate) fn send_passing(
        &mut self,
        slices: &[Result<SliceData>],
        content: &mut dyn ArrivingContent,
    ) -> Result<bool> {
        let len = slices.iter().flatten().map(SliceData::data_len).sum::<u64>() as usize;
        let (packing, ended, proof_follows) = (None, None, true);
        let response = Response::Read { slices: slices.to_vec(), packing, ended, proof_follows };
        let Ok(head) = encode(FrameKind::Response, self.id, &response, len) else { return Ok(false) };
        let Some(to) = self.to.take() else { return Ok(true) };
        let mut failed = None;
        if to.writer.pass(&head, content, len, &mut |error| failed = Some(error)).is_err() {
            to.end();
        }
        failed.map_or(Ok(true), Err)
    }

    /// Answers with a frame that was encoded before.
    pub(crate) fn send_frame(self, frame: &[u8]) {
        let mut frame = frame.to_vec();
        if haul_wire::set_id(&mut frame, self.id).is_ok() {
            self.send_out(frame, None);
        }
    }

    fn send_out(mut self, frame: Vec<u8>, content: Option<OutgoingContent>) {
        if let Some(to) = self.to.take()
            && !to.is_ended()
        {
            to.send(OutMessage::Frame(frame, content));
        }
    }
}

impl Drop for ReplyDuty {
    fn drop(&mut self) {
        if let Some(to) = self.to.take().filter(|to| !to.is_ended()) {
            let error = Error::new(ErrorKind::Io, Side::Local, "carry out a request", "the far haul failed");
            let response = Response::Failed(error);
            if let Ok(frame) = encode(FrameKind::Response, self.id, &response, 0) {
                to.send(OutMessage::Frame(frame, None));
            }
        }
    }
}
