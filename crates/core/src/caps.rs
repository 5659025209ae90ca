//! The capabilities of an end beyond the operations that every end has.
//!
//! An end states its capabilities as data, in [`crate::Source::caps`] and [`crate::Sink::caps`]. The engine reads them
//! once, when a run begins, and calls an optional operation only if the end has it.

/// The capabilities of a source. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceCaps {
    /// [`crate::Source::read`] accepts parts of slices of large files ([`crate::Slice::part`]).
    pub parts: bool,
    /// [`crate::Source::read_changed`] omits content that the destination has.
    pub delta: bool,
    /// [`crate::Source::prehash`] makes later reads faster.
    pub prehash: bool,
    /// [`crate::Source::local_file`] opens files of this machine.
    pub local_files: bool,
    /// [`crate::Source::remove_unchanged`] removes entries.
    pub removes: bool,
    /// [`crate::Source::read`] reads slices of a stream whose length is not known yet ([`crate::Entry::is_growing`]).
    pub growing: bool,
    /// Its modification times are cut to this many nanoseconds ([`crate::SinkOptions::source_time_unit`]); 0: they are
    /// not.
    pub time_unit: u32,
}

/// The capabilities of a sink. The default stages content, writes one batch for each connection, and has no optional
/// operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkCaps {
    /// [`crate::Sink::write`] accepts parts of slices of large files ([`crate::Slice::part`]).
    pub parts: bool,
    /// [`crate::Sink::pages`] hashes the files that are to be replaced.
    pub delta: bool,
    /// [`crate::Sink::fetch`] gets content from the source without this process.
    pub fetches: bool,
    /// [`crate::Sink::clone_file`] shares the blocks of a local file.
    pub clones: bool,
    /// [`crate::Sink::write`] accepts slices of a stream whose length is not known yet ([`crate::Entry::is_growing`]).
    pub growing: bool,
    /// Content can be synced, so that a committed file outlives a crash of the destination.
    pub durable: bool,
    /// Content is staged. Then a file that replaces a directory is complete before the contents of the directory are
    /// removed.
    pub stages: bool,
    /// How many batches to write at once, so that the sink has work while writes wait for answers: this many, ...
    pub writers: u32,
    /// ... and this many for each connection ([`crate::Sink::streams`]).
    pub writers_per_stream: u32,
}

impl Default for SinkCaps {
    fn default() -> Self {
        Self {
            parts: false,
            delta: false,
            fetches: false,
            clones: false,
            growing: false,
            durable: true,
            stages: true,
            writers: 0,
            writers_per_stream: 1,
        }
    }
}
