//! Lists of records that end with newline or NUL, each of bounded length, from a file or standard input.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;

use haul_core::{Error, Result, Side};

use super::errors::of_option;
use crate::standard_streams;

/// The end of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    /// A newline.
    Newline,
    /// A newline, a carriage return, or both, as in rsync's lists.
    AnyLineEnd,
    /// A NUL byte.
    Nul,
}

impl Separator {
    fn ends_at(self, byte: u8) -> bool {
        match self {
            Self::Newline => byte == b'\n',
            Self::AnyLineEnd => matches!(byte, b'\n' | b'\r'),
            Self::Nul => byte == 0,
        }
    }
}

/// The records of a list without empty ones.
pub(crate) struct ListRecords<R> {
    reader: R,
    separator: Separator,
    limit: usize,
    /// Reading has failed: it would fail for ever.
    ended: bool,
}

impl<R: BufRead> ListRecords<R> {
    /// Records of at most `limit` bytes.
    pub(crate) fn new(reader: R, separator: Separator, limit: usize) -> Self {
        Self { reader, separator, limit, ended: false }
    }

    /// The next record, possibly empty; `None` at the end. Skips a record that is too long, and returns an error.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let separator = self.separator;
        let (mut record, mut too_long, mut any) = (Vec::new(), false, false);
        loop {
            let chunk = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                chunk => chunk?,
            };
            if chunk.is_empty() {
                break;
            }
            any = true;
            let end = chunk.iter().position(|byte| separator.ends_at(*byte));
            let part = &chunk[..end.unwrap_or(chunk.len())];
            too_long |= record.len() + part.len() > self.limit;
            if !too_long {
                record.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(end.is_some());
            self.reader.consume(taken);
            if end.is_some() {
                break;
            }
        }
        if too_long {
            let text = format!("a line is longer than {} bytes", self.limit);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(any.then_some(record))
    }
}

impl<R: BufRead> Iterator for ListRecords<R> {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.read() {
                Ok(None) => return None,
                Ok(Some(record)) if record.is_empty() => {}
                Ok(Some(record)) => return Some(Ok(record)),
                Err(error) => {
                    self.ended = error.kind() != io::ErrorKind::InvalidData;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Opens a list; `-` is standard input.
///
/// # Errors
/// If it cannot be opened.
pub(crate) fn open_list(name: &OsStr) -> Result<Box<dyn BufRead + Send>> {
    if name == "-" {
        let input = standard_streams::input();
        let input =
            input.map_err(|error| of_option(Error::io(Side::Local, "read standard input", &error)))?;
        return Ok(Box::new(BufReader::new(File::from(input))));
    }
    let failed = |error: io::Error| {
        let failed = of_option(Error::io(Side::Local, "open the list", &error).on(name.as_bytes()));
        if !name.as_bytes().contains(&b':') {
            return failed;
        }
        failed.with_hint(
            "lists are files of this machine; `-` reads one from standard input, as of `ssh HOST cat FILE`",
        )
    };
    let file = File::open(name).map_err(failed)?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    Ok(Box::new(BufReader::new(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], separator: Separator) -> Vec<Vec<u8>> {
        ListRecords::new(text, separator, 5).map(|record| record.unwrap_or(b"ERROR".to_vec())).collect()
    }

    #[test]
    fn records_end_at_their_separator() {
        assert_eq!(read(b"a\r\n\nb\rc", Separator::AnyLineEnd), [b"a", b"b", b"c"]);
        assert_eq!(read(b"a\rb\nc\n", Separator::Newline), [&b"a\rb"[..], b"c"]);
        assert_eq!(read(b"a\nb\0\0c\0", Separator::Nul), [&b"a\nb"[..], b"c"]);
    }

    #[test]
    fn a_long_record_is_an_error_and_skipped() {
        assert_eq!(read(b"12345\n123456\nx", Separator::Newline), [&b"12345"[..], b"ERROR", b"x"]);
    }
}
