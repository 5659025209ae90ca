//! The attributes, length and times of a file, as a server reports them.

use haul_core::Timestamp;
use smb2::msg::close::CloseResponse;
use smb2::msg::create::CreateResponse;

/// The attribute of a file that may not be changed.
pub(super) const READONLY: u32 = 0x01;
/// The attribute of a file that listings leave out.
pub(super) const HIDDEN: u32 = 0x02;
/// The attribute of a file of the system.
pub(super) const SYSTEM: u32 = 0x04;
/// The attribute of a directory.
pub(super) const DIRECTORY: u32 = 0x10;
/// The attribute of a file that changed since the last backup.
pub(super) const ARCHIVE: u32 = 0x20;
/// The attribute of a file that has no other one.
pub(super) const NORMAL: u32 = 0x80;
/// The attribute of a link, junction or other reparse point.
pub(super) const REPARSE_POINT: u32 = 0x400;

/// The seconds from 1601 to 1970.
const EPOCH: i64 = 11_644_473_600;
/// The unit of a time in nanoseconds.
pub(super) const TIME_UNIT: u32 = 100;
/// The units of a time in a second.
const UNITS: i128 = 10_000_000;

/// The attributes, length and times of a file, as a server reports them. Times are in units of 100 ns since 1601.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attrs {
    pub(super) flags: u32,
    pub(super) len: u64,
    pub(super) created: u64,
    pub(super) modified: u64,
    pub(super) accessed: u64,
    pub(super) changed: u64,
}

impl Attrs {
    pub(super) fn is_dir(&self) -> bool {
        self.flags & (DIRECTORY | REPARSE_POINT) == DIRECTORY
    }

    pub(super) fn is_reparse_point(&self) -> bool {
        self.flags & REPARSE_POINT != 0
    }

    /// Whether a reparse point has the kind of a directory.
    pub(super) fn is_dir_point(&self) -> bool {
        self.flags & DIRECTORY != 0
    }

    pub(super) fn is_file(&self) -> bool {
        self.flags & (DIRECTORY | REPARSE_POINT) == 0
    }

    pub(super) fn is_readonly(&self) -> bool {
        self.flags & READONLY != 0
    }
}

impl From<&CreateResponse> for Attrs {
    fn from(there: &CreateResponse) -> Self {
        Self {
            flags: there.file_attributes,
            len: there.end_of_file,
            created: there.creation_time.0,
            modified: there.last_write_time.0,
            accessed: there.last_access_time.0,
            changed: there.change_time.0,
        }
    }
}

impl From<&CloseResponse> for Attrs {
    fn from(there: &CloseResponse) -> Self {
        Self {
            flags: there.file_attributes,
            len: there.end_of_file,
            created: there.creation_time.0,
            modified: there.last_write_time.0,
            accessed: there.last_access_time.0,
            changed: there.change_time.0,
        }
    }
}

/// A time of the server.
pub(super) fn timestamp(time: u64) -> Timestamp {
    let units = i128::from(time) - i128::from(EPOCH) * UNITS;
    Timestamp::from_nanoseconds(units * i128::from(TIME_UNIT)).unwrap_or_default()
}

/// A time for the server, cut to 100 ns. `None` before 1601 and after 30,827, which no server can keep.
pub(super) fn filetime(time: Timestamp) -> Option<u64> {
    let units = (i128::from(time.sec) + i128::from(EPOCH)) * UNITS + i128::from(time.nsec / TIME_UNIT);
    // 0 and negative numbers mean something else.
    u64::try_from(units).ok().filter(|units| (1..=i64::MAX.cast_unsigned()).contains(units))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_to_100_ns() {
        let time = Timestamp { sec: 1_704_067_200, nsec: 123_456_789 };
        assert_eq!(filetime(time), Some(133_485_408_001_234_567));
        assert_eq!(timestamp(133_485_408_001_234_567), Timestamp { nsec: 123_456_700, ..time });
        let before = Timestamp { sec: -1, nsec: 999_999_900 };
        assert_eq!(filetime(before).map(timestamp), Some(before));
    }

    #[test]
    fn times_that_mean_something_else_are_not_sent() {
        let at = |sec| filetime(Timestamp { sec, nsec: 0 });
        assert_eq!((at(-EPOCH), at(-EPOCH - 1), at(i64::MAX)), (None, None, None));
        assert_eq!(at(-EPOCH + 1), Some(10_000_000));
        assert_eq!(timestamp(0).sec, -EPOCH);
    }
}
