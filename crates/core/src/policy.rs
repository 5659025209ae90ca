//! Decides whether the destination already has an offered entry, and whether the options allow haul to change it.
//!
//! [`decide`] is the only place with these rules. It asks the end through [`Existing`], in the order in which the rules
//! need the answers, so that an end computes an answer that costs a system call only where a rule depends on it.

use crate::changes::Changes;
use crate::digest::Digest;
use crate::entry::{Entry, EntryKind, Timestamp};
use crate::error::{Error, ErrorKind, Side};
use crate::options::{Compare, SinkOptions};
use crate::sink::{Offer, SkipReason};

/// The kind of an entry at the destination, without its link target or device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl From<&EntryKind> for ExistingKind {
    fn from(kind: &EntryKind) -> Self {
        match kind {
            EntryKind::File => Self::File,
            EntryKind::Dir => Self::Dir,
            EntryKind::Symlink(_) => Self::Symlink,
            EntryKind::Fifo => Self::Fifo,
            EntryKind::Socket => Self::Socket,
            EntryKind::CharDevice(_) => Self::CharDevice,
            EntryKind::BlockDevice(_) => Self::BlockDevice,
        }
    }
}

impl ExistingKind {
    /// The error of a file whose destination itself, at the name that the user gave, is a device, a pipe or a socket, such
    /// as `/dev/null`: the file never replaces it. Below the destination, a special file is an entry like any other.
    #[must_use]
    pub fn refusal(self, entry: &Entry) -> Option<Error> {
        let cause = match self {
            Self::CharDevice | Self::BlockDevice => "it is a device, which a file does not replace",
            Self::Fifo => "it is a pipe, which a file does not replace",
            Self::Socket => "it is a socket, which a file does not replace",
            Self::File | Self::Dir | Self::Symlink => return None,
        };
        let error = Error::new(ErrorKind::Usage, Side::Destination, "copy to", cause);
        let error = error.with_hint("`haul get SRC FILE` writes into a pipe or a character device");
        (entry.path.is_root() && entry.is_file()).then_some(error)
    }
}

/// The entry that the destination has under the name of an offered entry.
pub trait Existing {
    /// The kind of the entry; `None` if the end cannot tell.
    fn kind(&self) -> Option<ExistingKind>;

    /// The length of a file in bytes; `None` if the end cannot tell.
    fn size(&self) -> Option<u64>;

    /// Whether the modification time is `time`, as precisely as the destination keeps times and the options ask.
    fn has_time(&self, time: Timestamp) -> bool;

    /// Whether the modification time is later than `time`, by the same precision.
    fn is_newer_than(&self, time: Timestamp) -> bool;

    /// The device number of a device; `None` if the end cannot tell.
    fn device(&self) -> Option<u64> {
        None
    }

    /// Whether size and time are no evidence for the content, because a crash may have cut the content off.
    fn is_suspect(&self) -> bool {
        false
    }
}

/// The decision about the content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The destination has no entry of that name.
    Missing,
    /// The destination has the same content.
    Same,
    /// The destination has other content, or another kind of entry.
    Differs,
    /// An option excludes the entry.
    Left(SkipReason),
    /// The content is the same if the symbolic link has the same target.
    CompareTarget,
    /// The content is the same if the file has this digest.
    CompareDigest(Digest),
}

impl Verdict {
    /// The verdict after a comparison of targets or digests.
    #[must_use]
    pub fn of_comparison(is_same: bool) -> Self {
        if is_same { Self::Same } else { Self::Differs }
    }
}

/// Compares an offered entry with `seen`, which the destination has under its name (`None`: nothing).
///
/// In this order: `--existing` excludes a missing entry; two directories are the same; `--ignore-existing` excludes any
/// other entry that exists; entries of different kinds differ; `--update` excludes a file that is newer at the
/// destination; then content is compared as [`SinkOptions::compare`] says.
///
/// ```
/// use std::sync::Arc;
/// use haul_core::policy::{Existing, ExistingKind, Verdict, decide};
/// use haul_core::{Entry, EntryKind, SkipReason, Offer, RelPath, SinkOptions, Timestamp};
///
/// struct File { len: u64, modified: Timestamp }
///
/// impl Existing for File {
///     fn kind(&self) -> Option<ExistingKind> { Some(ExistingKind::File) }
///     fn size(&self) -> Option<u64> { Some(self.len) }
///     fn has_time(&self, time: Timestamp) -> bool { self.modified == time }
///     fn is_newer_than(&self, time: Timestamp) -> bool { self.modified > time }
/// }
///
/// let entry = Entry::new(RelPath::new(b"notes.txt")?, EntryKind::File, 5);
/// let offer = Offer { entry: Arc::new(entry), digest: None };
/// let newer = File { len: 5, modified: Timestamp { sec: 1, nsec: 0 } };
/// let mut options = SinkOptions::default();
/// assert_eq!(decide(&options, &offer, None::<&File>), Verdict::Missing);
/// assert_eq!(decide(&options, &offer, Some(&newer)), Verdict::Differs);
/// options.update = true;
/// assert_eq!(decide(&options, &offer, Some(&newer)), Verdict::Left(SkipReason::Newer));
/// # Ok::<(), haul_core::path::BadPath>(())
/// ```
pub fn decide<S: Existing + ?Sized>(options: &SinkOptions, offer: &Offer, seen: Option<&S>) -> Verdict {
    let entry = &*offer.entry;
    let Some(seen) = seen else {
        return if options.existing { Verdict::Left(SkipReason::Missing) } else { Verdict::Missing };
    };
    let kind = seen.kind();
    if entry.is_dir() && kind == Some(ExistingKind::Dir) {
        return Verdict::Same;
    }
    if options.ignore_existing {
        return Verdict::Left(SkipReason::Exists);
    }
    if kind != Some(ExistingKind::from(&entry.kind)) {
        return Verdict::Differs;
    }
    match &entry.kind {
        EntryKind::File => file(options, offer, seen),
        EntryKind::Symlink(_) => Verdict::CompareTarget,
        EntryKind::CharDevice(number) | EntryKind::BlockDevice(number) => {
            Verdict::of_comparison(seen.device() == Some(*number))
        }
        EntryKind::Dir | EntryKind::Fifo | EntryKind::Socket => Verdict::Same,
    }
}

/// How an offered entry differs from `seen`. `verdict` is the result of the comparison; `metadata` compares the metadata
/// of an entry of the same kind. Without [`SinkOptions::itemize`] only whether the entry is new.
pub fn changes<S: Existing + ?Sized>(
    options: &SinkOptions,
    entry: &Entry,
    seen: Option<&S>,
    verdict: &Verdict,
    metadata: impl FnOnce() -> Changes,
) -> Changes {
    let Some(seen) = seen else { return Changes::NEW };
    if !options.itemize {
        return Changes::NONE;
    }
    if seen.kind() != Some(ExistingKind::from(&entry.kind)) {
        return Changes::KIND;
    }
    let differs = *verdict == Verdict::Differs;
    let (is_file, by_digest) = (entry.is_file(), options.compare == Compare::Checksum);
    let size = Changes::SIZE.when(is_file && seen.size() != Some(entry.len));
    size | Changes::CONTENT.when(differs && (!is_file || by_digest)) | metadata()
}

/// Whether `--update` excludes a file because `seen`, which the destination has under its name, is a newer file. A further
/// name of a file is excluded as the file itself.
pub fn is_newer<S: Existing + ?Sized>(options: &SinkOptions, entry: &Entry, seen: &S) -> bool {
    let is_file = entry.is_file() && seen.kind() == Some(ExistingKind::File);
    options.update && is_file && seen.is_newer_than(entry.mtime)
}

fn file<S: Existing + ?Sized>(options: &SinkOptions, offer: &Offer, seen: &S) -> Verdict {
    let entry = &*offer.entry;
    if is_newer(options, entry, seen) {
        return Verdict::Left(SkipReason::Newer);
    }
    if seen.size() != Some(entry.len) {
        return Verdict::Differs;
    }
    match (options.compare, offer.digest) {
        (Compare::SizeOnly | Compare::SizeAndTime, _) if seen.is_suspect() => Verdict::Differs,
        (Compare::SizeOnly | Compare::Metadata, _) => Verdict::Same,
        (Compare::SizeAndTime, _) => Verdict::of_comparison(seen.has_time(entry.mtime)),
        (Compare::Checksum, Some(digest)) => Verdict::CompareDigest(digest),
        (Compare::Checksum, None) | (Compare::Nothing, _) => Verdict::Differs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::path::RelPath;

    const DIGEST: Digest = Digest([7; 32]);
    const KINDS: [EntryKind; 7] = [
        EntryKind::File,
        EntryKind::Dir,
        EntryKind::Symlink(Vec::new()),
        EntryKind::Fifo,
        EntryKind::Socket,
        EntryKind::CharDevice(5),
        EntryKind::BlockDevice(5),
    ];

    #[derive(Clone, Copy, Debug)]
    struct There {
        kind: Option<ExistingKind>,
        len: Option<u64>,
        sec: i64,
        device: Option<u64>,
        suspect: bool,
    }

    impl Existing for There {
        fn kind(&self) -> Option<ExistingKind> {
            self.kind
        }

        fn size(&self) -> Option<u64> {
            self.len
        }

        fn has_time(&self, time: Timestamp) -> bool {
            self.sec == time.sec
        }

        fn is_newer_than(&self, time: Timestamp) -> bool {
            self.sec > time.sec
        }

        fn device(&self) -> Option<u64> {
            self.device
        }

        fn is_suspect(&self) -> bool {
            self.suspect
        }
    }

    fn offer(kind: &EntryKind, digest: bool) -> Offer {
        let mtime = Timestamp { sec: 100, nsec: 0 };
        let entry = Entry::new(RelPath::new(b"name").unwrap(), kind.clone(), 10);
        Offer { entry: Arc::new(Entry { mtime, ..entry }), digest: digest.then_some(DIGEST) }
    }

    fn all_options() -> impl Iterator<Item = SinkOptions> {
        let compares =
            [Compare::SizeAndTime, Compare::SizeOnly, Compare::Checksum, Compare::Nothing, Compare::Metadata];
        compares.into_iter().flat_map(|compare| {
            (0..8).map(move |bits| SinkOptions {
                compare,
                existing: bits & 1 != 0,
                ignore_existing: bits & 2 != 0,
                update: bits & 4 != 0,
                ..SinkOptions::default()
            })
        })
    }

    fn all_seen() -> Vec<There> {
        let kinds = KINDS.map(|kind| Some(ExistingKind::from(&kind))).into_iter().chain([None]);
        let mut all = Vec::new();
        for kind in kinds {
            for len in [None, Some(9), Some(10)] {
                for sec in [99, 100, 101] {
                    for (device, suspect) in
                        [(None, false), (Some(4), false), (Some(5), false), (Some(5), true)]
                    {
                        all.push(There { kind, len, sec, device, suspect });
                    }
                }
            }
        }
        all
    }

    /// The rules as statements that each combination of options, offer and destination must satisfy.
    #[test]
    fn every_combination_follows_the_rules() {
        let mut count = 0;
        for options in all_options() {
            for (kind, digest) in KINDS.iter().flat_map(|kind| [(kind, false), (kind, true)]) {
                let offer = offer(kind, digest);
                let missing = decide(&options, &offer, None::<&There>);
                let left = Verdict::Left(SkipReason::Missing);
                assert_eq!(missing, if options.existing { left } else { Verdict::Missing });
                for seen in all_seen() {
                    let verdict = decide(&options, &offer, Some(&seen));
                    assert_eq!(verdict, expected(&options, &offer, seen), "{options:?} {offer:?} {seen:?}");
                    count += 1;
                }
            }
        }
        assert_eq!(count, 40 * 14 * 288);
    }

    /// The first row whose condition holds decides, as a table for people states it.
    fn expected(options: &SinkOptions, offer: &Offer, seen: There) -> Verdict {
        let wanted = ExistingKind::from(&offer.entry.kind);
        let is_file = wanted == ExistingKind::File;
        let is_device = matches!(wanted, ExistingKind::CharDevice | ExistingKind::BlockDevice);
        let checksum = options.compare == Compare::Checksum;
        let by_time = options.compare == Compare::SizeAndTime;
        let rows = [
            (wanted == ExistingKind::Dir && seen.kind == Some(ExistingKind::Dir), Verdict::Same),
            (options.ignore_existing, Verdict::Left(SkipReason::Exists)),
            (seen.kind != Some(wanted), Verdict::Differs),
            (wanted == ExistingKind::Symlink, Verdict::CompareTarget),
            (is_device && seen.device != Some(5), Verdict::Differs),
            (!is_file, Verdict::Same),
            (options.update && seen.sec > 100, Verdict::Left(SkipReason::Newer)),
            (seen.len != Some(10), Verdict::Differs),
            (options.compare == Compare::Nothing, Verdict::Differs),
            (checksum && offer.digest.is_none(), Verdict::Differs),
            (checksum, Verdict::CompareDigest(DIGEST)),
            (options.compare == Compare::Metadata, Verdict::Same),
            (seen.suspect, Verdict::Differs),
            (by_time && seen.sec != 100, Verdict::Differs),
            (true, Verdict::Same),
        ];
        rows.into_iter().find_map(|(holds, verdict)| holds.then_some(verdict)).unwrap()
    }

    /// A rule that does not need the times must not ask for them: at some ends the answer costs system calls.
    #[test]
    fn asks_for_times_only_where_a_rule_needs_them() {
        struct NoTimes(u64);
        impl Existing for NoTimes {
            fn kind(&self) -> Option<ExistingKind> {
                Some(ExistingKind::File)
            }
            fn size(&self) -> Option<u64> {
                Some(self.0)
            }
            fn has_time(&self, _: Timestamp) -> bool {
                panic!("asked for the time")
            }
            fn is_newer_than(&self, _: Timestamp) -> bool {
                panic!("asked for the time")
            }
        }
        let offer = offer(&EntryKind::File, true);
        for compare in [Compare::SizeOnly, Compare::Checksum, Compare::Metadata] {
            let options = SinkOptions { compare, ..SinkOptions::default() };
            assert_ne!(decide(&options, &offer, Some(&NoTimes(10))), Verdict::Differs);
        }
        assert_eq!(decide(&SinkOptions::default(), &offer, Some(&NoTimes(9))), Verdict::Differs);
    }
}
