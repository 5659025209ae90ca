//! What is stored, in order, checked on its way.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::sync::atomic::Ordering;

use haul_core::{Error, ErrorKind, Result, Side};

use super::check::{Check, Checked};
use super::window::{Piece, Window};
use super::{GetStatus, Pieces};

/// The object as it is stored.
pub(super) struct Stored<'a> {
    window: &'a Window<'a>,
    /// Until all of it has come.
    check: Option<Check>,
    pub(super) name: &'a str,
    pub(super) status: &'a GetStatus,
    pub(super) checked: &'a Cell<Option<Checked>>,
    piece: Piece,
    /// The buffer of the piece that is read, and how much of it was.
    at: (usize, usize),
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
        Self { window, check: Some(check), name, status, checked, piece: Piece::new(), at: (0, 0) }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// If it cannot be fetched, or what came is not what is recorded.
    fn next_piece(&mut self) -> Result<Option<Piece>> {
        self.status.waits.store(true, Ordering::Relaxed);
        let piece = self.window.next()?;
        self.status.waits.store(false, Ordering::Relaxed);
        match (&piece, &mut self.check) {
            (Some(piece), Some(check)) => {
                for buffer in piece {
                    check.update(buffer.bytes());
                    self.status.written.fetch_add(buffer.bytes().len() as u64, Ordering::Relaxed);
                }
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
    type Piece = Piece;

    fn next(&mut self) -> Result<Option<Piece>> {
        self.next_piece()
    }

    fn checked(&mut self) -> Result<Checked> {
        let lost = || Error::new(ErrorKind::Io, Side::Local, "verify", "its end was not seen").on(self.name);
        self.checked.get().ok_or_else(lost)
    }
}

impl BufRead for Stored<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let bytes = |piece: &Piece, (buffer, at): (usize, usize)| {
            piece.get(buffer).map_or(0, |buffer| buffer.bytes().len() - at)
        };
        while bytes(&self.piece, self.at) == 0 {
            if self.at.0 + 1 < self.piece.len() {
                self.at = (self.at.0 + 1, 0);
                continue;
            }
            // Its buffers go back before others are waited for.
            (self.piece, self.at) = (Piece::new(), (0, 0));
            match self.next_piece() {
                Ok(Some(piece)) => self.piece = piece,
                Ok(None) => return Ok(&[]),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(&self.piece[self.at.0].bytes()[self.at.1..])
    }

    fn consume(&mut self, len: usize) {
        self.at.1 += len;
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
