//! Modification times on file systems that keep them less precisely than the source, or not all of them.
//!
//! What a file system makes of a time is found out by setting it: on a file without a name, where there can be such
//! a file, else on one under a staging name. That is done only for a file whose time differs from the source's by so
//! little, or is so far away, that the file system may be why; and once for each file system. So nothing is taken for
//! the same where nanoseconds are kept.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use haul_core::{SinkOptions, Timestamp};
use rustix::fs::{AtFlags, Mode, OFlags, Statx, Timespec, Timestamps};

use super::root::At;
use super::{stage, stat};

/// Units in which file systems keep times, in nanoseconds: NTFS and SMB, some servers, exFAT, ext3 and HFS+, FAT.
const UNITS: [i128; 6] = [100, 1_000, 1_000_000, 10_000_000, 1_000_000_000, 2_000_000_000];
/// The coarsest of them.
const COARSEST: i128 = 2_000_000_000;
/// Seconds that every file system keeps: FAT begins in 1980 (of any time zone), ext3 ends in 2038.
const USUAL: Range<i64> = 315_705_600..2_147_300_000;
/// A time that no unit divides: an odd second, and nine digits.
const PROBE: Timestamp = Timestamp { sec: 1_000_000_001, nsec: 123_456_789 };

/// File systems that are known to be coarse, by their magic number: for where nothing can be tried.
const KNOWN: [(u32, i128); 9] = [
    (0x4d44, 2_000_000_000),
    (0x2011_BAB0, 10_000_000),
    (0x482b, 1_000_000_000),
    (0x4244, 1_000_000_000),
    (0x7366_746e, 100),
    (0x5346_544e, 100),
    (0x6573_5546, 100),
    (0xFF53_4D42, 100),
    (0xFE53_4D42, 100),
];

/// Compares times at the precision of the destination.
pub(super) struct Times {
    /// Seconds by which times may differ, if that was said; below 0 is to the nanosecond.
    window: Option<i64>,
    /// Nothing may be made.
    dry_run: bool,
    /// By device: the unit in which times are kept, in nanoseconds.
    units: Mutex<HashMap<(u32, u32), i128>>,
}

impl Times {
    pub(super) fn new(options: &SinkOptions) -> Self {
        Self { window: options.modify_window, dry_run: options.dry_run, units: Mutex::default() }
    }

    /// Whether `wanted` is the modification time of what is at `at`, as far as its file system keeps it. Its plain
    /// metadata is `now`.
    pub(super) fn is_same(&self, wanted: Timestamp, at: &At, now: &Statx) -> bool {
        let there = stat::mtime(now);
        if there == wanted {
            return true;
        }
        if let Some(window) = self.window {
            return there.is_within(window, wanted);
        }
        let off = (nanoseconds(there) - nanoseconds(wanted)).abs();
        if !USUAL.contains(&wanted.sec) {
            return (off < COARSEST || !USUAL.contains(&there.sec) || is_bound(there))
                && probe(at, now, wanted, self.dry_run) == Some(there);
        }
        if off >= COARSEST || !there.nsec.is_multiple_of(100) {
            return false;
        }
        let unit = self.unit(at, now);
        off < unit && nanoseconds(there) % unit == 0
    }

    /// Whether what is at `at` was modified after `time`.
    pub(super) fn is_newer(&self, at: &At, now: &Statx, time: Timestamp) -> bool {
        stat::mtime(now) > time && !self.is_same(time, at, now)
    }

    /// The unit in which times are kept there; 1 where that is nanoseconds.
    fn unit(&self, at: &At, now: &Statx) -> i128 {
        let dev = (now.stx_dev_major, now.stx_dev_minor);
        // Who else asks meanwhile waits for the answer.
        let mut units = self.units.lock();
        *units.entry(dev).or_insert_with(|| match probe(at, now, PROBE, self.dry_run) {
            Some(kept) => unit_of(kept),
            None => known_unit(at),
        })
    }
}

/// Whether a file system may have put this in the place of a time that it does not keep.
fn is_bound(time: Timestamp) -> bool {
    // FAT and unsigned seconds end later.
    time.sec >= USUAL.end || time.sec <= USUAL.start
}

/// Whether `wanted` is a time that not every file system keeps.
pub(super) fn is_unusual(wanted: Timestamp) -> bool {
    !USUAL.contains(&wanted.sec)
}

/// Whether a time was put in the place of another one that is not kept.
pub(super) fn is_replaced(wanted: Timestamp, kept: Timestamp) -> bool {
    (nanoseconds(wanted) - nanoseconds(kept)).abs() >= COARSEST
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.sec) * 1_000_000_000 + i128::from(time.nsec)
}

/// The unit that makes `kept` of [`PROBE`]; 1 if nothing is lost.
fn unit_of(kept: Timestamp) -> i128 {
    if kept == PROBE {
        return 1;
    }
    let off = (nanoseconds(kept) - nanoseconds(PROBE)).abs();
    UNITS.into_iter().find(|unit| nanoseconds(kept) % unit == 0 && off < *unit).unwrap_or(1)
}

fn known_unit(at: &At) -> i128 {
    let magic = rustix::fs::fstatfs(&at.dir).map_or(0, |stat| stat.f_type as u32);
    KNOWN.iter().find(|(known, _)| *known == magic).map_or(1, |(_, unit)| *unit)
}

/// What the file system that holds `at` makes of a time; `None` where that cannot be tried.
fn probe(at: &At, now: &Statx, time: Timestamp, dry_run: bool) -> Option<Timestamp> {
    let is_dir = stat::is_dir(now);
    // What holds a folder may be another file system.
    let held: OwnedFd;
    let dir = if is_dir {
        held = at.open(OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).ok()?;
        held.as_fd()
    } else {
        at.dir.as_fd()
    };
    let mode = Mode::RUSR | Mode::WUSR;
    let set = |file: OwnedFd| {
        let spec = Timespec { tv_sec: time.sec, tv_nsec: time.nsec.into() };
        let times = Timestamps { last_access: spec, last_modification: spec };
        at.dir.ops.one();
        rustix::fs::futimens(&file, &times).ok()?;
        stat::statx_now(&file).ok().map(|now| stat::mtime(&now))
    };
    at.dir.ops.one();
    if let Ok(file) = rustix::fs::openat(dir, ".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode) {
        return set(file);
    }
    if dry_run {
        return None;
    }
    let name = stage::staging_name(b"\0times", stage::PART);
    let new = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let make = || rustix::fs::openat(dir, &name[..], new, mode);
    at.dir.ops.one();
    let file = match make() {
        // What a killed run has left.
        Err(rustix::io::Errno::EXIST) => {
            rustix::fs::unlinkat(dir, &name[..], AtFlags::empty()).ok()?;
            make().ok()?
        }
        other => other.ok()?,
    };
    let kept = set(file);
    at.dir.ops.one();
    let _ = rustix::fs::unlinkat(dir, &name[..], AtFlags::empty());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(sec: i64, nsec: u32) -> Timestamp {
        Timestamp { sec, nsec }
    }

    #[test]
    fn the_unit_is_told_from_what_is_kept() {
        assert_eq!(unit_of(PROBE), 1);
        assert_eq!(unit_of(time(1_000_000_001, 123_456_700)), 100);
        assert_eq!(unit_of(time(1_000_000_001, 123_456_000)), 1_000);
        assert_eq!(unit_of(time(1_000_000_001, 120_000_000)), 10_000_000);
        assert_eq!(unit_of(time(1_000_000_001, 130_000_000)), 10_000_000);
        assert_eq!(unit_of(time(1_000_000_001, 0)), 1_000_000_000);
        assert_eq!(unit_of(time(1_000_000_000, 0)), 2_000_000_000);
        assert_eq!(unit_of(time(1_000_000_002, 0)), 1_000_000_000);
        // It was not set at all: nothing is known, so every difference counts.
        assert_eq!(unit_of(time(1_700_000_000, 5)), 1);
    }
}
