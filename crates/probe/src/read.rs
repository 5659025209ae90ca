//! Measures how fast the files of a source are read from disk.
//!
//! The sample is dropped from the page cache first, except for dirty pages: most of a large tree is not cached when a
//! copy begins.

use haul_core::sync::Mutex;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haul_core::RelPath;
use haul_core::probe::{ReadFigures, ReadSample};
use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::Errno;

use crate::cpu;
use crate::rate::per_second;

/// The duration of reading large files, and of reading small ones.
const TIME: Duration = Duration::from_millis(1500);
/// Parallel reads, as in a copy.
const THREADS: usize = 8;
/// Bytes per read.
const PIECE: usize = 1024 * 1024;
/// Bytes of content that are kept to measure the CPU with.
const KEPT: usize = 24 * 1024 * 1024;
/// The most bytes of one part, whatever was requested.
const PART: u32 = 4 * 1024 * 1024;

/// Reads the samples below `root`, as many as time allows.
#[must_use]
pub fn measure(root: &Path, samples: &[ReadSample]) -> ReadFigures {
    let kept = Mutex::new(Vec::new());
    let (large, small): (Vec<&ReadSample>, Vec<&ReadSample>) =
        samples.iter().partition(|sample| !sample.small);
    let [large, small] = [large, small].map(|samples| phase(root, &samples, &kept));
    let kept = kept.into_inner();
    ReadFigures {
        sampled_bytes: large.bytes + small.bytes,
        bytes_per_second: per_second(large.bytes, large.seconds),
        files_per_second: per_second(small.files, small.seconds),
        cpu: cpu::measure(&kept, true),
    }
}

struct ReadPhase {
    bytes: u64,
    files: u64,
    seconds: f64,
}

fn phase(root: &Path, samples: &[&ReadSample], kept: &Mutex<Vec<Vec<u8>>>) -> ReadPhase {
    // Outside of the measurement: dropping a recently written file waits for the disk.
    for sample in samples {
        if let Ok(file) = open(root, &sample.path) {
            let _ = rustix::fs::fadvise(
                &file,
                sample.offset,
                u64::from(sample.len).try_into().ok(),
                Advice::DontNeed,
            );
        }
    }
    let (next, bytes, files) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    let work = || {
        let mut piece = vec![0; PIECE];
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            // The first one is always read: a host that stood still meanwhile has a rate too.
            let Some(sample) = samples.get(at).filter(|_| at == 0 || begun.elapsed() < TIME) else { return };
            let Ok(file) = open(root, &sample.path) else { continue };
            bytes.fetch_add(read(&file, sample, &mut piece, begun, kept), Ordering::Relaxed);
            files.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..THREADS.min(samples.len()) {
            // If a thread cannot be started, the others do its share.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    ReadPhase { bytes: bytes.into_inner(), files: files.into_inner(), seconds: begun.elapsed().as_secs_f64() }
}

/// Reads one part; stops early on a slow disk.
fn read(
    file: &File,
    sample: &ReadSample,
    piece: &mut [u8],
    begun: Instant,
    kept: &Mutex<Vec<Vec<u8>>>,
) -> u64 {
    let len = u64::from(sample.len.min(PART));
    let mut done = 0;
    while done < len && (done == 0 || begun.elapsed() < TIME * 2) {
        let want = usize::try_from(len - done).unwrap_or(PIECE).min(PIECE);
        match file.read_at(&mut piece[..want], sample.offset + done) {
            Ok(0) => break,
            Ok(n) => {
                keep(kept, &piece[..n]);
                done += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    done
}

fn keep(kept: &Mutex<Vec<Vec<u8>>>, bytes: &[u8]) {
    let mut kept = kept.lock();
    if kept.iter().map(Vec::len).sum::<usize>() + bytes.len() <= KEPT {
        kept.push(bytes.to_vec());
    }
}

/// Opens a file below the root without following symbolic links.
fn open(root: &Path, path: &RelPath) -> rustix::io::Result<File> {
    let Some((parents, name)) = split(path) else { return open_file(rustix::fs::CWD, root.as_os_str()) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = rustix::fs::open(root, flags, Mode::empty())?;
    for parent in parents {
        dir = rustix::fs::openat(&dir, OsStr::from_bytes(parent), flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    open_file(&dir, OsStr::from_bytes(name))
}

/// The directories of a path, and its last component; `None` for the root itself.
fn split(path: &RelPath) -> Option<(Vec<&[u8]>, &[u8])> {
    let mut parts: Vec<&[u8]> =
        path.as_bytes().split(|b| *b == b'/').filter(|part| !part.is_empty()).collect();
    let name = parts.pop()?;
    Some((parts, name))
}

/// Opens a regular file for reading, without updating its access time where that is allowed.
fn open_file(dir: impl AsFd, name: &OsStr) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    match rustix::fs::openat(&dir, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => regular(rustix::fs::openat(&dir, name, flags, Mode::empty())?),
        other => regular(other?),
    }
}

fn regular(file: OwnedFd) -> rustix::io::Result<File> {
    let file = File::from(file);
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(file),
        _ => Err(Errno::INVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(path: &str, len: u32, small: bool) -> ReadSample {
        ReadSample { path: RelPath::new(path.as_bytes()).unwrap(), offset: 0, len, small }
    }

    #[test]
    fn only_existing_files_below_the_root_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        std::fs::create_dir_all(root.join("d")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(root.join("d/large"), vec![1; 3_000_000]).unwrap();
        std::fs::write(root.join("small"), b"some text").unwrap();
        std::fs::write(outside.join("secret"), vec![2; 5000]).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        std::os::unix::fs::symlink(outside.join("secret"), root.join("d/link")).unwrap();
        let samples = [
            sample("d/large", PART, false),
            sample("link/secret", 5000, false),
            sample("d/link", 5000, true),
            sample("small", 9, true),
            sample("gone", 9, true),
        ];
        let figures = measure(&root, &samples);
        assert_eq!(figures.sampled_bytes, 3_000_009);
        assert!(figures.bytes_per_second.is_some() && figures.files_per_second.is_some());
        let one = measure(&root.join("small"), &[sample("", 9, true)]);
        assert_eq!(one.sampled_bytes, 9);
        assert_eq!(measure(&root, &[]).bytes_per_second, None);
    }
}
