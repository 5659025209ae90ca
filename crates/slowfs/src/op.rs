//! The kinds of requests, and how many of each there were.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the delay of a request is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Names, attributes, opening and closing.
    Meta,
    /// Content that is read or written.
    Data,
}

macro_rules! ops {
    ($($op:ident $name:literal $class:ident),+ $(,)?) => {
        /// A kind of request that the kernel sends. What it sends to be let know only (forgetting, interrupting) is
        /// none.
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

            /// What it is counted as for delays.
            #[must_use]
            pub fn class(self) -> Class {
                match self { $(Self::$op => Class::$class),+ }
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
    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.name() == name)
    }
}

/// Counts requests as they come in.
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

    pub(crate) fn read(&self) -> Counts {
        let one = |op: &Op| (*op, self.counts.get(*op as usize).map_or(0, |n| n.load(Ordering::Relaxed)));
        Counts(Op::ALL.iter().map(one).collect())
    }
}

/// How many requests of each kind there were.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Counts(Vec<(Op, u64)>);

impl Counts {
    /// Those of one kind.
    #[must_use]
    pub fn of(&self, op: Op) -> u64 {
        self.0.iter().find(|(one, _)| *one == op).map_or(0, |(_, count)| *count)
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// The kinds that there were, and how many.
    pub fn iter(&self) -> impl Iterator<Item = (Op, u64)> {
        self.0.iter().copied().filter(|(_, count)| *count > 0)
    }

    /// What came after `before` was read.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self(self.0.iter().map(|(op, count)| (*op, count.saturating_sub(before.of(*op)))).collect())
    }

    /// One JSON object: the kinds, then `total`.
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
