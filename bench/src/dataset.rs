//! The trees that are copied: described by tables, made from a seed, kept for later runs.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::stop::Stop;

/// The content of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileContent {
    /// Pages of rows as a database has them; zstd halves them.
    Pages,
    /// Random bytes.
    Random,
    /// Lines as a server logs them; gzip makes an eighth of it.
    Text,
}

/// Some files of one kind.
#[derive(Debug)]
pub(crate) struct FileGroup {
    /// Directory below the top of the tree.
    pub(crate) directory: &'static str,
    /// How many files.
    pub(crate) files: usize,
    /// Files in each numbered subdirectory; 0: all files are in the directory itself.
    pub(crate) per_directory: usize,
    /// Levels of directories that the numbered ones are spread over, [`FORK`] in each; 0: they are side by side.
    pub(crate) levels: u32,
    /// Smallest and largest file.
    pub(crate) size: (u64, u64),
    /// The content of the files.
    pub(crate) content: FileContent,
}

/// A tree of files.
#[derive(Debug)]
pub(crate) struct Dataset {
    /// Its name, also that of its directory.
    pub(crate) name: &'static str,
    /// Its groups of files.
    pub(crate) groups: &'static [FileGroup],
}

/// The size of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TreeSize {
    /// Regular files.
    pub(crate) files: u64,
    /// Directories, without the top.
    pub(crate) directories: u64,
    /// Sum of the sizes of the files.
    pub(crate) bytes: u64,
}

/// A tree on disk.
pub(crate) struct DatasetTree {
    /// Its top directory.
    pub(crate) path: PathBuf,
    /// Its size.
    pub(crate) extent: TreeSize,
}

const MB: u64 = 1_000_000;
const KB: u64 = 1_000;

const fn group(
    directory: &'static str,
    files: usize,
    per_directory: usize,
    size: (u64, u64),
    content: FileContent,
) -> FileGroup {
    FileGroup { directory, files, per_directory, levels: 0, size, content }
}

/// A database directory of 2 GB.
pub(crate) const DB: Dataset = Dataset {
    name: "db",
    groups: &[
        group("base", 1, 0, (1000 * MB, 1000 * MB), FileContent::Pages),
        group("index", 1, 0, (390 * MB, 390 * MB), FileContent::Pages),
        group("blobs", 1, 0, (190 * MB, 190 * MB), FileContent::Random),
        group("log", 20, 0, (16 * MB, 16 * MB), FileContent::Pages),
        group("tables", 1000, 100, (4 * KB, 128 * KB), FileContent::Pages),
    ],
};
/// The same, small.
pub(crate) const DB_QUICK: Dataset = Dataset {
    name: "db-quick",
    groups: &[
        group("base", 1, 0, (8 * MB, 8 * MB), FileContent::Pages),
        group("index", 1, 0, (4 * MB, 4 * MB), FileContent::Pages),
        group("blobs", 1, 0, (2 * MB, 2 * MB), FileContent::Random),
        group("log", 4, 0, (MB, MB), FileContent::Pages),
        group("tables", 20, 10, (4 * KB, 128 * KB), FileContent::Pages),
    ],
};
/// A database of 2 GB whose files are one directory deep: mbstream makes no more.
pub(crate) const SCHEMA: Dataset = Dataset {
    name: "schema",
    groups: &[
        group("shop", 20, 0, (95 * MB, 95 * MB), FileContent::Pages),
        group("crm", 1000, 0, (4 * KB, 128 * KB), FileContent::Pages),
    ],
};
/// One large file beside many small ones.
pub(crate) const MIXED: Dataset = Dataset {
    name: "mixed",
    groups: &[
        group("big", 1, 0, (1000 * MB, 1000 * MB), FileContent::Pages),
        group("small", 12_200, 100, (1 << 10, 16 << 10), FileContent::Pages),
    ],
};
/// The same, small.
pub(crate) const MIXED_QUICK: Dataset = Dataset {
    name: "mixed-quick",
    groups: &[
        group("big", 1, 0, (10 * MB, 10 * MB), FileContent::Pages),
        group("small", 200, 20, (1 << 10, 16 << 10), FileContent::Pages),
    ],
};
/// Many small files.
pub(crate) const SMALL: Dataset =
    Dataset { name: "small", groups: &[group("files", 122_000, 100, (64, 4096), FileContent::Pages)] };
/// The same, fewer.
pub(crate) const SMALL_QUICK: Dataset =
    Dataset { name: "small-quick", groups: &[group("files", 1_000, 100, (64, 4096), FileContent::Pages)] };
/// Tiny files, as many as it says.
pub(crate) const TEN_THOUSAND: Dataset =
    Dataset { name: "ten-thousand", groups: &[group("files", 10_000, 1000, (1, 256), FileContent::Pages)] };
/// Ten times as many.
pub(crate) const HUNDRED_THOUSAND: Dataset = Dataset {
    name: "hundred-thousand",
    groups: &[group("files", 100_000, 1000, (1, 256), FileContent::Pages)],
};
/// A million of them in one directory.
pub(crate) const ONE_DIR: Dataset =
    Dataset { name: "one-directory", groups: &[group("files", 1_000_000, 0, (1, 256), FileContent::Pages)] };
/// A million files.
pub(crate) const MILLION: Dataset =
    Dataset { name: "million", groups: &[group("files", 1_000_000, 1000, (1, 256), FileContent::Pages)] };
/// The same, fewer.
pub(crate) const MILLION_QUICK: Dataset =
    Dataset { name: "million-quick", groups: &[group("files", 2_000, 1000, (1, 256), FileContent::Pages)] };

/// One log of 738 MB.
pub(crate) const LOG: Dataset =
    Dataset { name: "text", groups: &[group("log", 1, 0, (738 * MB, 738 * MB), FileContent::Text)] };
/// The same, small.
pub(crate) const LOG_QUICK: Dataset =
    Dataset { name: "text-quick", groups: &[group("log", 1, 0, (20 * MB, 20 * MB), FileContent::Text)] };
/// One file that nothing makes smaller.
pub(crate) const NOISE_FILE: Dataset =
    Dataset { name: "noise", groups: &[group("blob", 1, 0, (200 * MB, 200 * MB), FileContent::Random)] };
/// The same, small.
pub(crate) const NOISE_FILE_QUICK: Dataset =
    Dataset { name: "noise-quick", groups: &[group("blob", 1, 0, (4 * MB, 4 * MB), FileContent::Random)] };

/// One large file.
pub(crate) const GIBIBYTE: Dataset =
    Dataset { name: "gibibyte", groups: &[group("blob", 1, 0, (1 << 30, 1 << 30), FileContent::Random)] };

/// A stream that nothing makes smaller.
pub(crate) const STREAM: Dataset =
    Dataset { name: "stream", groups: &[group("blob", 1, 0, (800 * MB, 800 * MB), FileContent::Random)] };
/// The same, small.
pub(crate) const STREAM_QUICK: Dataset =
    Dataset { name: "stream-quick", groups: &[group("blob", 1, 0, (30 * MB, 30 * MB), FileContent::Random)] };

/// One table of 738 MB.
pub(crate) const TABLE: Dataset =
    Dataset { name: "table", groups: &[group("table", 1, 0, (738 * MB, 738 * MB), FileContent::Pages)] };
/// The same, small.
pub(crate) const TABLE_QUICK: Dataset =
    Dataset { name: "table-quick", groups: &[group("table", 1, 0, (20 * MB, 20 * MB), FileContent::Pages)] };

/// One image of a disk.
pub(crate) const IMAGE: Dataset =
    Dataset { name: "image", groups: &[group("disk", 1, 0, (1 << 30, 1 << 30), FileContent::Pages)] };
/// Two of them in a row.
pub(crate) const TWO_IMAGES: Dataset = Dataset {
    name: "two-images",
    groups: &[group("disk", 1, 0, (2000 * MB, 2000 * MB), FileContent::Pages)],
};
/// One, small.
pub(crate) const IMAGE_QUICK: Dataset =
    Dataset { name: "image-quick", groups: &[group("disk", 1, 0, (20 << 20, 20 << 20), FileContent::Pages)] };

const NESTED: FileGroup = FileGroup {
    directory: "files",
    files: 8_000,
    per_directory: 8,
    levels: 5,
    size: (1 << 10, 4 << 10),
    content: FileContent::Pages,
};
/// As many small files as a mail server's directory has.
pub(crate) const MANY: Dataset =
    Dataset { name: "many", groups: &[group("files", 12_200, 100, (1 << 10, 16 << 10), FileContent::Pages)] };
/// The same, fewer.
pub(crate) const MANY_QUICK: Dataset = Dataset {
    name: "many-quick",
    groups: &[group("files", 400, 50, (1 << 10, 16 << 10), FileContent::Pages)],
};
/// Small files in a deep tree of a thousand directories.
pub(crate) const DEEP: Dataset = Dataset { name: "deep", groups: &[NESTED] };
/// The same, fewer.
pub(crate) const DEEP_QUICK: Dataset =
    Dataset { name: "deep-quick", groups: &[FileGroup { files: 200, ..NESTED }] };
/// Small files in one directory.
pub(crate) const WIDE: Dataset =
    Dataset { name: "wide", groups: &[group("files", 12_200, 0, (1 << 10, 16 << 10), FileContent::Pages)] };
/// The same, fewer.
pub(crate) const WIDE_QUICK: Dataset = Dataset {
    name: "wide-quick",
    groups: &[group("files", 300, 0, (1 << 10, 16 << 10), FileContent::Pages)],
};

/// Directories in each directory of a deep tree.
const FORK: usize = 4;
/// Raised when the contents of the same tables change.
const VERSION: u32 = 1;
/// The time of the first file: 2024-01-01.
const EPOCH: u64 = 1_704_067_200;
const PAGE: usize = 8192;
const ROW: usize = 128;
/// Random bytes in each row; together with the rest it gives zstd -1 a ratio of 2.
const NOISE: usize = 58;
const CHUNK: usize = 128 * PAGE;

impl FileGroup {
    /// The names on the way to the numbered directory.
    fn place(&self, number: usize) -> Vec<String> {
        if self.levels == 0 {
            return vec![format!("{number:04}")];
        }
        (0..self.levels).rev().map(|level| format!("{}", number / FORK.pow(level) % FORK)).collect()
    }
}

impl Dataset {
    /// The path of its only file, if it has no other.
    pub(crate) fn only_file(&self) -> Option<String> {
        match self.groups {
            [FileGroup { files: 1, directory, per_directory: 0, .. }] => {
                Some(format!("{directory}/000000.dat"))
            }
            _ => None,
        }
    }

    /// About how many bytes the tree takes on disk, files in whole blocks and their inodes.
    pub(crate) fn footprint(&self) -> u64 {
        let one = |g: &FileGroup| g.files as u64 * ((g.size.0 + g.size.1) / 2 / 4096 + 2) * 4096;
        self.groups.iter().map(one).sum()
    }

    /// The tree below `base`, made now unless it is there from an earlier run.
    pub(crate) fn prepare(&self, base: &Path, stop: &Stop) -> Result<DatasetTree> {
        let path = base.join(format!("{}-v{VERSION}", self.name));
        let note = base.join(format!("{}-v{VERSION}.json", self.name));
        fs::create_dir_all(base).with_context(|| format!("cannot make {}", base.display()))?;
        let lock = File::create(base.join("datasets.lock"))?;
        lock.lock().context("cannot lock the data sets")?;
        if path.is_dir()
            && let Ok(text) = fs::read(&note)
            && let Ok(extent) = serde_json::from_slice(&text)
        {
            return Ok(DatasetTree { path, extent });
        }
        eprintln!("making the data set {} in {}", self.name, path.display());
        let half_made = base.join(format!("{}-unfinished", self.name));
        for old in [&half_made, &path] {
            if old.exists() {
                fs::remove_dir_all(old)?;
            }
        }
        let extent =
            self.make(&half_made, stop).with_context(|| format!("cannot make the data set {}", self.name))?;
        fs::rename(&half_made, &path)?;
        fs::write(&note, serde_json::to_vec(&extent)?)?;
        Ok(DatasetTree { path, extent })
    }

    fn make(&self, top: &Path, stop: &Stop) -> Result<TreeSize> {
        let mut extent = TreeSize::default();
        let mut directories = vec![top.to_owned()];
        fs::create_dir_all(top)?;
        let mut filler = Filler::new();
        for (index, group) in self.groups.iter().enumerate() {
            let mut random = ChaCha8Rng::seed_from_u64(index as u64 + 1);
            let mut directory = top.join(group.directory);
            fs::create_dir(&directory)?;
            directories.push(directory.clone());
            for number in 0..group.files {
                if group.per_directory > 0 && number % group.per_directory == 0 {
                    directory = top.join(group.directory);
                    for name in group.place(number / group.per_directory) {
                        directory.push(name);
                        if !directory.exists() {
                            fs::create_dir(&directory)?;
                            directories.push(directory.clone());
                        }
                    }
                }
                if number % 64 == 0 {
                    stop.check()?;
                }
                let (least, most) = group.size;
                let size = least + random.next_u64() % (most - least + 1);
                let path = directory.join(format!("{number:06}.dat"));
                filler
                    .write(&path, size, group.content, &mut random, extent.files)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                extent.files += 1;
                extent.bytes += size;
            }
        }
        // Innermost first: making an entry changes the time of its directory.
        for (number, directory) in directories.iter().enumerate().rev() {
            File::open(directory)?.set_modified(time(number as u64))?;
        }
        extent.directories = directories.len() as u64 - 1;
        Ok(extent)
    }
}

/// Turns a copy into an older state of its source: one in a hundred pages of 16 KiB differs, and the times are an hour
/// earlier.
pub(crate) fn make_older(top: &Path) -> Result<()> {
    const CHANGED: u64 = 16 * 1024;
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut page = vec![0; CHANGED as usize];
    for directory in fs::read_dir(top)? {
        for name in fs::read_dir(directory?.path())? {
            let file = File::options().write(true).open(name?.path())?;
            let was = file.metadata()?;
            for number in 0..was.len() / CHANGED {
                if random.next_u64().is_multiple_of(100) {
                    random.fill_bytes(&mut page);
                    file.write_all_at(&page, number * CHANGED)?;
                }
            }
            file.set_modified(was.modified()? - Duration::from_secs(3600))?;
        }
    }
    Ok(())
}

/// Whole seconds, since not every format of every tool keeps more.
fn time(number: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(EPOCH + number)
}

/// Writes files; the buffer serves for all.
struct Filler {
    buffer: Vec<u8>,
    rows: u64,
}

impl Filler {
    fn new() -> Self {
        Self { buffer: vec![0; CHUNK], rows: 0 }
    }

    fn write(
        &mut self,
        path: &Path,
        size: u64,
        content: FileContent,
        random: &mut ChaCha8Rng,
        number: u64,
    ) -> Result<()> {
        let mut file = File::create(path)?;
        let mut left = size;
        while left > 0 {
            let length = left.min(CHUNK as u64) as usize;
            let part = &mut self.buffer[..length];
            match content {
                FileContent::Random => random.fill_bytes(part),
                FileContent::Pages => {
                    random.fill_bytes(part);
                    for row in part.chunks_mut(ROW) {
                        self.rows += 1;
                        shape_row(row, self.rows);
                    }
                }
                FileContent::Text => write_lines(part, random, &mut self.rows),
            }
            file.write_all(part)?;
            left -= length as u64;
        }
        file.set_modified(time(number))?;
        Ok(())
    }
}

/// Makes a row of random bytes look like one of a table: a key, a time, a state in words, and
/// the noise that is left.
fn shape_row(row: &mut [u8], number: u64) {
    const STATES: [&str; 4] = [
        "sent;carrier=standard;country=de;currency=eur;vat=19;notes=none",
        "pending;carrier=express;country=fr;currency=eur;vat=20;notes=gift",
        "returned;carrier=standard;country=us;currency=usd;vat=0;notes=late",
        "cancelled;carrier=none;country=jp;currency=jpy;vat=10;notes=empty",
    ];
    let Some((head, words)) = row.split_at_mut_checked(NOISE + 16) else {
        return;
    };
    let state = STATES[usize::from(head[16] & 3)].as_bytes();
    head[..8].copy_from_slice(&number.to_le_bytes());
    head[8..16].copy_from_slice(&(EPOCH + number / 16).to_le_bytes());
    words.fill(b' ');
    let length = words.len().min(state.len());
    words[..length].copy_from_slice(&state[..length]);
}

/// Fills `part` with lines of a log, the last one cut off. `clock` is the time in milliseconds.
fn write_lines(mut part: &mut [u8], random: &mut ChaCha8Rng, clock: &mut u64) {
    const PATHS: [&str; 8] = [
        "/api/v1/orders",
        "/api/v1/orders/items",
        "/static/app.js",
        "/login",
        "/search",
        "/api/v1/customers",
        "/health",
        "/img/logo.svg",
    ];
    const MESSAGES: [&str; 8] = [
        "request completed",
        "request completed",
        "request completed",
        "request completed",
        "cache miss, read from the database",
        "cache miss, read from the database",
        "retry after timeout of the upstream",
        "connection reused",
    ];
    while !part.is_empty() {
        let mut bits = random.next_u64();
        let mut take = |count: u32| {
            let value = bits & ((1 << count) - 1);
            bits >>= count;
            value
        };
        *clock += take(5);
        let (path, message) = (PATHS[take(3) as usize], MESSAGES[take(3) as usize]);
        let (host, process) = (take(2), 2000 + take(2));
        let status = if take(4) == 0 { 404 } else { 200 };
        let (bytes, user, duration) = (1024 * (1 + take(5)), 1000 + take(12), take(7));
        let trace = random.next_u32();
        let (time, ms) = (*clock / 1000, *clock % 1000);
        let (hour, minute, second) = (time / 3600 % 24, time / 60 % 60, time % 60);
        let line = format!(
            "2024-01-01T{hour:02}:{minute:02}:{second:02}.{ms:03}Z web-{host} app[{process}]: INFO method=GET \
             path={path} status={status} bytes={bytes} user={user} duration={duration}ms trace={trace:08x} \
             message=\"{message}\"\n"
        );
        // It writes as much as there is room for.
        let _ = part.write(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_made_once_and_always_the_same() {
        let base = std::env::temp_dir().join(format!("haul-bench-test-{}", std::process::id()));
        let stop = Stop::default();
        const SET: Dataset = Dataset {
            name: "tiny",
            groups: &[
                group("a", 5, 2, (1, 300_000), FileContent::Pages),
                group("b", 1, 0, (99, 99), FileContent::Random),
                group("c", 1, 0, (300_000, 300_000), FileContent::Text),
            ],
        };
        let tree = SET.prepare(&base, &stop).unwrap();
        assert_eq!((tree.extent.files, tree.extent.directories), (7, 6));
        let file = tree.path.join("a/0001/000002.dat");
        let first = fs::read(&file).unwrap();
        assert_eq!(SET.prepare(&base, &stop).unwrap().extent, tree.extent);
        fs::remove_dir_all(&tree.path).unwrap();
        SET.prepare(&base, &stop).unwrap();
        assert_eq!(fs::read(&file).unwrap(), first);
        fs::remove_dir_all(&base).unwrap();
    }
}
