//! Modification times on file systems that keep them with less precision than the source, or within a smaller range, and
//! those of a source that keeps them with less precision.
//!
//! How a file system rounds a time is found out by setting one: on a file without a name if the file system allows it,
//! else on a file under a staging name. That is done once for each file system, and only if two times differ so little,
//! or are so unusual, that rounding may be the reason. So where nanoseconds are kept, only equal times count as equal.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use haul_core::staging::{PART, staging_name};
use haul_core::{SinkOptions, Timestamp};
use rustix::fs::{AtFlags, Mode, OFlags, Statx, Timespec, Timestamps, UTIME_OMIT};

use crate::path::at::At;
use crate::path::stat::{self, Device};

/// The units of file systems in nanoseconds: NTFS and SMB, some servers, exFAT, ext3 and HFS+, FAT.
const UNITS: [i128; 6] = [100, 1_000, 1_000_000, 10_000_000, 1_000_000_000, 2_000_000_000];
/// The coarsest unit.
const COARSEST: i128 = 2_000_000_000;
/// Times that every file system keeps, in seconds: FAT begins in 1980 (of any time zone), ext3 ends in 2038.
const USUAL: Range<i64> = 315_705_600..2_147_300_000;
/// A time that is no multiple of any unit: an odd second, and nine digits.
const PROBE: Timestamp = Timestamp { sec: 1_000_000_001, nsec: 123_456_789 };

/// The units of file systems by their magic number, for file systems where no time can be set.
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

/// Compares times with the precision of the destination.
pub(crate) struct Times {
    /// The seconds by which times may differ, if the user has given them; below 0 means to the nanosecond.
    window: Option<i64>,
    /// The unit of the source in nanoseconds.
    source_unit: u32,
    /// No file may be made.
    dry_run: bool,
    /// The units of the file systems in nanoseconds.
    units: Mutex<HashMap<Device, i128>>,
}

impl Times {
    pub(crate) fn new(options: &SinkOptions) -> Self {
        Self {
            window: options.modify_window,
            source_unit: options.source_time_unit,
            dry_run: options.dry_run,
            units: Mutex::default(),
        }
    }

    /// Whether the file at `at`, whose plain metadata is `now`, has the modification time `wanted`, as its file system
    /// rounds it.
    pub(crate) fn is_same(&self, wanted: Timestamp, at: &At, now: &Statx) -> bool {
        let found = stat::mtime(now);
        if found == wanted {
            return true;
        }
        if let Some(window) = self.window {
            return found.is_within(window, wanted);
        }
        if found.cut(self.source_unit) == wanted {
            return true;
        }
        let off = (nanoseconds(found) - nanoseconds(wanted)).abs();
        if !USUAL.contains(&wanted.sec) {
            return (off < COARSEST || !USUAL.contains(&found.sec) || is_bound(found))
                && probe(at, now, wanted, self.dry_run) == Some(found);
        }
        if off >= COARSEST || !found.nsec.is_multiple_of(100) {
            return false;
        }
        let unit = self.unit(at, now);
        off < unit && nanoseconds(found) % unit == 0
    }

    /// Whether the file at `at` was modified after `time`.
    pub(crate) fn is_newer(&self, at: &At, now: &Statx, time: Timestamp) -> bool {
        stat::mtime(now) > time && !self.is_same(time, at, now)
    }

    /// The unit of the file system that holds `at`; 1 if it keeps nanoseconds.
    fn unit(&self, at: &At, now: &Statx) -> i128 {
        let dev = stat::device(now);
        // Other threads wait for the answer.
        let mut units = self.units.lock();
        *units.entry(dev).or_insert_with(|| match probe(at, now, PROBE, self.dry_run) {
            Some(kept) => unit_of(kept),
            None => known_unit(at),
        })
    }
}

/// Whether the time may be the bound of a file system, kept in place of a time beyond it.
fn is_bound(time: Timestamp) -> bool {
    // FAT and unsigned seconds end after the usual times.
    time.sec >= USUAL.end || time.sec <= USUAL.start
}

/// Whether some file systems cannot keep the time.
pub(crate) fn is_unusual(wanted: Timestamp) -> bool {
    !USUAL.contains(&wanted.sec)
}

/// Whether the file system has kept another time in place of the wanted one, beyond rounding.
pub(crate) fn is_replaced(wanted: Timestamp, kept: Timestamp) -> bool {
    (nanoseconds(wanted) - nanoseconds(kept)).abs() >= COARSEST
}

/// Whether `kept` may be the wanted time as some file system rounds it. Without a file there, that cannot be probed.
pub(crate) fn may_be_rounded(wanted: Timestamp, kept: Timestamp) -> bool {
    let (wanted, kept) = (nanoseconds(wanted), nanoseconds(kept));
    UNITS.into_iter().any(|unit| kept % unit == 0 && (kept - wanted).abs() < unit)
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.sec) * 1_000_000_000 + i128::from(time.nsec)
}

/// The unit that rounds [`PROBE`] to `kept`; 1 if nothing is lost.
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

/// Sets a time on the file system that holds `at`, and gives the time that it kept. `None` if no file can be made.
fn probe(at: &At, now: &Statx, time: Timestamp, dry_run: bool) -> Option<Timestamp> {
    let is_dir = stat::is_dir(now);
    // The parent of a directory may be on another file system.
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
    // The file changes the time of the directory, which another thread may compare and the user may want.
    let before = stat::statx_fresh(dir).ok();
    let name = staging_name(b"\0times", PART);
    let new = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let make = || rustix::fs::openat(dir, &name[..], new, mode);
    at.dir.ops.one();
    let file = match make() {
        // A killed run has left it.
        Err(rustix::io::Errno::EXIST) => {
            rustix::fs::unlinkat(dir, &name[..], AtFlags::empty()).ok()?;
            make().ok()?
        }
        other => other.ok()?,
    };
    let kept = set(file);
    at.dir.ops.one();
    let _ = rustix::fs::unlinkat(dir, &name[..], AtFlags::empty());
    if let Some(before) = before {
        restore_mtime(dir, stat::mtime(&before));
    }
    kept
}

/// Sets the modification time of a directory, as far as that is allowed.
fn restore_mtime(dir: BorrowedFd<'_>, time: Timestamp) {
    let spec = |nsec| Timespec { tv_sec: time.sec, tv_nsec: nsec };
    let times = Timestamps { last_access: spec(UTIME_OMIT), last_modification: spec(time.nsec.into()) };
    let _ = rustix::fs::utimensat(dir, ".", &times, AtFlags::empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(sec: i64, nsec: u32) -> Timestamp {
        Timestamp { sec, nsec }
    }

    #[test]
    fn the_unit_follows_from_the_kept_time() {
        assert_eq!(unit_of(PROBE), 1);
        assert_eq!(unit_of(time(1_000_000_001, 123_456_700)), 100);
        assert_eq!(unit_of(time(1_000_000_001, 123_456_000)), 1_000);
        assert_eq!(unit_of(time(1_000_000_001, 120_000_000)), 10_000_000);
        assert_eq!(unit_of(time(1_000_000_001, 130_000_000)), 10_000_000);
        assert_eq!(unit_of(time(1_000_000_001, 0)), 1_000_000_000);
        assert_eq!(unit_of(time(1_000_000_000, 0)), 2_000_000_000);
        assert_eq!(unit_of(time(1_000_000_002, 0)), 1_000_000_000);
        // The time was not set at all: every difference counts.
        assert_eq!(unit_of(time(1_700_000_000, 5)), 1);
    }

    /// A file with a modification time, and whether times count as the same as its own.
    fn is_same(found: Timestamp, wanted: Timestamp, window: Option<i64>, unit: Option<i128>) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(dir.path().join("f")).unwrap();
        let spec = Timespec { tv_sec: found.sec, tv_nsec: found.nsec.into() };
        let times = Timestamps { last_access: spec, last_modification: spec };
        rustix::fs::futimens(&file, &times).unwrap();
        let held = std::fs::File::open(dir.path()).unwrap();
        let held = crate::path::at::Dir::new(held.into(), false, &std::sync::Arc::default());
        let at = At { dir: std::sync::Arc::new(held), name: b"f".to_vec() };
        let now = stat::statx_now(&file).unwrap();
        let times = Times::new(&SinkOptions { modify_window: window, ..SinkOptions::default() });
        if let Some(unit) = unit {
            times.units.lock().insert(stat::device(&now), unit);
        }
        assert_eq!(times.is_newer(&at, &now, wanted), found > wanted && !times.is_same(wanted, &at, &now));
        times.is_same(wanted, &at, &now)
    }

    #[test]
    fn times_are_compared_with_the_precision_of_the_file_system() {
        let exact = time(1_500_000_001, 123_456_789);
        assert!(is_same(exact, exact, None, None));
        assert!(!is_same(time(1_500_000_001, 123_456_700), exact, None, None), "nanoseconds are kept here");
        assert!(is_same(time(1_500_000_001, 123_456_700), exact, None, Some(100)));
        assert!(
            !is_same(time(1_500_000_001, 123_456_500), exact, None, Some(100)),
            "off by more than a unit"
        );
        assert!(is_same(time(1_500_000_000, 0), exact, None, Some(2_000_000_000)));
        assert!(
            !is_same(time(1_500_000_001, 0), exact, None, Some(2_000_000_000)),
            "no multiple of the unit"
        );
        assert!(!is_same(time(1_500_000_004, 0), exact, None, Some(2_000_000_000)));
        assert!(is_same(time(1_500_000_004, 0), exact, Some(3), None));
        assert!(!is_same(time(1_500_000_005, 0), exact, Some(3), None));
        assert!(
            may_be_rounded(exact, time(1_500_000_000, 0)) && may_be_rounded(exact, time(1_500_000_001, 0))
        );
        assert!(!may_be_rounded(exact, time(1_500_000_001, 123_456_788)));
        assert!(!may_be_rounded(exact, time(1_500_000_004, 0)));
        let unusual = time(-1_000_000, 0);
        assert!(!is_same(time(0, 0), unusual, None, None), "this file system keeps times before 1970");
        assert!(is_replaced(unusual, time(0, 0)) && is_unusual(unusual) && !is_unusual(exact));
    }
}
