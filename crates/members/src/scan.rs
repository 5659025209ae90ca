//! Makes an index of a stream while it passes.

use crate::build::{IndexBuilder, ScanStep};
use crate::index::{IndexFault, StreamFormat};
use crate::record::decode;
use crate::tar::{BLOCK, Tar, is_header};
use crate::watch::MemberWatch;
use crate::xbstream::{FIXED, MAGIC, Xbstream};

/// Recognises the format of a stream, and notes its members.
pub struct Scanner {
    decoder: FormatDecoder,
    builder: IndexBuilder,
    step: ScanStep,
    /// Bytes of the present [`ScanStep::Gather`].
    gathered: Vec<u8>,
    /// The length of the stream so far.
    at: u64,
    fault: Option<IndexFault>,
}

enum FormatDecoder {
    Unknown,
    Xbstream(Xbstream),
    Tar(Box<Tar>),
}

impl Default for Scanner {
    fn default() -> Self {
        Self::with(None)
    }
}

impl Scanner {
    /// Shows the members to `watch`, if there is one.
    #[must_use]
    pub fn with(watch: Option<Box<dyn MemberWatch>>) -> Self {
        Self {
            decoder: FormatDecoder::Unknown,
            builder: IndexBuilder::new(watch),
            step: ScanStep::Gather(FIXED),
            gathered: Vec::new(),
            at: 0,
            fault: None,
        }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.fault.is_none() {
            match self.advance(bytes) {
                Ok(taken) => {
                    bytes = &bytes[taken..];
                    self.at += taken as u64;
                    self.fault = self.settle().err();
                }
                Err(fault) => self.fault = Some(fault),
            }
        }
    }

    /// Why there will be no index, if that is known already.
    #[must_use]
    pub fn fault(&self) -> Option<&IndexFault> {
        self.fault.as_ref()
    }

    /// Whether the format of the stream is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !matches!(self.decoder, FormatDecoder::Unknown)
    }

    /// Checks that the stream may end here.
    ///
    /// # Errors
    /// Why it is incomplete, or the fault that is known already.
    pub fn check_end(&self) -> Result<(), IndexFault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let cut_off = !self.gathered.is_empty() || !matches!(self.step, ScanStep::Gather(_));
        match &self.decoder {
            FormatDecoder::Unknown => Err(IndexFault::Unknown),
            FormatDecoder::Xbstream(decoder) => decoder.end(self.at, cut_off),
            FormatDecoder::Tar(decoder) => decoder.end(self.at),
        }
    }

    /// The compressed index of the stream, which is stored in frames of these lengths if it is compressed.
    ///
    /// # Errors
    /// Why there is none.
    pub fn finish(self, frames: &[u32]) -> Result<Vec<u8>, IndexFault> {
        self.check_end()?;
        let packed = self.builder.finish(self.at, frames)?;
        // Checks that the index can be read.
        decode(&packed).map_err(|why| IndexFault::Damaged(0, why))?;
        Ok(packed)
    }

    /// Takes some bytes of the present step.
    fn advance(&mut self, bytes: &[u8]) -> Result<usize, IndexFault> {
        match &mut self.step {
            ScanStep::Gather(wanted) => {
                let len = wanted.saturating_sub(self.gathered.len()).min(bytes.len());
                self.gathered.extend_from_slice(&bytes[..len]);
                Ok(len)
            }
            ScanStep::Payload(payload) => self.builder.take(payload, self.at, bytes),
            ScanStep::Skip(left) => {
                let len = (*left).min(bytes.len() as u64);
                *left -= len;
                Ok(len as usize)
            }
        }
    }

    /// Decodes all complete parts, until a step needs more bytes.
    fn settle(&mut self) -> Result<(), IndexFault> {
        loop {
            let next = match &mut self.step {
                ScanStep::Gather(wanted) if self.gathered.len() < *wanted => return Ok(()),
                ScanStep::Gather(_) => self.decode()?,
                ScanStep::Payload(payload) => {
                    if !payload.is_over() {
                        return Ok(());
                    }
                    let crc = payload.crc;
                    match &mut self.decoder {
                        FormatDecoder::Xbstream(decoder) => decoder.payload_over(crc, self.at)?,
                        FormatDecoder::Tar(decoder) => decoder.payload_over(&mut self.builder)?,
                        FormatDecoder::Unknown => return Err(IndexFault::Unknown),
                    }
                }
                ScanStep::Skip(left) if *left > 0 => return Ok(()),
                ScanStep::Skip(_) => match &self.decoder {
                    FormatDecoder::Xbstream(_) => ScanStep::Gather(FIXED),
                    FormatDecoder::Tar(_) => ScanStep::Gather(BLOCK),
                    FormatDecoder::Unknown => return Err(IndexFault::Unknown),
                },
            };
            self.step = next;
        }
    }

    /// Decodes the gathered bytes.
    fn decode(&mut self) -> Result<ScanStep, IndexFault> {
        if matches!(self.decoder, FormatDecoder::Unknown) {
            if self.gathered.starts_with(MAGIC) {
                self.builder.format(StreamFormat::Xbstream)?;
                self.decoder = FormatDecoder::Xbstream(Xbstream::default());
            } else if self.gathered.len() < BLOCK {
                return Ok(ScanStep::Gather(BLOCK));
            } else if is_header(&self.gathered) {
                self.builder.format(StreamFormat::Tar)?;
                self.decoder = FormatDecoder::Tar(Box::default());
            } else {
                return Err(IndexFault::Unknown);
            }
        }
        let gathered = std::mem::take(&mut self.gathered);
        match &mut self.decoder {
            FormatDecoder::Xbstream(decoder) => decoder.decode(&gathered, self.at, &mut self.builder),
            FormatDecoder::Tar(decoder) => decoder.decode(&gathered, self.at, &mut self.builder),
            FormatDecoder::Unknown => Err(IndexFault::Unknown),
        }
    }
}
