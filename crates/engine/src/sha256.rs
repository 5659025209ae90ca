//! SHA-256 of files whose BLAKE3 digest is known.

use haul_core::{Digest, Error, RelPath, Result, Side, Source};
use haul_spool::Spool;

use crate::answers::one_each;
use crate::cancel::Cancel;

/// The number of files in one request.
const PER_REQUEST: usize = 256;

/// Hashes files of `end` and calls `tell` with each: the SHA-256 of the content that has the known BLAKE3 digest, or
/// `None` if the file has other content by now or cannot be read.
///
/// # Errors
/// `Io` if the list cannot be read; `Cancelled`; the error of an end that does not answer.
pub fn sha256(
    end: &dyn Source,
    files: &Spool<(RelPath, Digest)>,
    tell: &mut dyn FnMut(&RelPath, Option<Digest>),
    cancel: &Cancel,
) -> Result<()> {
    let mut failure = Ok(());
    let read = files.forwards(|files: Vec<(RelPath, Digest)>| -> std::io::Result<()> {
        for files in files.chunks(PER_REQUEST) {
            if failure.is_ok() {
                failure = hash(end, files, tell, cancel);
            }
        }
        Ok(())
    });
    read.map_err(|error| Error::list("verified files", &error))?;
    failure
}

fn hash(
    end: &dyn Source,
    files: &[(RelPath, Digest)],
    tell: &mut dyn FnMut(&RelPath, Option<Digest>),
    cancel: &Cancel,
) -> Result<()> {
    if cancel.is_cancelled() {
        return Err(Error::new(haul_core::ErrorKind::Cancelled, Side::Local, "hash", "interrupted"));
    }
    let paths: Vec<RelPath> = files.iter().map(|(path, _)| path.clone()).collect();
    let found = one_each(end.sha256(&paths)?, paths.len(), Side::Wire, "hash")?;
    for ((path, known), found) in files.iter().zip(found) {
        let found = found.ok().filter(|found| found.blake3 == *known);
        tell(path, found.map(|found| Digest(found.sha256)));
    }
    Ok(())
}
