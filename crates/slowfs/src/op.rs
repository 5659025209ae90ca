//! Kinds of requests, and their counters.

use std::sync::atomic::{AtomicU64, Ordering};

/// The class of a request decides its delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// Names, attributes, opening and closing.
    Meta,
    /// Reading, writing and syncing content.
    Data,
}

macro_rules! ops {
    ($($op:ident $name:literal $class:ident),+ $(,)?) => {
        /// A kind of request. Notifications of the kernel (`FORGET`, `INTERRUPT`) are not requests.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "they are named as in the protocol")]
        pub enum Op { $($op),+ }

        impl Op {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$op),+];

            /// Its name in tables and on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$op => $name),+ }
            }

            /// Its class.
            #[must_use]
            pub fn class(self) -> RequestClass {
                match self { $(Self::$op => RequestClass::$class),+ }
            }
        }
    };
}

ops! {
    Lookup "lookup" Meta,
    Getattr "getattr" Meta,
    Setattr "setattr" Meta,
    Readlink "readlink" Meta,
    Mknod "mknod" Meta,
    Mkdir "mkdir" Meta,
    Unlink "unlink" Meta,
    Rmdir "rmdir" Meta,
    Symlink "symlink" Meta,
    Rename "rename" Meta,
    Link "link" Meta,
    Create "create" Meta,
    Open "open" Meta,
    Read "read" Data,
    Write "write" Data,
    Flush "flush" Meta,
    Release "release" Meta,
    Fsync "fsync" Data,
    Opendir "opendir" Meta,
    Readdir "readdir" Meta,
    Readdirplus "readdirplus" Meta,
    Releasedir "releasedir" Meta,
    Fsyncdir "fsyncdir" Meta,
    Statfs "statfs" Meta,
    Setxattr "setxattr" Meta,
    Getxattr "getxattr" Meta,
    Listxattr "listxattr" Meta,
    Removexattr "removexattr" Meta,
    Fallocate "fallocate" Data,
    Lseek "lseek" Data,
}

impl Op {
    /// The kind with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.name() == name)
    }
}

/// Counts requests as they arrive.
pub(crate) struct Counter {
    counts: Vec<AtomicU64>,
}

impl Counter {
    pub(crate) fn new() -> Self {
        Self { counts: Op::ALL.iter().map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn add(&self, op: Op) {
        if let Some(count) = self.counts.get(op as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> OpCounts {
        let one = |op: &Op| (*op, self.counts.get(*op as usize).map_or(0, |n| n.load(Ordering::Relaxed)));
        OpCounts(Op::ALL.iter().map(one).collect())
    }
}

/// The number of requests of each kind.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OpCounts(Vec<(Op, u64)>);

impl OpCounts {
    /// The number of one kind.
    #[must_use]
    pub fn of(&self, op: Op) -> u64 {
        self.0.iter().find(|(one, _)| *one == op).map_or(0, |(_, count)| *count)
    }

    /// The total number.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// The kinds with at least one request, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Op, u64)> {
        self.0.iter().copied().filter(|(_, count)| *count > 0)
    }

    /// The requests since `before` was read.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self(self.0.iter().map(|(op, count)| (*op, count.saturating_sub(before.of(*op)))).collect())
    }

    /// A JSON object: the number of each kind, then `total`.
    #[must_use]
    pub fn json(&self) -> String {
        let mut text = String::from("{");
        for (op, count) in self.iter() {
            text.push_str(&format!("\"{}\":{count},", op.name()));
        }
        text.push_str(&format!("\"total\":{}}}", self.total()));
        text
    }
}
