//! Whether an operation that failed may succeed when it is repeated, and which errors of the operating system are
//! temporary.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How often a slice that does not verify is moved again.
const VERIFY_RETRIES: u32 = 3;
/// How often a slice is moved again because its connection was lost. Only a transfer without any progress gets this far.
pub const CONNECTION_RETRIES: u32 = 50;
/// The pause before that, for each loss.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Whether repeating the operation can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retry {
    /// No: it would fail again.
    Never,
    /// The same operation may succeed at once.
    Again,
    /// The connection is lost; the same operation may succeed over another one.
    OtherStream,
    /// The whole file may succeed if it is offered again: the destination has discarded the content that it had.
    Anew,
}

/// The errors of Linux that may not occur again when an operation is repeated, by `errno`.
///
/// A disk repeats a failed read with other settings, and a network file system reports EIO for a connection that it
/// restores, so EIO is one of them.
const TEMPORARY: [(i32, &str); 9] = [
    (4, "EINTR"),
    (5, "EIO"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (105, "ENOBUFS"),
    (110, "ETIMEDOUT"),
    (116, "ESTALE"),
];

impl Retry {
    /// Whether reading may be repeated after this error of the operating system. [`Retry::Again`] sets no limit of its
    /// own: the caller counts the attempts.
    ///
    /// Also for requests that a sink repeats without harm: to compare, to link, to remove.
    ///
    /// ```
    /// use haul_core::Retry;
    ///
    /// assert_eq!(Retry::of_read(5), Retry::Again); // EIO
    /// assert_eq!(Retry::of_read(13), Retry::Never); // EACCES
    /// ```
    #[must_use]
    pub fn of_read(errno: i32) -> Self {
        if is_temporary(errno) { Self::Again } else { Self::Never }
    }

    /// Whether a file may be written again after this error of the operating system. After a failed write, its content
    /// in memory and on disk may differ: a network file system reports an earlier write that way. So the file has to be
    /// written from its start ([`Retry::Anew`]).
    ///
    /// ```
    /// use haul_core::Retry;
    ///
    /// assert_eq!(Retry::of_write(5), Retry::Anew); // EIO
    /// assert_eq!(Retry::of_write(30), Retry::Never); // EROFS
    /// ```
    #[must_use]
    pub fn of_write(errno: i32) -> Self {
        if is_temporary(errno) { Self::Anew } else { Self::Never }
    }
}

/// How often one slice was moved again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retries {
    /// Because it did not verify.
    verify: u32,
    /// Because its connection was lost.
    connection: u32,
}

impl Retries {
    /// Whether the slice is moved again after an error; counts that. `connections`: how often it may be because its
    /// connection was lost.
    pub fn may_repeat(&mut self, retry: Retry, connections: u32) -> bool {
        let (count, most) = match retry {
            Retry::Again => (&mut self.verify, VERIFY_RETRIES),
            Retry::OtherStream => (&mut self.connection, connections),
            Retry::Never | Retry::Anew => return false,
        };
        *count += 1;
        *count <= most
    }

    /// Whether the slice was moved before.
    #[must_use]
    pub fn have_begun(&self) -> bool {
        self.verify + self.connection > 0
    }

    /// The pause before the slice is moved again.
    #[must_use]
    pub fn pause(&self, longest: Duration) -> Duration {
        (PAUSE * self.connection).min(longest)
    }
}

fn is_temporary(errno: i32) -> bool {
    TEMPORARY.iter().any(|(temporary, _)| *temporary == errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_linux() {
        // The text of the standard library proves the number.
        let words = [
            ("EINTR", "Interrupted system call"),
            ("EIO", "Input/output error"),
            ("EAGAIN", "Resource temporarily unavailable"),
            ("ENOMEM", "Cannot allocate memory"),
            ("ENFILE", "Too many open files in system"),
            ("EMFILE", "Too many open files"),
            ("ENOBUFS", "No buffer space available"),
            ("ETIMEDOUT", "Connection timed out"),
            ("ESTALE", "Stale file handle"),
        ];
        for ((errno, name), (expected, text)) in TEMPORARY.into_iter().zip(words) {
            let shown = std::io::Error::from_raw_os_error(errno).to_string();
            assert_eq!((name, shown), (expected, format!("{text} (os error {errno})")));
        }
    }

    #[test]
    fn content_and_connections_have_retries_of_their_own() {
        let mut retries = Retries::default();
        assert!(!retries.may_repeat(Retry::Never, 9) && !retries.may_repeat(Retry::Anew, 9));
        assert!(!retries.have_begun() && retries.pause(LONGEST_PAUSE).is_zero());
        assert!((0..4).all(|count| retries.may_repeat(Retry::Again, 9) == (count < 3)));
        assert!(retries.have_begun() && retries.pause(LONGEST_PAUSE).is_zero());
        for lost in 1..=9 {
            assert!(retries.may_repeat(Retry::OtherStream, 9));
            assert_eq!(retries.pause(PAUSE * 5), PAUSE * lost.min(5));
        }
        assert!(!retries.may_repeat(Retry::OtherStream, 9));
    }

    #[test]
    fn every_other_error_is_permanent() {
        let temporary: Vec<i32> = (0..200).filter(|errno| Retry::of_read(*errno) == Retry::Again).collect();
        assert_eq!(temporary, TEMPORARY.map(|(errno, _)| errno));
        let anew: Vec<i32> = (0..200).filter(|errno| Retry::of_write(*errno) == Retry::Anew).collect();
        assert_eq!(anew, temporary);
        // ENOENT, EACCES, ENOSPC, EROFS, EDQUOT: the engine or the user acts on these.
        assert!([2, 13, 28, 30, 122].iter().all(|errno| Retry::of_read(*errno) == Retry::Never));
    }
}
