//! The figures of the stages.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use haul_codec::frame::{FRAME_LEN, FrameFormat, Framer, Unframer};
use haul_core::digest::SliceHasher;
use haul_core::{Method, SLICE_LEN};
use haul_testkit::content;

use super::connection::pass;
use super::work::{WorkTime, in_threads, repeat};
use crate::stop::Stop;

/// Bytes of a file that is written and read.
const FILE: u64 = 256 << 20;
/// haul writes in pieces that fit the cache.
const WRITE: usize = 128 << 10;
/// Bytes that are synced.
const SYNCED: u64 = 1 << 30;

/// Bytes of a database page.
const PAGE: u64 = 16 << 10;

/// A stage: nanoseconds of one core for a byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageCost {
    pub(super) name: &'static str,
    /// One thread.
    pub(super) alone: f64,
    /// As many threads as there are cores.
    pub(super) together: f64,
}

/// The figures of all stages.
pub(super) struct StageFigures {
    pub(super) stages: Vec<StageCost>,
    /// Bytes per second that the disk takes.
    pub(super) disk: f64,
}

impl StageFigures {
    /// Measures them with one thread, and with `threads`.
    pub(super) fn measure(
        dir: &Path,
        disk_dir: &Path,
        time: Duration,
        threads: usize,
        stop: &Stop,
    ) -> Result<Self> {
        let bench = Bench { dir, time, stop, content: &pages() };
        let both = |work: &dyn Fn(usize) -> Result<Vec<(&'static str, WorkTime)>>| -> Result<Vec<StageCost>> {
            let (alone, together) = (work(1)?, work(threads)?);
            let pairs = alone.into_iter().zip(together);
            Ok(pairs
                .map(|((name, alone), (_, together))| StageCost {
                    name,
                    alone: alone.per_byte(),
                    together: together.per_byte(),
                })
                .collect())
        };
        let mut stages = Vec::new();
        stages.extend(both(&|threads| bench.files(threads))?);
        stages.extend(both(&|threads| Ok(vec![("hash", bench.hash(threads)?)]))?);
        stages.extend(both(&|threads| bench.connections(threads, true))?);
        stages.extend(both(&|threads| bench.connections(threads, false))?);
        for (method, pack, unpack) in [
            (Method::Lz4, "compress lz4", "decompress lz4"),
            (Method::Zstd(1), "compress zstd:1", "decompress zstd:1"),
        ] {
            stages.extend(both(&|threads| bench.compression(threads, method, [pack, unpack]))?);
        }
        Ok(Self { stages, disk: sync(disk_dir, stop)? })
    }

    /// Nanoseconds of one core for a byte of a stage, with all cores at work.
    pub(super) fn of(&self, name: &str) -> f64 {
        self.stages.iter().find(|stage| stage.name == name).map_or(0.0, |stage| stage.together)
    }

    pub(super) fn table(&self, threads: usize) -> String {
        let mut table = format!(
            "| stage | one thread, GB/s | {threads} threads, GB/s each | all, GB/s |\n|---|--:|--:|--:|\n"
        );
        for StageCost { name, alone, together } in &self.stages {
            let all = threads as f64 / together;
            table.push_str(&format!("| {name} | {:.2} | {:.2} | {all:.2} |\n", 1.0 / alone, 1.0 / together));
        }
        table
            .push_str(&format!("| commit (written to the disk and synced) | | | {:.2} |\n", self.disk / 1e9));
        table
    }
}

/// The settings of all measurements.
struct Bench<'a> {
    dir: &'a Path,
    time: Duration,
    stop: &'a Stop,
    content: &'a [u8],
}

impl Bench<'_> {
    /// Reading and writing of files in memory.
    fn files(&self, threads: usize) -> Result<Vec<(&'static str, WorkTime)>> {
        let written = in_threads(threads, |_| {
            let file = scratch_file(self.dir)?;
            let mut pieces = self.content.chunks(WRITE).cycle();
            let mut at = 0;
            self.repeat(|| {
                let piece = pieces.next().unwrap_or_default();
                file.write_all_at(piece, at % FILE)?;
                at += piece.len() as u64;
                Ok(piece.len())
            })
        })?;
        let read = in_threads(threads, |_| {
            let file = scratch_file(self.dir)?;
            (0..FILE / SLICE_LEN).try_for_each(|slice| file.write_all_at(self.content, slice * SLICE_LEN))?;
            let (mut buffer, mut slice) = (vec![0; SLICE_LEN as usize], 0);
            self.repeat(|| {
                file.read_exact_at(&mut buffer, slice % (FILE / SLICE_LEN) * SLICE_LEN)?;
                slice += 1;
                Ok(buffer.len())
            })
        })?;
        Ok(vec![("read", read), ("write", written)])
    }

    fn hash(&self, threads: usize) -> Result<WorkTime> {
        in_threads(threads, |_| {
            self.repeat(|| {
                let mut hasher = SliceHasher::new(u64::MAX, 0);
                hasher.update(self.content);
                std::hint::black_box(hasher.finish());
                Ok(self.content.len())
            })
        })
    }

    /// Sending and receiving over as many connections.
    fn connections(&self, threads: usize, encrypted: bool) -> Result<Vec<(&'static str, WorkTime)>> {
        let received = std::sync::Mutex::new(WorkTime::default());
        let sent = in_threads(threads, |_| {
            let [sent, came] = pass(self.content, encrypted, self.time, self.stop)?;
            let mut received = received.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *received = received.and(came);
            Ok(sent)
        })?;
        let received = received.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let [send, receive] = match encrypted {
            true => ["seal and send", "receive and open"],
            false => ["send only", "receive only"],
        };
        Ok(vec![(send, sent), (receive, received)])
    }

    fn compression(
        &self,
        threads: usize,
        method: Method,
        [pack, unpack]: [&'static str; 2],
    ) -> Result<Vec<(&'static str, WorkTime)>> {
        let plain = &self.content[..FRAME_LEN.min(self.content.len())];
        let packed = in_threads(threads, |_| {
            let (mut framer, mut frame) = (Framer::new(method), Vec::new());
            self.repeat(|| Ok(framer.pack(plain, &mut frame).map(|()| plain.len())?))
        })?;
        let mut frame = Vec::new();
        Framer::new(method).pack(plain, &mut frame)?;
        let unpacked = in_threads(threads, |_| {
            let (mut unframer, mut out) = (Unframer::default(), Vec::new());
            self.repeat(|| {
                unframer.unpack(FrameFormat::from(method), &frame, plain.len(), &mut out)?;
                Ok(plain.len())
            })
        })?;
        Ok(vec![(pack, packed), (unpack, unpacked)])
    }

    fn repeat(&self, step: impl FnMut() -> Result<usize>) -> Result<WorkTime> {
        repeat(self.time, self.stop, step)
    }
}

/// A slice of database pages: half of it is random bytes.
fn pages() -> Vec<u8> {
    let mut slice = vec![0; SLICE_LEN as usize];
    for (number, page) in (0_u64..).zip(slice.chunks_mut(PAGE as usize)) {
        let half = page.len() / 2;
        content::fill(1, number * PAGE, &mut page[..half]);
    }
    slice
}

/// A file without a name.
fn scratch_file(dir: &Path) -> Result<File> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = open(dir, flags, Mode::RUSR | Mode::WUSR);
    Ok(File::from(file.with_context(|| format!("cannot create a file in {}", dir.display()))?))
}

/// Writes and syncs a file: bytes per second of the disk.
fn sync(dir: &Path, stop: &Stop) -> Result<f64> {
    let mut file = scratch_file(dir)?;
    let content = pages();
    let begun = Instant::now();
    for _ in 0..SYNCED / SLICE_LEN {
        anyhow::ensure!(!stop.is_set(), "interrupted");
        file.write_all(&content)?;
    }
    file.sync_data()?;
    Ok(SYNCED as f64 / begun.elapsed().as_secs_f64())
}
