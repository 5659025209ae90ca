//! Measures a share for `haul probe`, as a copy would use it: reads samples of the real files, and writes files that it
//! removes. Their names are constant, so that the next probe removes those of one that was killed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::probe::{ReadFigures, ReadSample, WriteFigures};
use haul_core::{Place, RelPath, Result, Side};

use super::remove::remove_at;
use super::reply::{Fault, nonsense};
use super::session::Smb;
use super::small::check_write;
use super::step::{ChainStep, LOOK, OpenedKind, READ, WRITE};
use super::tree::Tree;

/// The duration of each measurement.
const TIME: Duration = Duration::from_millis(1500);
/// Large and small requests in flight.
const LARGE_AT_ONCE: usize = 8;
const SMALL_AT_ONCE: usize = 64;
/// Bytes of a request for a part of a large file: few, so that a slow network hardly exceeds [`TIME`].
const PIECE: usize = 1024 * 1024;
/// The most bytes of one sample, whatever was requested.
const PART: u32 = 4 * 1024 * 1024;
/// Bytes of content that are kept to measure the CPU with.
const KEPT: usize = 24 * 1024 * 1024;
/// The most bytes that are written, and the most between two looks at the clock.
const MOST: u64 = 256 * 1024 * 1024;
const GROUP: usize = 64 * 1024 * 1024;
/// Bytes of a small file.
const SMALL: usize = 4096;

impl Smb {
    /// Reads samples, as many as time allows. Returns the figures without those of the CPU, and some of the content.
    ///
    /// # Errors
    /// If the share cannot be used at all. A sample that cannot be read does not count.
    pub fn probe_reads(
        self: &Arc<Self>,
        place: &Place,
        samples: &[ReadSample],
    ) -> Result<(ReadFigures, Vec<Vec<u8>>)> {
        let tree = Tree::open(self, place, Side::Source)?;
        let (small, large): (Vec<&ReadSample>, Vec<&ReadSample>) =
            samples.iter().partition(|sample| sample.small);
        let mut kept = Vec::new();
        let large = self.phase(&tree, &large, LARGE_AT_ONCE, &mut kept)?;
        let small = self.phase(&tree, &small, SMALL_AT_ONCE, &mut kept)?;
        let figures = ReadFigures {
            sampled_bytes: large.bytes + small.bytes,
            bytes_per_second: per_second(large.bytes, large.seconds),
            files_per_second: per_second(small.files, small.seconds),
            ..ReadFigures::default()
        };
        Ok((figures, kept))
    }

    fn phase(
        &self,
        tree: &Tree,
        samples: &[&ReadSample],
        at_once: usize,
        kept: &mut Vec<Vec<u8>>,
    ) -> Result<ShareReads> {
        let begun = Instant::now();
        let mut phase = ShareReads::default();
        for group in samples.chunks(at_once) {
            if phase.files > 0 && begun.elapsed() >= TIME {
                break;
            }
            self.each(
                group,
                async |sample: &&ReadSample| read(tree, sample, begun).await,
                |pieces| {
                    let Ok(pieces) = pieces else { return };
                    phase.files += 1;
                    for piece in pieces {
                        phase.bytes += piece.len() as u64;
                        if kept.iter().map(Vec::len).sum::<usize>() + piece.len() <= KEPT {
                            kept.push(piece);
                        }
                    }
                },
            )?;
        }
        phase.seconds = begun.elapsed().as_secs_f64();
        Ok(phase)
    }

    /// Writes in the directory of the destination, or in the nearest one above that exists. The figures lack those of the
    /// CPU.
    ///
    /// # Errors
    /// If the share cannot be used at all.
    pub fn probe_writes(self: &Arc<Self>, place: &Place) -> Result<WriteFigures> {
        let tree = Tree::open(self, place, Side::Destination)?;
        let root = RelPath::root();
        let skipped = |fault: Fault| WriteFigures {
            skipped: Some(tree.error("write a file of the probe on", &root, fault).to_string()),
            ..WriteFigures::default()
        };
        let directory = match self.one(async { Ok(directory(&tree).await) })? {
            Ok(directory) => directory,
            Err(fault) => return Ok(skipped(fault)),
        };
        let files = ProbeFiles { smb: self, tree: &tree, directory };
        let measured = files.measure();
        let removed = files.remove_all();
        match (measured?, removed?) {
            (Ok(figures), Ok(())) => Ok(figures),
            (Err(fault), _) | (Ok(_), Err(fault)) => Ok(skipped(fault)),
        }
    }
}

#[derive(Default)]
struct ShareReads {
    bytes: u64,
    files: u64,
    seconds: f64,
}

/// Reads one sample; stops early on a slow network.
async fn read(tree: &Tree, sample: &ReadSample, begun: Instant) -> Result<Vec<Vec<u8>>, Fault> {
    let remote = tree.remote(&sample.path)?;
    let (len, step) = (u64::from(sample.len.min(PART)), PIECE.min(tree.smb.server.most()) as u64);
    let (mut at, mut pieces) = (0, Vec::new());
    while pieces.is_empty() || at < len && begun.elapsed() < TIME * 2 {
        let open = ChainStep::open(&remote, OpenedKind::File, READ);
        let chain =
            [open, ChainStep::read(sample.offset + at, (len - at).min(step) as u32), ChainStep::close()];
        let replies = tree.run(&chain).await?;
        replies.opened()?;
        let piece = replies.data(1)?;
        at += step;
        let ends = piece.is_empty();
        pieces.push(piece);
        if ends {
            break;
        }
    }
    Ok(pieces)
}

/// The directory of the root, or the nearest one above that exists.
async fn directory(tree: &Tree) -> Result<String, Fault> {
    let mut above = tree.above()?;
    above.insert(0, String::new());
    above.push(tree.remote(&RelPath::root())?);
    for remote in above.into_iter().rev() {
        match tree.stat_at(&remote).await {
            Ok(there) if there.is_dir() => return Ok(remote),
            Ok(_) => {}
            Err(fault) if fault.is_missing() => {}
            Err(fault) => return Err(fault),
        }
    }
    Err(nonsense("the share has no root").into())
}

/// The files of a probe in a directory.
struct ProbeFiles<'a> {
    smb: &'a Smb,
    tree: &'a Tree,
    directory: String,
}

/// A result of the server inside one of the connection.
type Told<T> = Result<Result<T, Fault>>;

impl ProbeFiles<'_> {
    /// A name like those of staged files, but not derived from a digest, so that it collides with none.
    fn name(&self, number: usize) -> String {
        let separator = if self.directory.is_empty() { "" } else { "\\" };
        format!("{}{separator}.haul-{number:016x}.part", self.directory)
    }

    fn measure(&self) -> Told<WriteFigures> {
        let most = match self.smb.one(async { Ok(self.may_write().await) })? {
            Ok(Some(most)) => most,
            Ok(None) => {
                let why = "less than a tenth of the share is free".to_owned();
                return Ok(Ok(WriteFigures { skipped: Some(why), ..WriteFigures::default() }));
            }
            Err(fault) => return Ok(Err(fault)),
        };
        let mut figures = WriteFigures::default();
        match self.content(most)? {
            Ok(rate) => figures.bytes_per_second = rate,
            Err(fault) => return Ok(Err(fault)),
        }
        match self.smb.one(async { Ok(self.sync().await) })? {
            Ok(micros) => figures.sync_micros = Some(micros),
            Err(fault) => return Ok(Err(fault)),
        }
        match self.small()? {
            Ok(rate) => figures.files_per_second = rate,
            Err(fault) => return Ok(Err(fault)),
        }
        Ok(Ok(figures))
    }

    /// The bytes that may be written: a tenth of the free space, and none if less than a tenth of the share is free.
    async fn may_write(&self) -> Result<Option<u64>, Fault> {
        let open = ChainStep::open(&self.directory, OpenedKind::Dir, LOOK);
        let replies = self.tree.run(&[open, ChainStep::space(), ChainStep::close()]).await?;
        replies.opened()?;
        let (bytes, free) = space(&replies.info(1)?)?;
        Ok((free >= bytes / 10).then(|| MOST.min(free / 10)))
    }

    /// Writes growing groups through to the disk until the time is up; the larger ones count.
    fn content(&self, most: u64) -> Told<Option<u64>> {
        let name = self.name(0);
        let made = self.smb.one(async {
            let made = self.tree.run(&[ChainStep::make_empty(&name, WRITE), ChainStep::close()]).await;
            Ok(made.map_err(Fault::from).and_then(|replies| replies.all_ok()))
        })?;
        if let Err(fault) = made {
            return Ok(Err(fault));
        }
        let step = PIECE.min(self.tree.smb.server.most());
        let piece = noise(step);
        let begun = Instant::now();
        let (mut at, mut group) = (0, PIECE);
        let (mut bytes, mut seconds) = (0, 0.0);
        while at + group as u64 <= most && (at == 0 || begun.elapsed() < TIME) {
            let started = Instant::now();
            let offsets = (0..group / step).map(|number| at + (number * step) as u64);
            let written = self.smb.all(offsets, async |offset| self.write(&name, offset, &piece).await)?;
            if let Err(fault) = written.into_iter().collect::<Result<Vec<()>, Fault>>() {
                return Ok(Err(fault));
            }
            // The first groups show the latency, the later ones the throughput.
            if group <= 8 * PIECE {
                (bytes, seconds) = (0, 0.0);
            }
            bytes += group as u64;
            seconds += started.elapsed().as_secs_f64();
            at += group as u64;
            group = (group * 2).min(GROUP);
        }
        Ok(Ok(per_second(bytes, seconds)))
    }

    async fn write(&self, name: &str, offset: u64, piece: &[u8]) -> Result<(), Fault> {
        let open = ChainStep::open(name, OpenedKind::File, WRITE);
        let chain = [open, ChainStep::write(offset, piece, true), ChainStep::close()];
        let replies = self.tree.run(&chain).await?;
        replies.opened()?;
        check_write(&replies, 1, piece.len(), 1)?;
        replies.all_ok()
    }

    /// The median time of writing a few bytes through to the disk, in microseconds.
    async fn sync(&self) -> Result<u64, Fault> {
        let (name, mut times, begun) = (self.name(0), Vec::new(), Instant::now());
        while times.is_empty() || times.len() < 9 && begun.elapsed() < TIME / 2 {
            let started = Instant::now();
            self.write(&name, 0, &[1; SMALL]).await?;
            times.push(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        times.sort_unstable();
        Ok(times.get(times.len() / 2).copied().unwrap_or_default())
    }

    /// Creates small files in one frame each, as a copy does. Removing them takes no part in the rate.
    fn small(&self) -> Told<Option<u64>> {
        let begun = Instant::now();
        let (mut made, mut seconds) = (0, 0.0);
        while made == 0 || begun.elapsed() < TIME {
            let started = Instant::now();
            let created =
                self.smb.all(0..SMALL_AT_ONCE, async |number| self.create(&self.name(number)).await)?;
            if let Err(fault) = created.into_iter().collect::<Result<Vec<()>, Fault>>() {
                return Ok(Err(fault));
            }
            made += SMALL_AT_ONCE as u64;
            seconds += started.elapsed().as_secs_f64();
            if let Err(fault) = self.remove_all()? {
                return Ok(Err(fault));
            }
        }
        Ok(Ok(per_second(made, seconds)))
    }

    async fn create(&self, name: &str) -> Result<(), Fault> {
        let write = ChainStep::write(0, &[1; SMALL], false);
        let replies = self.tree.run(&[ChainStep::make_empty(name, WRITE), write, ChainStep::close()]).await?;
        replies.opened()?;
        check_write(&replies, 1, SMALL, 1)?;
        replies.all_ok()
    }

    /// Removes all files of a probe, also those of one that was killed.
    fn remove_all(&self) -> Told<()> {
        let removed = self.smb.all(0..SMALL_AT_ONCE, async |number| {
            match remove_at(self.tree, &self.name(number)).await {
                Err(fault) if fault.is_missing() => Ok(()),
                removed => removed,
            }
        })?;
        Ok(removed.into_iter().collect())
    }
}

/// The size of a file system and the bytes that are free for this user, as in MS-FSCC 2.5.4.
fn space(info: &[u8]) -> Result<(u64, u64), Fault> {
    let number = |at: usize, len: usize| {
        let bytes = info.get(at..at + len)?;
        Some(bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    let numbers = || Some((number(0, 8)?, number(8, 8)?, number(24, 4)?.checked_mul(number(28, 4)?)?));
    let (all, free, unit) = numbers().ok_or_else(|| nonsense("the size of the share is damaged"))?;
    Ok((all.saturating_mul(unit), free.saturating_mul(unit)))
}

/// Bytes that a server cannot compress.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(len).collect()
}

fn per_second(amount: u64, seconds: f64) -> Option<u64> {
    (amount > 0 && seconds > 0.0).then_some((amount as f64 / seconds) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_space_of_a_share_is_read_and_a_damaged_answer_is_none() {
        let mut info = [1000_u64, 400, 500].map(u64::to_le_bytes).concat();
        info.extend([8_u32, 512].map(u32::to_le_bytes).concat());
        assert_eq!(space(&info).ok(), Some((4_096_000, 1_638_400)));
        assert!((0..info.len()).all(|len| space(&info[..len]).is_err()));
        assert!(space(&[0xff; 32]).is_ok_and(|(all, free)| all == u64::MAX && free == u64::MAX));
    }

    #[test]
    fn noise_does_not_repeat() {
        let noise = noise(4096);
        assert_eq!(noise.len(), 4096);
        assert!(noise[..2048] != noise[2048..]);
        assert_eq!((per_second(10, 2.0), per_second(0, 2.0), per_second(1, 0.0)), (Some(5), None, None));
    }
}
