//! The table of cases. A new case is a new value here.

use std::time::Duration;

use crate::dataset::{
    DB, DB_QUICK, DEEP, DEEP_QUICK, Dataset, GIBIBYTE, HUNDRED_THOUSAND, IMAGE, IMAGE_QUICK, LOG, LOG_QUICK,
    MANY, MANY_QUICK, MILLION, MILLION_QUICK, MIXED, MIXED_QUICK, NOISE_FILE, NOISE_FILE_QUICK, ONE_DIR,
    SCHEMA, SMALL, SMALL_QUICK, STREAM, STREAM_QUICK, TABLE, TABLE_QUICK, TEN_THOUSAND, TWO_IMAGES, WIDE,
    WIDE_QUICK,
};
use crate::link::LinkSpec;
use crate::tool_sets::{CLIENTS, LOCAL, MOUNTED, PACKING, PIPES, REMOTE, SHARES, UNPACKERS};
use crate::units::{show_rate, show_time};

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataDirection {
    /// From the near machine to the far one.
    Push,
    /// From the far machine to the near one.
    Pull,
    /// Within one machine, without a link.
    Local,
}

/// Where the trees are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreePlace {
    /// Below `--dir`, by default in memory.
    Memory,
    /// Below `--disk-dir`.
    Disk,
}

/// The server at the remote end of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Far {
    /// A machine with an sshd.
    Machine,
    /// An object store.
    Bucket,
    /// An object store that holds the tree as one stream of xbstream.
    Stream,
    /// An SMB server, whose share has the trees of both sides.
    Share,
}

/// Which side of a copy is behind a file system that answers late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlowSide {
    /// The source. Nothing of it is in the caches of the kernel.
    Source(Duration),
    /// The target.
    Target(Duration),
}

impl SlowSide {
    /// The delay of each request.
    pub(crate) fn delay(self) -> Duration {
        match self {
            Self::Source(delay) | Self::Target(delay) => delay,
        }
    }
}

/// Which copies of a series are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passes {
    /// Each to a destination that is not there yet.
    First,
    /// Each to a destination that is complete already.
    Again,
    /// One of each in every round.
    Both,
    /// Each to a destination of which one page in a hundred has changed since.
    Changed,
}

/// One case.
#[derive(Debug)]
pub(crate) struct BenchCase {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// A description in a few words.
    pub(crate) about: &'static str,
    /// The data set.
    pub(crate) data: &'static Dataset,
    /// The data set with `--quick`.
    pub(crate) quick: &'static Dataset,
    /// Where the trees are.
    pub(crate) store: TreePlace,
    /// The direction.
    pub(crate) route: DataDirection,
    /// The link; none for a copy within one machine.
    pub(crate) link: Option<LinkSpec>,
    /// The server at the remote end of the link.
    pub(crate) far: Far,
    /// Whether a stream out of a bucket goes into another program; else into a file.
    pub(crate) piped: bool,
    /// The side that is slow; `None`: neither.
    pub(crate) slow: Option<SlowSide>,
    /// Which copies are reported.
    pub(crate) passes: Passes,
    /// Names of tools, see [`crate::peers::TOOLS`].
    pub(crate) tools: &'static [&'static str],
    /// A single copy that takes longer is ended.
    pub(crate) timeout: Duration,
}

const fn mbit(rate: u64, rtt_ms: u64) -> Option<LinkSpec> {
    Some(LinkSpec::new(rate * 1_000_000, Duration::from_millis(rtt_ms)))
}

const fn gbit(rate: u64, rtt_ms: u64) -> Option<LinkSpec> {
    Some(LinkSpec::new(rate * 1_000_000_000, Duration::from_millis(rtt_ms)))
}

/// The same with a probability of losing a segment.
const fn lossy(rate: u64, rtt_ms: u64, loss: f64) -> Option<LinkSpec> {
    match gbit(rate, rtt_ms) {
        Some(link) => Some(LinkSpec { loss, ..link }),
        None => None,
    }
}

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// A push of a database directory. Other cases take each value from here that they do not set.
const PUSH: BenchCase = BenchCase {
    name: "",
    about: "",
    data: &DB,
    quick: &DB_QUICK,
    store: TreePlace::Memory,
    route: DataDirection::Push,
    link: None,
    far: Far::Machine,
    piped: true,
    slow: None,
    passes: Passes::First,
    tools: REMOTE,
    timeout: minutes(10),
};

/// Over a link on which packing decides.
const PACKED: BenchCase = BenchCase { link: mbit(100, 10), tools: PACKING, timeout: minutes(5), ..PUSH };

/// Small files onto an SMB share, 4 ms away.
const SHARED: BenchCase =
    BenchCase { data: &DEEP, quick: &DEEP_QUICK, link: gbit(1, 4), far: Far::Share, tools: SHARES, ..PUSH };

/// One large file.
const SHARED_FILE: BenchCase = BenchCase { data: &GIBIBYTE, quick: &NOISE_FILE_QUICK, ..SHARED };

/// A stream into an object store.
const PUT: BenchCase = BenchCase {
    data: &STREAM,
    quick: &STREAM_QUICK,
    far: Far::Bucket,
    tools: CLIENTS,
    timeout: minutes(5),
    ..PUSH
};

/// A stream out of one.
const GET: BenchCase = BenchCase { route: DataDirection::Pull, ..PUT };
/// A database of 2 GB out of one, as a tree.
const GET_TREE: BenchCase = BenchCase { data: &SCHEMA, quick: &TABLE_QUICK, ..GET };

/// Small files into one.
const OBJECTS: BenchCase = BenchCase { data: &MANY, quick: &MANY_QUICK, link: gbit(1, 20), ..PUT };

/// From one place of a disk to another.
const ON_DISK: BenchCase = BenchCase {
    store: TreePlace::Disk,
    route: DataDirection::Local,
    tools: LOCAL,
    timeout: minutes(5),
    ..PUSH
};

/// From a program here to a program there.
const PIPE: BenchCase =
    BenchCase { data: &IMAGE, quick: &IMAGE_QUICK, tools: PIPES, timeout: minutes(5), ..PUSH };

/// How the time and the memory grow with the entries.
const ENTRIES: BenchCase = BenchCase {
    quick: &MILLION_QUICK,
    route: DataDirection::Local,
    passes: Passes::Both,
    tools: &["haul", "haul sync", "cp -a"],
    ..PUSH
};

/// Onto a file system that answers late, in directories.
const MOUNT: BenchCase = BenchCase {
    data: &MANY,
    quick: &MANY_QUICK,
    route: DataDirection::Local,
    slow: Some(SlowSide::Target(MS2)),
    tools: MOUNTED,
    ..PUSH
};

const MS2: Duration = Duration::from_millis(2);

/// All cases.
pub(crate) static CASES: &[BenchCase] = &[
    BenchCase {
        name: "wan1g",
        about: "a database directory of 2 GB over a long line",
        link: gbit(1, 60),
        ..PUSH
    },
    BenchCase { name: "wan5g", about: "the same over a long and fast line", link: gbit(5, 60), ..PUSH },
    BenchCase {
        name: "loss1g",
        about: "the same over a long line that loses one segment in ten thousand",
        link: lossy(1, 100, 0.0001),
        ..PUSH
    },
    BenchCase {
        name: "pull5g",
        about: "as wan5g, from the far machine to the near one",
        route: DataDirection::Pull,
        link: gbit(5, 60),
        ..PUSH
    },
    BenchCase {
        name: "text100m",
        about: "one log of 738 MB over a slow line",
        data: &LOG,
        quick: &LOG_QUICK,
        ..PACKED
    },
    BenchCase {
        name: "textpull100m",
        about: "as text100m, from the far machine to the near one",
        data: &LOG,
        quick: &LOG_QUICK,
        route: DataDirection::Pull,
        ..PACKED
    },
    BenchCase {
        name: "noise100m",
        about: "200 MB that nothing makes smaller over a slow line",
        data: &NOISE_FILE,
        quick: &NOISE_FILE_QUICK,
        ..PACKED
    },
    BenchCase {
        name: "lan",
        about: "the same without delay: what the tools cost",
        link: gbit(40, 0),
        timeout: minutes(5),
        ..PUSH
    },
    BenchCase {
        name: "lan-disk",
        about: "the same from a disk to a disk",
        link: gbit(40, 0),
        store: TreePlace::Disk,
        timeout: minutes(5),
        ..PUSH
    },
    BenchCase {
        name: "local",
        about: "one file of 1 GB and 12,200 small ones on one disk",
        data: &MIXED,
        quick: &MIXED_QUICK,
        ..ON_DISK
    },
    BenchCase {
        name: "local-small",
        about: "12,200 small files in 122 directories on one disk",
        data: &MANY,
        quick: &MANY_QUICK,
        ..ON_DISK
    },
    BenchCase { name: "local-db", about: "a database directory of 2 GB on one disk", ..ON_DISK },
    BenchCase {
        name: "nothing",
        about: "122,000 small files that are all there already, over a long line",
        data: &SMALL,
        quick: &SMALL_QUICK,
        link: gbit(1, 60),
        passes: Passes::Again,
        tools: &["haul", "rsync"],
        ..PUSH
    },
    BenchCase {
        name: "delta",
        about: "one file of 1 GiB of which 1 % of the 16 KiB pages changed, over a long line",
        data: &IMAGE,
        quick: &IMAGE_QUICK,
        link: gbit(1, 60),
        passes: Passes::Changed,
        tools: &["haul", "haul --inplace", "haul --delta off", "rsync", "rsync --inplace"],
        timeout: minutes(5),
        ..PUSH
    },
    BenchCase {
        name: "put5g",
        about: "800 MB into an object store over a long and fast line",
        link: gbit(5, 60),
        ..PUT
    },
    BenchCase { name: "get5g", about: "the same out of it, to a pipe", link: gbit(5, 60), ..GET },
    BenchCase {
        name: "put1g",
        about: "800 MB into an object store over a long line",
        link: gbit(1, 60),
        ..PUT
    },
    BenchCase { name: "get1g", about: "the same out of it, to a pipe", link: gbit(1, 60), ..GET },
    BenchCase {
        name: "put-lan",
        about: "800 MB into an object store without delay",
        link: gbit(40, 0),
        ..PUT
    },
    BenchCase { name: "get-lan", about: "the same out of it, to a pipe", link: gbit(40, 0), ..GET },
    BenchCase {
        name: "get-lan-file",
        about: "the same out of it, to a file",
        link: gbit(40, 0),
        piped: false,
        ..GET
    },
    BenchCase {
        name: "unpack5g",
        about: "a database of 2 GB as xbstream out of an object store, over a long and fast line",
        data: &SCHEMA,
        quick: &TABLE_QUICK,
        route: DataDirection::Pull,
        link: gbit(5, 60),
        far: Far::Stream,
        tools: UNPACKERS,
        ..PUSH
    },
    BenchCase {
        name: "pipe100m",
        about: "738 MB of database pages from a program here to a program there",
        data: &TABLE,
        quick: &TABLE_QUICK,
        link: mbit(100, 10),
        ..PIPE
    },
    BenchCase {
        name: "pipe1g",
        about: "2 GB of database pages over a long line",
        data: &TWO_IMAGES,
        link: gbit(1, 60),
        ..PIPE
    },
    BenchCase {
        name: "pipe5g",
        about: "the same over a long and fast line",
        data: &TWO_IMAGES,
        link: gbit(5, 60),
        ..PIPE
    },
    BenchCase { name: "pipe-lan", about: "1 GiB of them without delay", link: gbit(40, 0), ..PIPE },
    BenchCase {
        name: "pipepull5g",
        about: "from a program there to a program here",
        route: DataDirection::Pull,
        link: gbit(5, 60),
        ..PIPE
    },
    BenchCase { name: "smb-up", about: "8,000 files of 1 to 4 KiB onto an SMB share, 4 ms away", ..SHARED },
    BenchCase { name: "smb-down", about: "the same from it", route: DataDirection::Pull, ..SHARED },
    BenchCase {
        name: "smb-again",
        about: "12,200 files onto an SMB share that has them, 4 ms away",
        data: &MANY,
        quick: &MANY_QUICK,
        passes: Passes::Again,
        ..SHARED
    },
    BenchCase { name: "smb1g", about: "a file of 1 GiB onto an SMB share, 4 ms away", ..SHARED_FILE },
    BenchCase { name: "smb-lan", about: "the same without delay", link: gbit(40, 0), ..SHARED_FILE },
    BenchCase {
        name: "smb5g",
        about: "the same over a long and fast line",
        link: gbit(5, 60),
        ..SHARED_FILE
    },
    BenchCase { name: "objects-up", about: "12,200 small files into an object store", ..OBJECTS },
    BenchCase { name: "objects-down", about: "the same out of it", route: DataDirection::Pull, ..OBJECTS },
    BenchCase { name: "tree-get5g", about: "a database out of it", link: gbit(5, 60), ..GET_TREE },
    BenchCase { name: "tree-get-lan", about: "without delay", link: gbit(40, 0), ..GET_TREE },
    BenchCase {
        name: "ten-thousand",
        about: "10,000 tiny files within one machine, and once more",
        data: &TEN_THOUSAND,
        ..ENTRIES
    },
    BenchCase { name: "hundred-thousand", about: "100,000 of them", data: &HUNDRED_THOUSAND, ..ENTRIES },
    BenchCase { name: "million", about: "1,000,000 of them", data: &MILLION, ..ENTRIES },
    BenchCase { name: "huge-directory", about: "1,000,000 in one directory", data: &ONE_DIR, ..ENTRIES },
    BenchCase {
        name: "small-slow",
        about: "12,200 small files in 122 directories onto a file system that takes 2 ms for each request",
        ..MOUNT
    },
    BenchCase {
        name: "small-cold",
        about: "the same from such a file system",
        slow: Some(SlowSide::Source(MS2)),
        ..MOUNT
    },
    BenchCase {
        name: "small-again",
        about: "the same onto such a file system, where all is there already",
        passes: Passes::Again,
        tools: &["haul", "fpsync -n 32", "rclone local", "rsync"],
        ..MOUNT
    },
    BenchCase {
        name: "deep-slow",
        about: "8,000 smaller files in a deep tree onto a file system that takes 0.7 ms for each request",
        data: &DEEP,
        quick: &DEEP_QUICK,
        slow: Some(SlowSide::Target(Duration::from_micros(700))),
        ..MOUNT
    },
    BenchCase {
        name: "wide-slow",
        about: "12,200 small files in one directory onto a file system that takes 2 ms for each request",
        data: &WIDE,
        quick: &WIDE_QUICK,
        tools: &["haul", "fpsync -n 32", "rclone local", "cp -r"],
        ..MOUNT
    },
];

impl BenchCase {
    /// The case of that name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        CASES.iter().find(|case| case.name == name)
    }

    /// The link of this case; with `--quick` a sixth of the delay.
    pub(crate) fn link(&self, quick: bool) -> Option<LinkSpec> {
        let mut link = self.link.clone()?;
        if quick {
            link.rtt /= 6;
        }
        Some(link)
    }

    /// The data of this case.
    pub(crate) fn data(&self, quick: bool) -> &'static Dataset {
        if quick { self.quick } else { self.data }
    }

    /// The way in a few words: `push, 1 Gbit/s, 60 ms`.
    pub(crate) fn way(&self, quick: bool) -> String {
        let route = match self.route {
            DataDirection::Push => "push",
            DataDirection::Pull => "pull",
            DataDirection::Local => "local",
        };
        match self.link(quick) {
            Some(link) => {
                let loss = match link.loss {
                    0.0 => String::new(),
                    loss => format!(", {} % loss", loss * 100.0),
                };
                format!("{route}, {}, {}{loss}", show_rate(link.rate), show_time(link.rtt))
            }
            None => match self.slow {
                Some(SlowSide::Source(delay)) => format!("{route}, the source takes {}", show_time(delay)),
                Some(SlowSide::Target(delay)) => format!("{route}, the target takes {}", show_time(delay)),
                None => route.to_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::tool_named;

    #[test]
    fn the_table_is_sound() {
        for case in CASES {
            assert!(std::ptr::eq(BenchCase::named(case.name).unwrap(), case), "{} is there twice", case.name);
            assert_eq!(case.route == DataDirection::Local, case.link.is_none(), "{}", case.name);
            for tool in case.tools {
                assert!(tool_named(tool).is_some(), "{} names {tool}", case.name);
            }
        }
    }
}
