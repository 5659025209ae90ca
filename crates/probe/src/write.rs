//! Measures how fast a destination is written.
//!
//! The files are unlinked where the file system supports that; elsewhere their staging name is removed before the first
//! byte is written. Either way they vanish with the process. Only the small files of the last measurement have names,
//! each for the moment of its existence; the next probe removes the files that a kill in that moment leaves.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use haul_core::probe::{Space, WriteFigures};
use rustix::fs::{Mode, OFlags, fdatasync};

use crate::random::fill_random;
use crate::rate::per_second;
use crate::{cpu, facts};

/// The duration of writing content, and of creating small files.
const TIME: Duration = Duration::from_millis(1500);
/// The most bytes that are written.
const MOST: u64 = 256 * 1024 * 1024;
/// The most bytes between two syncs, similar to a group commit of a copy.
const GROUP: u64 = 64 * 1024 * 1024;
/// Bytes per write.
const PIECE: usize = 4 * 1024 * 1024;
/// Small files that are created in parallel.
const THREADS: u64 = 8;
/// Bytes in a small file.
const SMALL: usize = 4096;
/// The most small files of one thread, one after the other under the same name.
const FILES: u64 = 2000;

/// Writes in `directory`, which exists.
#[must_use]
pub fn measure(directory: &Path) -> WriteFigures {
    let cpu = cpu::measure(&[], false);
    match try_measure(directory) {
        Ok(figures) => WriteFigures { cpu, ..figures },
        Err(why) => WriteFigures { skipped: Some(why), cpu, ..WriteFigures::default() },
    }
}

fn try_measure(directory: &Path) -> Result<WriteFigures, String> {
    let failed = |error: io::Error| format!("writing in `{}` failed: {error}", directory.display());
    let space =
        facts::space(directory).ok_or_else(|| format!("nothing is known of `{}`", directory.display()))?;
    let most = may_write(&space).ok_or_else(|| {
        format!("less than a tenth of the file system at `{}` is free", directory.display())
    })?;
    let file = nameless(directory).map_err(failed)?;
    let bytes_per_second = content(&file, most).map_err(failed)?;
    let sync_micros = sync(&file).map_err(failed)?;
    drop(file);
    let files_per_second = small(directory).map_err(failed)?;
    Ok(WriteFigures {
        skipped: None,
        bytes_per_second,
        files_per_second,
        sync_micros: Some(sync_micros),
        cpu: haul_core::probe::CpuFigures::default(),
    })
}

/// The bytes that may be written: a tenth of the free space, and none if less than a tenth of the disk is free.
fn may_write(space: &Space) -> Option<u64> {
    (space.free_bytes >= space.bytes / 10).then(|| MOST.min(space.free_bytes / 10))
}

/// A file that vanishes when it is closed.
fn nameless(directory: &Path) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(directory, flags | OFlags::TMPFILE, mode) {
        return Ok(file.into());
    }
    let path = directory.join(staging_name(THREADS));
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

/// A name like those of staged files, but not derived from a digest, so that it collides with none. It is constant, so
/// that a probe removes the file that a killed probe has left.
fn staging_name(number: u64) -> String {
    format!(".haul-{number:016x}.part")
}

/// Writes and syncs growing groups until the time is up; the larger ones count.
fn content(file: &File, most: u64) -> io::Result<Option<u64>> {
    let mut piece = vec![0; PIECE];
    fill_random(&mut piece, 2);
    let begun = Instant::now();
    let (mut at, mut group) = (0, 1024 * 1024);
    let (mut bytes, mut seconds) = (0, 0.0);
    while at + group <= most && (at == 0 || begun.elapsed() < TIME) {
        let started = Instant::now();
        let end = at + group;
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            file.write_all_at(&piece[..len], at)?;
            at += len as u64;
        }
        fdatasync(file)?;
        // The first groups show the latency of a sync, the later ones the throughput.
        if group <= 8 * 1024 * 1024 {
            (bytes, seconds) = (0, 0.0);
        }
        bytes += group;
        seconds += started.elapsed().as_secs_f64();
        group = (group * 2).min(GROUP);
    }
    Ok(per_second(bytes, seconds))
}

/// The median time of syncing one page, in microseconds.
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

/// Creates, writes and removes small files. Creating and removing changes the directory twice, as creating and renaming
/// does in a copy.
fn small(directory: &Path) -> io::Result<Option<u64>> {
    let made = AtomicU64::new(0);
    let begun = Instant::now();
    let work = |thread: u64| -> io::Result<()> {
        let path = directory.join(staging_name(thread));
        // Left by a killed probe.
        remove(&path)?;
        for number in 0..FILES {
            if number > 0 && begun.elapsed() >= TIME {
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
    fn measuring_leaves_no_files() {
        // In memory where that is possible: the disk may be fuller than a probe writes to.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        std::fs::write(dir.path().join(staging_name(3)), b"left by one that was killed").unwrap();
        let figures = measure(dir.path());
        assert_eq!(figures.skipped, None);
        assert!(figures.bytes_per_second.is_some() && figures.files_per_second.is_some(), "{figures:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_unwritable_directory_is_reported() {
        let figures = measure(Path::new("/proc"));
        assert!(figures.skipped.is_some() && figures.bytes_per_second.is_none(), "{figures:?}");
        assert!(figures.cpu.hash > 0);
    }

    #[test]
    fn a_full_file_system_is_not_written_to() {
        let space = |free_bytes| Space { free_bytes, bytes: 1000 << 20, ..Space::default() };
        assert_eq!(may_write(&space(99 << 20)), None);
        assert_eq!(may_write(&space(200 << 20)), Some(20 << 20));
        assert_eq!(may_write(&Space { free_bytes: 1 << 50, bytes: 1 << 50, ..Space::default() }), Some(MOST));
    }
}
