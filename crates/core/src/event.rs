//! What a front end may see of a run while it goes on.

use serde::{Deserialize, Serialize};

use crate::packing::{Method, Tcp};
use crate::path::RelPath;
use crate::report::{Failure, Totals};

/// What holds the run back, as measured over the last seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Finding the entries.
    Scan,
    /// Comparing with the destination.
    Compare,
    /// Reading and hashing at the source.
    Source,
    /// The link, or the encryption on it.
    Link,
    /// Writing at the destination.
    Destination,
    /// The rate that was allowed.
    Rate,
    /// Room at the destination, which is full.
    Room,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The counts so far.
    pub totals: Totals,
    /// Whether the scan has ended, so that `found` is all there is.
    pub scan_done: bool,
    /// Seconds since the run began.
    pub seconds: f64,
    /// Bytes of content done per second over the last seconds.
    pub rate: f64,
    /// Connections that are up, over both ends; 0 where both ends are local.
    pub streams: u32,
    /// How content is packed on its way at the moment; `None` where it travels as it is.
    pub method: Option<Method>,
    /// What the kernel here knows of the connections, where they are haul's own.
    pub tcp: Option<Tcp>,
    /// What holds the run back.
    pub limit: Limit,
    /// Seconds left; `None` while nothing can be said. Before `scan_done` it is a lower bound.
    pub eta_seconds: Option<f64>,
}

/// What was done, or with `-n` would be done, to one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Content copied and committed; it was not there before.
    Copied,
    /// Content copied and committed over something older.
    Replaced,
    /// Directory, symbolic link or special file made.
    Made,
    /// Further name made.
    Linked,
    /// Metadata set.
    Updated,
    /// Left as it is, by an option.
    Left,
    /// Removed at the destination.
    Removed,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Where the run stands; several times a second.
    Progress(Progress),
    /// One entry was dealt with. Entries that were the same already are not announced.
    Entry {
        /// What was done.
        action: Action,
        /// To which entry.
        path: &'a RelPath,
        /// Bytes of content in it.
        len: u64,
    },
    /// One entry failed.
    Failed(&'a Failure),
    /// Something a person should know: a sentence without a full stop.
    Note(&'a str),
    /// The same of something that stands in the way: to be told also where nothing but errors is.
    Warning(&'a str),
}

/// Sees what happens. Called from any thread; must not block for long.
pub trait Reporter: Send + Sync {
    /// Something happened.
    fn event(&self, event: &Event<'_>);
}
