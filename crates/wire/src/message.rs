//! Messages: what is in the bodies of frames.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use haul_core::probe::{ProbeResult, ProbeTask};
use haul_core::source::ScanBatch;
use haul_core::text::{Clean, shown};
use haul_core::{
    Answer, Batch, Compress, Digest, Entry, Error, FinishReport, HardLink, HungOperation, Method, Offer,
    Outcome, Packing, PageHashes, Place, Pressure, RelPath, Result, ScanOptions, SinkOptions, SliceData,
};
use serde::{Deserialize, Serialize};

use crate::VERSION;
use crate::ticket::Ticket;

/// A session: all connections of one local end at one remote end. Random, so that nobody else can guess it.
pub type SessionId = [u8; 16];

/// A source or sink that was opened, numbered by the local end.
pub type RootId = u32;

/// A scan, numbered by the local end.
pub type ScanId = u32;

/// Two remote ends that were introduced to each other, numbered by the local end.
pub type PairId = u32;

/// Where an end that listens may be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// Its addresses, as its system sees them.
    pub addresses: Vec<IpAddr>,
    /// Names that it bears elsewhere.
    pub hosts: Vec<String>,
    /// The port.
    pub port: u16,
}

/// What the end of a sink has to know of the end of a source to fetch content from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its name, for people.
    #[serde(deserialize_with = "shown")]
    pub name: String,
    /// Its public key.
    #[serde(with = "serde_bytes")]
    pub key: Vec<u8>,
    /// Its session with the local end.
    pub session: SessionId,
    /// Connections to open; 0 lets the end of the sink find out how many help.
    pub streams: u32,
    /// Seconds of silence after which a connection is given up.
    pub timeout: u32,
    /// Bytes per second that all connections together may bring; `None` is no limit.
    pub rate: Option<u64>,
}

/// The first message on a connection, from the local end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The sender's [`VERSION`].
    pub version: u32,
    /// The sender's release, for people.
    #[serde(deserialize_with = "shown")]
    pub release: String,
    /// The session to join, if there was one.
    pub session: Option<SessionId>,
    /// Whether a new session is made where there is none to join.
    pub fresh: bool,
    /// Bytes that the remote process may hold in buffers of content.
    pub max_memory: u64,
    /// File-system operations that the remote process may make on each side in a second.
    pub iops: Option<u64>,
    /// Connections that the local end may open.
    pub connections: u32,
    /// Seconds of silence after which a connection is taken for dead.
    pub timeout: u32,
    /// What the remote end needs for connections that do not go through ssh, if they are wanted.
    pub direct: Option<DirectOffer>,
}

/// What the local end says about connections of TLS over TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectOffer {
    /// The local end's public key: a DER-encoded SubjectPublicKeyInfo.
    #[serde(with = "serde_bytes")]
    pub key: Vec<u8>,
    /// The ports that may be listened on, from the first to the last; any if `None`.
    pub ports: Option<(u16, u16)>,
    /// The congestion control to be asked for; the system's own if `None`.
    pub congestion: Option<String>,
    /// Addresses that ssh goes to straight from the local end, as far as it knows them: for a remote end that was told
    /// none by sshd.
    pub at: Vec<IpAddr>,
    /// The local end's address on the way there, if it knows it.
    pub from: Option<IpAddr>,
}

/// What the remote end says about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectAnswer {
    /// The remote end's public key.
    #[serde(with = "serde_bytes")]
    pub key: Vec<u8>,
    /// The port that it listens on, or why it cannot.
    #[serde(deserialize_with = "shown")]
    pub port: std::result::Result<u16, String>,
    /// The address that ssh reached it at, as its system sees it.
    pub address: Option<IpAddr>,
}

/// The answer to [`Hello`], from the remote end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The sender's [`VERSION`].
    pub version: u32,
    /// The sender's release, for people.
    #[serde(deserialize_with = "shown")]
    pub release: String,
    /// The session that the connection belongs to now, or why it was not accepted.
    #[serde(deserialize_with = "shown")]
    pub session: std::result::Result<SessionId, String>,
    /// What the local end needs for connections that do not go through ssh, if it asked for it.
    pub direct: Option<DirectAnswer>,
}

impl Welcome {
    /// A welcome of this version.
    #[must_use]
    pub fn new(session: std::result::Result<SessionId, String>) -> Self {
        Self { version: VERSION, release: env!("CARGO_PKG_VERSION").to_owned(), session, direct: None }
    }
}

/// The version and the release that a body of Hello or Welcome begins with, of whatever version.
#[must_use]
pub fn peek_version(body: &[u8]) -> Option<(u32, String)> {
    let (version, rest) = postcard::take_from_bytes::<u32>(body).ok()?;
    let (release, _) = postcard::take_from_bytes::<String>(rest).ok()?;
    Some((version, release.clean()))
}

/// Something to be done by the remote end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Nothing; its response takes one round trip.
    Nothing,
    /// Opens a source. Again with the same number: nothing more happens.
    OpenSource {
        /// The number that it gets.
        root: RootId,
        /// Where it is.
        place: Place,
    },
    /// Opens a sink. Again with the same number: nothing more happens.
    OpenSink {
        /// The number that it gets.
        root: RootId,
        /// Where it is.
        place: Place,
        /// How it works.
        options: SinkOptions,
    },
    /// Lets go of a source or a sink.
    Close {
        /// Which.
        root: RootId,
    },
    /// [`haul_core::Source::root`].
    Root {
        /// Of which source.
        root: RootId,
    },
    /// Begins [`haul_core::Source::scan`]. Again with the same number: nothing more happens.
    ScanStart {
        /// Of which source.
        root: RootId,
        /// The number that it gets.
        scan: ScanId,
        /// What is looked at.
        options: ScanOptions,
    },
    /// Asks for a part of a scan; many may be asked for at once.
    ScanNext {
        /// Of which scan.
        scan: ScanId,
        /// Which part, counted from 0. It is kept until a later request acknowledges it.
        part: u64,
        /// Parts before this one have arrived.
        acked: u64,
    },
    /// Ends a scan, finished or not.
    ScanEnd {
        /// Which.
        scan: ScanId,
    },
    /// [`haul_core::Source::lookup`].
    Lookup {
        /// In which source.
        root: RootId,
        /// What is looked up.
        paths: Vec<RelPath>,
    },
    /// [`haul_core::Source::read`].
    Read {
        /// From which source.
        root: RootId,
        /// What is read.
        batch: Arc<Batch>,
        /// What the destination has of it: [`haul_core::Source::read_changed`].
        pages: Option<PageHashes>,
        /// How the content of the response is to be packed. Where it does not get smaller, it is not.
        compress: Compress,
    },
    /// [`haul_core::Source::digest`].
    Digest {
        /// In which source.
        root: RootId,
        /// What is hashed.
        paths: Vec<RelPath>,
    },
    /// [`haul_core::Sink::offer`].
    Offer {
        /// To which sink.
        root: RootId,
        /// What is offered.
        offers: Vec<Offer>,
    },
    /// [`haul_core::Sink::pages`].
    PageHashes {
        /// Of which sink.
        root: RootId,
        /// The entry whose place is looked at.
        entry: Arc<Entry>,
        /// Of which slices, at most [`crate::MAX_COMPARED`].
        slices: Range<u32>,
    },
    /// [`haul_core::Sink::write`]; the content is the payload.
    Write {
        /// To which sink.
        root: RootId,
        /// What the content is of.
        batch: Arc<Batch>,
        /// One for each slice: what was read, or why it could not be.
        slices: Vec<Result<SliceData>>,
        /// How the payload is packed; `None`: it is the content itself.
        packing: Option<Packing>,
    },
    /// [`haul_core::Sink::flush`].
    Flush {
        /// Which sink.
        root: RootId,
    },
    /// [`haul_core::Sink::discard`].
    Discard {
        /// In which sink.
        root: RootId,
        /// What is not going to be completed.
        paths: Vec<RelPath>,
    },
    /// [`haul_core::Sink::link`].
    Link {
        /// In which sink.
        root: RootId,
        /// The names to be made.
        links: Vec<HardLink>,
    },
    /// [`haul_core::Sink::remove`].
    Remove {
        /// In which sink.
        root: RootId,
        /// What is removed.
        paths: Vec<RelPath>,
    },
    /// [`haul_core::Sink::finish`].
    Finish {
        /// Which sink.
        root: RootId,
    },
    /// Connects to the local end, which listens, for one more connection; the local end greets on it as on any.
    Connect {
        /// Where it listens, besides the address that ssh came from.
        address: Option<IpAddr>,
        /// Its port.
        port: u16,
    },
    /// To the end of a source: listens for the end of a sink, whose connections may only bring [`Request::Pull`] and
    /// [`Request::Connect`]. Again with the same number: it begins anew.
    Admit {
        /// The number that the two get.
        pair: PairId,
        /// The public key of the end of the sink.
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        /// What the local end makes tickets with.
        secret: [u8; 32],
        /// Addresses that the end of the sink may come from.
        from: Vec<IpAddr>,
    },
    /// To the end of a sink: listens for the end of a source, where that could not be reached.
    Expect {
        /// The number of the two.
        pair: PairId,
        /// The public key of the end of the source.
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        /// Addresses that the end of the source may come from.
        from: Vec<IpAddr>,
    },
    /// To the end of a source: connects to the end of the sink for one connection.
    Visit {
        /// The number of the two.
        pair: PairId,
        /// Where the end of the sink listens.
        at: Reach,
    },
    /// To the end of a sink: opens connections to the end of a source.
    Meet {
        /// The number of the two.
        pair: PairId,
        /// Who that is.
        with: Neighbour,
        /// Where it listens; `None`: it has come by itself.
        at: Option<Reach>,
    },
    /// To the end of a sink: another limit for what it fetches.
    Rate {
        /// From whom.
        pair: PairId,
        /// Bytes per second that all connections together may bring; `None` is no limit.
        rate: Option<u64>,
    },
    /// To the end of a sink: [`haul_core::Sink::write`] with content that it reads from the source by itself.
    Fetch {
        /// To which sink.
        root: RootId,
        /// The end of the source; `None`: it is here.
        pair: Option<PairId>,
        /// Which source, by its number there.
        source: RootId,
        /// What is read and written.
        batch: Arc<Batch>,
        /// How content is to be packed on its way.
        compress: Compress,
        /// Shows the end of the source that the local end wants this.
        ticket: Ticket,
    },
    /// From the end of a sink: [`Request::Read`], of no more than a ticket is for.
    Pull {
        /// From which source.
        root: RootId,
        /// What is read.
        batch: Arc<Batch>,
        /// What the end of the sink has of it. The ticket is not about that: it only makes the answer shorter.
        pages: Option<PageHashes>,
        /// How the content of the response is to be packed.
        compress: Compress,
        /// What the local end gave for it.
        ticket: Ticket,
    },
    /// To be nice to what else the machine does, from now on, and to tell how it fares.
    Nice,
    /// [`haul_core::Source::hung`] or [`haul_core::Sink::hung`], as soon as the first of them is not the one that is
    /// known.
    HungOperation {
        /// At which source or sink.
        root: RootId,
        /// What has been under way for so long.
        patience: Duration,
        /// The first that was told; `None` where nothing was.
        known: Option<HungOperation>,
    },
    /// Measures something or looks it up.
    Probe(ProbeTask),
    /// Takes the payload and drops it, to measure the way there.
    Swallow,
    /// Answers with a payload of bytes that do not compress, to measure the way back.
    Produce {
        /// How many, at most [`crate::MAX_PAYLOAD`].
        bytes: u32,
    },
}

/// A part of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanPart {
    /// What was found.
    pub found: ScanBatch,
    /// Whether there is nothing after it.
    pub last: bool,
}

/// What came of a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// It was done, and there is nothing to tell.
    Done,
    /// It failed as a whole.
    Failed(Error),
    /// The answer does not fit into a body: ask for less at a time.
    TooLarge,
    /// The remote end does not have this root or scan.
    Gone,
    /// To [`Request::Root`].
    Root(Option<Entry>),
    /// To [`Request::ScanNext`].
    Scan(ScanPart),
    /// To [`Request::Lookup`].
    Lookup(Vec<Result<Option<Entry>>>),
    /// To [`Request::Read`]; the content is the payload.
    Read {
        /// One for each slice: what was read, or why it could not be.
        slices: Vec<Result<SliceData>>,
        /// How the payload is packed; `None`: it is the content itself.
        packing: Option<Packing>,
    },
    /// To [`Request::Digest`].
    Digest(Vec<Result<Digest>>),
    /// To [`Request::PageHashes`].
    PageHashes(Vec<PageHashes>),
    /// To [`Request::Offer`] and [`Request::Link`].
    Answers(Vec<Result<Answer>>),
    /// To [`Request::Write`].
    Write(Vec<Result<Outcome>>),
    /// To [`Request::Fetch`].
    Fetched {
        /// One for each slice.
        outcomes: Vec<Result<Outcome>>,
        /// Bytes of content as they travelled between the two ends.
        wire_bytes: u64,
        /// Bytes of content that did not travel, as the end of the sink has them.
        matched_bytes: u64,
        /// How they were packed.
        method: Option<Method>,
        /// Connections between the two ends.
        streams: u32,
    },
    /// To [`Request::Admit`] and [`Request::Expect`]: where it listens.
    Listening(DirectAnswer),
    /// To [`Request::Remove`].
    Removed(Vec<Result<()>>),
    /// To [`Request::Finish`].
    Finish(FinishReport),
    /// To [`Request::Nice`]: what others waited since it was asked last, if the kernel there tells.
    Nice(Option<Pressure>),
    /// To [`Request::HungOperation`]: the first of them, at most [`crate::MAX_STUCK`].
    HungOperation(Vec<HungOperation>),
    /// To [`Request::Probe`].
    Probe(ProbeResult),
    /// To [`Request::Produce`]; the bytes are the payload.
    Produced,
}
