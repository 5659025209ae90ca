//! What is stored, in order, checked on its way.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::sync::atomic::Ordering;

use haul_core::{Buffer, Error, ErrorKind, Result, Side};

use super::check::{Check, Checked};
use super::window::Window;
use super::{GetStatus, Pieces};

/// The object as it is stored.
pub(super) struct Stored<'a> {
    window: &'a Window<'a>,
    /// Until all of it has come.
    check: Option<Check>,
    pub(super) name: &'a str,
    pub(super) status: &'a GetStatus,
    pub(super) checked: &'a Cell<Option<Checked>>,
    piece: Option<Buffer>,
    /// How much of the piece was read.
    at: usize,
}

impl<'a> Stored<'a> {
    /// What comes through `window`; at its end `checked` says how it was checked.
    pub(super) fn new(
        window: &'a Window<'a>,
        check: Check,
        name: &'a str,
        status: &'a GetStatus,
        checked: &'a Cell<Option<Checked>>,
    ) -> Self {
        Self { window, check: Some(check), name, status, checked, piece: None, at: 0 }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// If it cannot be fetched, or what came is not what is recorded.
    fn next_piece(&mut self) -> Result<Option<Buffer>> {
        self.status.waits.store(true, Ordering::Relaxed);
        let piece = self.window.next()?;
        self.status.waits.store(false, Ordering::Relaxed);
        match (&piece, &mut self.check) {
            (Some(piece), Some(check)) => {
                check.update(piece.bytes());
                self.status.written.fetch_add(piece.bytes().len() as u64, Ordering::Relaxed);
            }
            (None, check) => {
                if let Some(check) = check.take() {
                    self.checked.set(Some(check.finish(self.name)?));
                }
            }
            _ => {}
        }
        Ok(piece)
    }
}

impl Pieces for Stored<'_> {
    type Piece = Buffer;

    fn next(&mut self) -> Result<Option<Buffer>> {
        self.next_piece()
    }

    fn checked(&mut self) -> Result<Checked> {
        let lost = || Error::new(ErrorKind::Io, Side::Local, "verify", "its end was not seen").on(self.name);
        self.checked.get().ok_or_else(lost)
    }
}

impl BufRead for Stored<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.piece.as_ref().is_none_or(|piece| piece.bytes().len() == self.at) {
            // Its buffer goes back before another is waited for.
            (self.piece, self.at) = (None, 0);
            self.piece = self.next_piece().map_err(io::Error::other)?;
        }
        Ok(self.piece.as_ref().map_or(&[], |piece| &piece.bytes()[self.at..]))
    }

    fn consume(&mut self, len: usize) {
        self.at += len;
    }
}

impl Read for Stored<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        self.consume(len);
        Ok(len)
    }
}
