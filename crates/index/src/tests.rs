use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use haul_core::{Entry, EntryKind, RelPath, Timestamp};

use crate::stored::StoredIndex;
use crate::{Index, Stamp, Use};

const DEV: u64 = 7;
const WEEK: Duration = Duration::from_secs(7 * 86_400);

struct IndexTest {
    dir: tempfile::TempDir,
}

fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

/// A directory that was changed long ago.
fn stamp(ino: u64) -> Stamp {
    let long_ago = Timestamp { sec: 1_000_000_000, nsec: 5 };
    Stamp { dev: DEV, ino, mtime: long_ago, ctime: long_ago }
}

fn entry(directory: &RelPath, name: &str, len: u64) -> Entry {
    let mut entry = Entry::new(directory.join(name.as_bytes()).unwrap(), EntryKind::File, len);
    (entry.dev, entry.ino, entry.mode) = (DEV, len + 100, 0o640);
    entry.xattrs = vec![(serde_bytes::ByteBuf::from("user.x"), serde_bytes::ByteBuf::from(vec![3; 5]))];
    entry
}

impl IndexTest {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("index")
    }

    fn open_at(&self, dev: u64, refresh: Duration) -> (Index, Option<String>) {
        Index::open(&self.file(), b"/src", dev, refresh)
    }

    fn open(&self) -> Index {
        let (index, refused) = self.open_at(DEV, WEEK);
        assert_eq!(refused, None);
        index
    }

    /// Saves an index of these directories, each with so many files.
    fn saved(&self, directories: &[(&str, u64)]) {
        let (index, _) = self.open_at(DEV, WEEK);
        for (number, (name, files)) in directories.iter().enumerate() {
            see(&index, name, number as u64, *files);
        }
        index.scanned();
        index.save().unwrap();
    }

    fn left_over(&self) -> usize {
        fs::read_dir(self.dir.path()).unwrap().count()
    }
}

/// Lists the directory, which holds the files `00000`, `00001` and so on.
fn see(index: &Index, name: &str, ino: u64, files: u64) {
    let directory = path(name);
    let recording = index.record(&directory, stamp(ino)).unwrap();
    recording.hid();
    // Names come in any order.
    for file in (0..files).rev() {
        recording.saw(&entry(&directory, &format!("{file:05}"), file));
    }
    recording.listed(files);
}

/// The entries of the directory, if it is in the index.
fn entries_of(index: &Index, name: &str, ino: u64) -> Option<Vec<Entry>> {
    let known = index.directory(&path(name), &stamp(ino))?;
    assert_eq!(known.hidden(), 1);
    Some(known.entries().unwrap().map(Result::unwrap).collect())
}

fn expected(name: &str, files: u64) -> Option<Vec<Entry>> {
    Some((0..files).map(|file| entry(&path(name), &format!("{file:05}"), file)).collect())
}

#[test]
fn entries_of_unchanged_directories_come_from_the_index() {
    let case = IndexTest::new();
    let directories = [("", 3), ("a", 0), ("a/b", 5000), ("a-b", 2), ("c", 20_000), ("d/e", 1)];
    case.saved(&directories);
    let index = case.open();
    let stored = StoredIndex::open(&case.file(), b"/src").unwrap();
    assert!(stored.footer.blocks.len() > 5, "large directories are in several blocks");
    for (ino, (name, files)) in directories.into_iter().enumerate() {
        assert!(entries_of(&index, name, ino as u64) == expected(name, files), "{name}");
    }
    assert_eq!(entries_of(&index, "d", 0), None);
    assert_eq!(entries_of(&index, "a", 5), None, "another inode");
    let mut changed = stamp(3);
    changed.ctime.nsec += 1;
    assert!(index.directory(&path("a-b"), &changed).is_none());
    let Use { from_index, oldest, .. } = index.used();
    assert_eq!(from_index, 6);
    assert!(oldest < Duration::from_secs(60));
}

#[test]
fn names_are_known_in_unchanged_directories() {
    let case = IndexTest::new();
    case.saved(&[("a", 10), ("b", 20_000)]);
    let index = case.open();
    let paths: Vec<_> = ["a/00003", "a/none", "b/00000", "b/19999", "b/7", "b/09999", ""].map(path).to_vec();
    assert_eq!(index.holds(&paths), [false; 7], "nothing is known before a directory was looked at");
    assert!(entries_of(&index, "a", 0).is_some() && entries_of(&index, "b", 1).is_some());
    assert_eq!(index.holds(&paths), [true, false, true, true, false, true, false]);
}

#[test]
fn changed_directories_are_replaced_and_the_others_kept() {
    let case = IndexTest::new();
    case.saved(&[("a", 3), ("b", 3), ("c", 3), ("gone", 3)]);
    let index = case.open();
    assert!(entries_of(&index, "a", 0).is_some() && entries_of(&index, "c", 2).is_some());
    see(&index, "b", 50, 4);
    see(&index, "new", 60, 1);
    // A directory that was not listed to its end.
    let recording = index.record(&path("torn"), stamp(70)).unwrap();
    recording.saw(&entry(&path("torn"), "x", 1));
    recording.listed(2);
    drop(recording);
    index.scanned();
    index.save().unwrap();
    let index = case.open();
    for (name, ino, found) in [
        ("a", 0, expected("a", 3)),
        ("b", 50, expected("b", 4)),
        ("c", 2, expected("c", 3)),
        ("gone", 3, None),
        ("new", 60, expected("new", 1)),
        ("torn", 70, None),
    ] {
        assert!(entries_of(&index, name, ino) == found, "{name}");
    }
    assert_eq!(case.left_over(), 1);
}

#[test]
fn an_index_is_written_only_after_a_complete_scan_with_news() {
    let case = IndexTest::new();
    let index = case.open();
    see(&index, "a", 0, 1);
    index.save().unwrap();
    assert_eq!(case.left_over(), 0, "the run did not look at everything");
    case.saved(&[("a", 1)]);
    let before = fs::metadata(case.file()).unwrap().modified().unwrap();
    let index = case.open();
    assert!(entries_of(&index, "a", 0).is_some());
    index.scanned();
    index.save().unwrap();
    assert_eq!(fs::metadata(case.file()).unwrap().modified().unwrap(), before);
}

#[test]
fn a_recently_changed_directory_is_not_trusted() {
    let case = IndexTest::new();
    let index = case.open();
    let now = Timestamp::now();
    for (mtime, ctime) in [(now, stamp(0).ctime), (stamp(0).mtime, now)] {
        assert!(index.record(&path("a"), Stamp { mtime, ctime, ..stamp(0) }).is_none());
    }
    let future = Timestamp { sec: now.sec + 1000, nsec: 0 };
    assert!(index.record(&path("a"), Stamp { mtime: future, ..stamp(0) }).is_none());
    let settled = Timestamp { sec: now.sec - 3, nsec: 0 };
    assert!(index.record(&path("a"), Stamp { mtime: settled, ctime: settled, ..stamp(0) }).is_some());
}

#[test]
fn an_old_listing_is_not_used() {
    let case = IndexTest::new();
    case.saved(&[("a", 1)]);
    let (index, _) = case.open_at(DEV, Duration::ZERO);
    assert_eq!(entries_of(&index, "a", 0), None);
}

#[test]
fn a_remounted_file_system_is_recognized() {
    let case = IndexTest::new();
    case.saved(&[("a", 2)]);
    let (index, _) = case.open_at(99, WEEK);
    let known = index.directory(&path("a"), &Stamp { dev: 99, ..stamp(0) }).unwrap();
    assert!(known.entries().unwrap().all(|entry| entry.unwrap().dev == 99));
    index.scanned();
    index.save().unwrap();
    let (index, _) = case.open_at(99, WEEK);
    assert!(index.directory(&path("a"), &Stamp { dev: 99, ..stamp(0) }).is_some());
    assert!(index.directory(&path("a"), &stamp(0)).is_none());
}

#[test]
fn damaged_and_foreign_files_are_not_used() {
    let case = IndexTest::new();
    case.saved(&[("a", 2000)]);
    let whole = fs::read(case.file()).unwrap();
    let why = |bytes: &[u8]| {
        fs::write(case.file(), bytes).unwrap();
        case.open_at(DEV, WEEK).1.unwrap()
    };
    for len in [0, 7, 8, 47, 48, whole.len() / 2, whole.len() - 1] {
        assert!(why(&whole[..len]).contains("damaged"), "{len}");
    }
    for at in (0..whole.len()).step_by(997).chain([whole.len() - 1, whole.len() - 40]) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        assert!(!why(&bytes).is_empty(), "{at}");
    }
    let mut other = whole.clone();
    other[7] = b'9';
    assert!(why(&other).contains("version"));
    fs::write(case.file(), &whole).unwrap();
    let (_, refused) = Index::open(&case.file(), b"/other", DEV, WEEK);
    assert!(refused.unwrap().contains("another source, /src"));
}

/// Any file with a correct hash is read within bounds, and reading ends.
#[test]
fn no_bytes_do_harm() {
    let case = IndexTest::new();
    case.saved(&[("", 3), ("a", 200), ("a/b", 1000)]);
    let whole = fs::read(case.file()).unwrap();
    let body = whole.len() - 32;
    let footer = body - 8 - u64::from_le_bytes(whole[body - 8..body].try_into().unwrap()) as usize;
    let mut random = 1_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let mut used = 0;
    for round in 0..1000 {
        let mut bytes = whole[..body].to_vec();
        for _ in 0..=next(3) {
            // The footer decides most, so half of the changes are there.
            let at = if round % 2 == 0 { footer + next(body - footer) } else { 8 + next(body - 8) };
            bytes[at] = next(256) as u8;
        }
        let hash = blake3::hash(&bytes);
        bytes.extend(hash.as_bytes());
        fs::write(case.file(), &bytes).unwrap();
        let (index, refused) = case.open_at(DEV, WEEK);
        used += u32::from(refused.is_none());
        for (ino, name) in ["", "a", "a/b"].into_iter().enumerate() {
            if let Some(known) = index.directory(&path(name), &stamp(ino as u64)) {
                let _ = known.entries().map(|entries| entries.filter(Result::is_ok).count());
            }
        }
        let _ = index.holds(&[path("a/00001"), path("a/b/00999")]);
        if round % 20 == 0 {
            index.scanned();
            let _ = index.save();
        }
    }
    assert!(used > 50, "{used} of them were taken for sound");
}
