//! The stored bytes of an object in order, checked as they pass.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::sync::atomic::Ordering;

use haul_core::{Buffer, Error, ErrorKind, Result, Side};

use super::check::{Check, CheckedBy};
use super::pieces::Pieces;
use super::settings::GetStatus;
use super::window::Window;

/// The stored bytes of an object.
pub(super) struct StoredBytes<'a> {
    window: &'a Window<'a>,
    /// Present until all bytes have passed.
    check: Option<Check>,
    pub(super) name: &'a str,
    pub(super) status: &'a GetStatus,
    pub(super) checked: &'a Cell<Option<CheckedBy>>,
    piece: Option<Buffer>,
    /// How much of the piece was read.
    at: usize,
}

impl<'a> StoredBytes<'a> {
    /// The bytes of `window`; at their end `checked` says how they were checked.
    pub(super) fn new(
        window: &'a Window<'a>,
        check: Check,
        name: &'a str,
        status: &'a GetStatus,
        checked: &'a Cell<Option<CheckedBy>>,
    ) -> Self {
        Self { window, check: Some(check), name, status, checked, piece: None, at: 0 }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// `Corrupt` if the check fails, else the error of the failed request.
    fn next_piece(&mut self) -> Result<Option<Buffer>> {
        self.status.waits.store(true, Ordering::Relaxed);
        let piece = self.window.next()?;
        self.status.waits.store(false, Ordering::Relaxed);
        match (&piece, &mut self.check) {
            (Some(piece), Some(check)) => {
                check.add(piece);
                self.status.written.fetch_add(piece.bytes().len() as u64, Ordering::Relaxed);
            }
            (None, check) => {
                if let Some(check) = check.take() {
                    self.checked.set(Some(check.finish(self.name)?));
                }
            }
            _ => {}
        }
        Ok(piece.map(|piece| piece.content))
    }
}

impl Pieces for StoredBytes<'_> {
    type Piece = Buffer;

    fn next(&mut self) -> Result<Option<Buffer>> {
        self.next_piece()
    }

    fn checked(&mut self) -> Result<CheckedBy> {
        let lost = || Error::new(ErrorKind::Io, Side::Local, "verify", "its end was not seen").on(self.name);
        self.checked.get().ok_or_else(lost)
    }
}

impl BufRead for StoredBytes<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.piece.as_ref().is_none_or(|piece| piece.bytes().len() == self.at) {
            // The buffer must return to the pool before the next piece is waited for.
            (self.piece, self.at) = (None, 0);
            self.piece = self.next_piece().map_err(io::Error::other)?;
        }
        Ok(self.piece.as_ref().map_or(&[], |piece| &piece.bytes()[self.at..]))
    }

    fn consume(&mut self, len: usize) {
        self.at += len;
    }
}

impl Read for StoredBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        self.consume(len);
        Ok(len)
    }
}
