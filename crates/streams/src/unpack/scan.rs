//! Reads a whole stream to find its members.

use std::io::Read;

use haul_core::{Error, Result, Side};
use haul_members::{IndexFault, Scanner};

use crate::get::{ContentOutput, Got};

/// Bytes scanned at once, while they are in the cache of the CPU.
const PIECE: usize = 256 << 10;

/// Scans the stream that `read` writes to its output. `read` also verifies it.
///
/// # Errors
/// That of reading the stream.
pub(super) fn scan(read: impl FnOnce(ContentOutput) -> Result<Got>) -> Result<(Scanner, Got)> {
    let failed = |error: &std::io::Error| Error::io(Side::Local, "scan the stream", error);
    let (mut reader, writer) = std::io::pipe().map_err(|error| failed(&error))?;
    let scanning = move || {
        let (mut scanner, mut piece) = (Scanner::default(), vec![0; PIECE]);
        // A stream without an index need not be read to its end.
        while scanner.fault().is_none() {
            let len = reader.read(&mut piece).map_err(|error| failed(&error))?;
            if len == 0 {
                break;
            }
            scanner.push(&piece[..len]);
        }
        Ok(scanner)
    };
    std::thread::scope(|scope| {
        let scanning = haul_threads::spawn(scope, "scan", scanning)?;
        let got = read(ContentOutput::open(writer.into()));
        let scanner = haul_threads::join(scanning)?;
        Ok((scanner?, got?))
    })
}

/// The error of a stream that cannot be unpacked.
pub(super) fn refused(fault: &IndexFault, name: &str) -> Error {
    use haul_core::ErrorKind::{Corrupt, Unsupported, Usage};
    let kind = match fault {
        IndexFault::Unknown => Usage,
        IndexFault::Damaged(..) => Corrupt,
        IndexFault::Unsupported(..) | IndexFault::TooMany => Unsupported,
    };
    let error = Error::new(kind, Side::Source, "find the members of", fault.to_string()).on(name);
    match fault {
        IndexFault::Unknown => error.with_hint(
            "haul unpacks streams of xbstream and tar; decompress another one first: `gzip -dc FILE | haul get - --unpack \
             DIR`",
        ),
        IndexFault::Damaged(..) => error.with_hint("nothing was unpacked"),
        _ => error.with_hint("`haul get SRC | mbstream -x` or `tar -x` unpacks it"),
    }
}
