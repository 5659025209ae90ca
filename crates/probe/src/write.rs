//! How fast a destination takes content.
//!
//! What is written has no name where the file system can do that, else a staging name that is taken away before the
//! first byte is written: whatever ends the process ends the files too. Only the small files of the last measurement
//! have names, for the moment in which each of them exists; the next probe takes away what a kill in that moment leaves.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use haul_core::probe::{Space, WriteFigures};
use rustix::fs::{Mode, OFlags, fdatasync};

use crate::{cpu, facts, per_second};

/// How long content is written, and how long small files are made.
const TIME: Duration = Duration::from_millis(1500);
/// Bytes that are written at most.
const MOST: u64 = 256 * 1024 * 1024;
/// Bytes between two syncs at most: what a copy collects in a group is of this order.
const GROUP: u64 = 64 * 1024 * 1024;
/// Bytes written at once.
const PIECE: usize = 4 * 1024 * 1024;
/// Small files that are made at once.
const THREADS: u64 = 8;
/// Bytes in a small file.
const SMALL: usize = 4096;
/// Small files that one thread makes at most, one after the other under the same name.
const FILES: u64 = 2000;

/// Writes in `folder`, which exists.
#[must_use]
pub fn measure(folder: &Path) -> WriteFigures {
    let cpu = cpu::measure(&[], false);
    match try_measure(folder) {
        Ok(figures) => WriteFigures { cpu, ..figures },
        Err(why) => WriteFigures { skipped: Some(why), cpu, ..WriteFigures::default() },
    }
}

fn try_measure(folder: &Path) -> Result<WriteFigures, String> {
    let failed = |error: io::Error| format!("writing in `{}` failed: {error}", folder.display());
    let space = facts::space(folder).ok_or_else(|| format!("nothing is known of `{}`", folder.display()))?;
    let most = may_write(&space)
        .ok_or_else(|| format!("less than a tenth of the file system at `{}` is free", folder.display()))?;
    let file = nameless(folder).map_err(failed)?;
    let bytes_per_second = content(&file, most).map_err(failed)?;
    let sync_micros = sync(&file).map_err(failed)?;
    drop(file);
    let files_per_second = small(folder).map_err(failed)?;
    Ok(WriteFigures {
        skipped: None,
        bytes_per_second,
        files_per_second,
        sync_micros: Some(sync_micros),
        cpu: haul_core::probe::CpuFigures::default(),
    })
}

/// Bytes that may be written: nothing where less than a tenth is free, and never more than a tenth of what is.
fn may_write(space: &Space) -> Option<u64> {
    (space.free_bytes >= space.bytes / 10).then(|| MOST.min(space.free_bytes / 10))
}

/// A file that is gone when it is closed.
fn nameless(folder: &Path) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(folder, flags | OFlags::TMPFILE, mode) {
        return Ok(file.into());
    }
    let path = folder.join(staging_name(THREADS));
    remove(&path)?;
    let file = rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
    remove(&path)?;
    Ok(file.into())
}

/// Removes a file that may be gone already.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A name like those of staged files. Theirs come from a digest, so none of a file to be copied is like it; and it is the
/// same each time, so that a probe takes away what one that was killed has left.
fn staging_name(number: u64) -> String {
    format!(".haul-{number:016x}.part")
}

/// Writes in growing groups, each synced, until the time is up: the larger ones count.
fn content(file: &File, most: u64) -> io::Result<Option<u64>> {
    let mut piece = vec![0; PIECE];
    crate::fill_random(&mut piece, 2);
    let begun = Instant::now();
    let (mut at, mut group) = (0, 1024 * 1024);
    let (mut bytes, mut seconds) = (0, 0.0);
    while at + group <= most && begun.elapsed() < TIME {
        let started = Instant::now();
        let end = at + group;
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            file.write_all_at(&piece[..len], at)?;
            at += len as u64;
        }
        fdatasync(file)?;
        // The first groups tell how long a sync takes, the later ones how fast the disk is.
        if group <= 8 * 1024 * 1024 {
            (bytes, seconds) = (0, 0.0);
        }
        bytes += group;
        seconds += started.elapsed().as_secs_f64();
        group = (group * 2).min(GROUP);
    }
    Ok(per_second(bytes, seconds))
}

/// Microseconds that the sync of a page takes: the middle one of some.
fn sync(file: &File) -> io::Result<u64> {
    let mut times = Vec::new();
    let begun = Instant::now();
    while times.len() < 9 && begun.elapsed() < TIME / 2 {
        let started = Instant::now();
        file.write_all_at(&[1; SMALL], 0)?;
        fdatasync(file)?;
        times.push(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied().unwrap_or(0))
}

/// Makes, writes and removes small files: making and removing one are two changes of the folder, as making and
/// renaming it are in a copy.
fn small(folder: &Path) -> io::Result<Option<u64>> {
    let made = AtomicU64::new(0);
    let begun = Instant::now();
    let work = |thread: u64| -> io::Result<()> {
        let path = folder.join(staging_name(thread));
        // What a probe that was killed has left.
        remove(&path)?;
        for _ in 0..FILES {
            if begun.elapsed() >= TIME {
                break;
            }
            let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
            let file = File::from(rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?);
            let written = file.write_all_at(&[1; SMALL], 0);
            drop(file);
            remove(&path)?;
            written?;
            made.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let ended = std::thread::scope(|scope| {
        let others: Vec<_> = (1..THREADS)
            .filter_map(|thread| std::thread::Builder::new().spawn_scoped(scope, move || work(thread)).ok())
            .collect();
        let mut ended = work(0);
        for other in others {
            ended = ended.and(other.join().unwrap_or(Ok(())));
        }
        ended
    });
    ended?;
    Ok(per_second(made.into_inner(), begun.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(staging_name(3)), b"left by one that was killed").unwrap();
        let figures = measure(dir.path());
        assert_eq!(figures.skipped, None);
        assert!(figures.bytes_per_second.is_some() && figures.files_per_second.is_some(), "{figures:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told() {
        let figures = measure(Path::new("/proc"));
        assert!(figures.skipped.is_some() && figures.bytes_per_second.is_none(), "{figures:?}");
        assert!(figures.cpu.hash > 0);
    }

    #[test]
    fn a_full_file_system_is_spared() {
        let space = |free_bytes| Space { free_bytes, bytes: 1000 << 20, ..Space::default() };
        assert_eq!(may_write(&space(99 << 20)), None);
        assert_eq!(may_write(&space(200 << 20)), Some(20 << 20));
        assert_eq!(may_write(&Space { free_bytes: 1 << 50, bytes: 1 << 50, ..Space::default() }), Some(MOST));
    }
}
