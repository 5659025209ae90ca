//! Makes an index of a stream while it passes.

use crate::build::{Builder, Step};
use crate::index::{Fault, Format};
use crate::record::decode;
use crate::tar::{BLOCK, Tar, is_header};
use crate::xbstream::{FIXED, MAGIC, Xbstream};

/// Recognises the format of a stream, and notes its members.
pub struct Scanner {
    decoder: Decoder,
    builder: Builder,
    step: Step,
    /// Bytes of the present [`Step::Gather`].
    gathered: Vec<u8>,
    /// The length of the stream so far.
    at: u64,
    fault: Option<Fault>,
}

enum Decoder {
    Unknown,
    Xbstream(Xbstream),
    Tar(Box<Tar>),
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            decoder: Decoder::Unknown,
            builder: Builder::new(),
            step: Step::Gather(FIXED),
            gathered: Vec::new(),
            at: 0,
            fault: None,
        }
    }
}

impl Scanner {
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
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// The compressed index of the stream, which is stored in frames of these lengths if it is compressed.
    ///
    /// # Errors
    /// Why there is none.
    pub fn finish(self, frames: &[u32]) -> Result<Vec<u8>, Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let cut_off = !self.gathered.is_empty() || !matches!(self.step, Step::Gather(_));
        match &self.decoder {
            Decoder::Unknown => return Err(Fault::Unknown),
            Decoder::Xbstream(decoder) => decoder.end(self.at, cut_off)?,
            Decoder::Tar(decoder) => decoder.end(self.at)?,
        }
        let packed = self.builder.finish(self.at, frames)?;
        // Checks that the index can be read.
        decode(&packed).map_err(|why| Fault::Damaged(0, why))?;
        Ok(packed)
    }

    /// Takes some bytes of the present step.
    fn advance(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        match &mut self.step {
            Step::Gather(wanted) => {
                let len = wanted.saturating_sub(self.gathered.len()).min(bytes.len());
                self.gathered.extend_from_slice(&bytes[..len]);
                Ok(len)
            }
            Step::Payload(payload) => self.builder.take(payload, self.at, bytes),
            Step::Skip(left) => {
                let len = (*left).min(bytes.len() as u64);
                *left -= len;
                Ok(len as usize)
            }
        }
    }

    /// Decodes all complete parts, until a step needs more bytes.
    fn settle(&mut self) -> Result<(), Fault> {
        loop {
            let next = match &mut self.step {
                Step::Gather(wanted) if self.gathered.len() < *wanted => return Ok(()),
                Step::Gather(_) => self.decode()?,
                Step::Payload(payload) => {
                    if !payload.is_over() {
                        return Ok(());
                    }
                    let crc = payload.crc;
                    match &mut self.decoder {
                        Decoder::Xbstream(decoder) => decoder.payload_over(crc, self.at)?,
                        Decoder::Tar(decoder) => decoder.payload_over(&mut self.builder)?,
                        Decoder::Unknown => return Err(Fault::Unknown),
                    }
                }
                Step::Skip(left) if *left > 0 => return Ok(()),
                Step::Skip(_) => match &self.decoder {
                    Decoder::Xbstream(_) => Step::Gather(FIXED),
                    Decoder::Tar(_) => Step::Gather(BLOCK),
                    Decoder::Unknown => return Err(Fault::Unknown),
                },
            };
            self.step = next;
        }
    }

    /// Decodes the gathered bytes.
    fn decode(&mut self) -> Result<Step, Fault> {
        if matches!(self.decoder, Decoder::Unknown) {
            if self.gathered.starts_with(MAGIC) {
                self.builder.format(Format::Xbstream)?;
                self.decoder = Decoder::Xbstream(Xbstream::default());
            } else if self.gathered.len() < BLOCK {
                return Ok(Step::Gather(BLOCK));
            } else if is_header(&self.gathered) {
                self.builder.format(Format::Tar)?;
                self.decoder = Decoder::Tar(Box::default());
            } else {
                return Err(Fault::Unknown);
            }
        }
        let gathered = std::mem::take(&mut self.gathered);
        match &mut self.decoder {
            Decoder::Xbstream(decoder) => decoder.decode(&gathered, self.at, &mut self.builder),
            Decoder::Tar(decoder) => decoder.decode(&gathered, self.at, &mut self.builder),
            Decoder::Unknown => Err(Fault::Unknown),
        }
    }
}
