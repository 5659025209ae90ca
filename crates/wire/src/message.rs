//! Messages: the bodies of frames.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use haul_core::filter::RulesAbove;
use haul_core::owner_map::OwnerName;
use haul_core::probe::{ProbeResult, ProbeTask};
use haul_core::source::ScanBatch;
use haul_core::text::shown;
use haul_core::{
    Answer, Batch, Compress, Digest, Entry, Error, FinishReport, HardLink, HungOperation, IpFamily, Method,
    Offer, Outcome, Packing, PageHashes, PageReport, Place, Pressure, Program, RelPath, Result, Said,
    ScanOptions, Sha256, SinkOptions, SliceData, SourceOptions,
};
use serde::{Deserialize, Serialize};

use crate::hello::DirectAnswer;
use crate::ids::{PairId, RootId, ScanId, SessionId, Ticket};

/// Where a listening end can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// Its addresses, as its own system reports them.
    pub addresses: Vec<IpAddr>,
    /// Its host names, as the local end knows them.
    pub hosts: Vec<String>,
    /// Its port.
    pub port: u16,
    /// Only addresses of this family are used.
    pub family: Option<IpFamily>,
}

/// The end of a source, described to the end of a sink that fetches content from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granter {
    /// Its name, for display.
    #[serde(deserialize_with = "shown")]
    pub name: String,
    /// Its public key.
    #[serde(with = "serde_bytes")]
    pub key: Vec<u8>,
    /// Its session with the local end.
    pub session: SessionId,
    /// Connections to open; 0 lets the end of the sink choose.
    pub streams: u32,
    /// Seconds of silence after which a connection counts as dead.
    pub timeout: u32,
    /// The limit of all connections together, in bytes per second; `None` is no limit.
    pub rate: Option<u64>,
}

/// A request to the remote end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Does nothing; measures a round trip.
    Nothing,
    /// Opens a source. Does nothing if the number is open already.
    OpenSource {
        /// The number of the new root.
        root: RootId,
        /// Its location.
        place: Place,
        /// Its options.
        options: SourceOptions,
    },
    /// Opens a sink. Does nothing if the number is open already.
    OpenSink {
        /// The number of the new root.
        root: RootId,
        /// Its location.
        place: Place,
        /// Its options.
        options: SinkOptions,
    },
    /// Closes a source or a sink.
    Close {
        /// Its number.
        root: RootId,
    },
    /// [`haul_core::Source::root`].
    Root {
        /// The source.
        root: RootId,
    },
    /// [`haul_core::Source::above`].
    Above {
        /// The source.
        root: RootId,
        /// The names of the files.
        names: Vec<Vec<u8>>,
    },
    /// Starts [`haul_core::Source::scan`], unless the number is in use already. The answer is part 0.
    ScanStart {
        /// The source.
        root: RootId,
        /// The number of the new scan.
        scan: ScanId,
        /// The options of the scan.
        options: ScanOptions,
    },
    /// Asks for one part of a scan. Many may be in flight.
    ScanNext {
        /// The scan.
        scan: ScanId,
        /// The number of the part, from 0. The remote end keeps it until a later request acknowledges it.
        part: u64,
        /// Acknowledges all parts before this one.
        acked: u64,
    },
    /// Ends a scan, whether it has finished or not.
    ScanEnd {
        /// Its number.
        scan: ScanId,
    },
    /// [`haul_core::Source::lookup`].
    Lookup {
        /// The source.
        root: RootId,
        /// The paths to look up.
        paths: Vec<RelPath>,
    },
    /// [`haul_core::Source::read`].
    Read {
        /// The source.
        root: RootId,
        /// The slices to read.
        batch: Arc<Batch>,
        /// The pages that the destination has: then as [`haul_core::Source::read_changed`].
        pages: Option<PageHashes>,
        /// How to compress the content of the response. Content that does not get smaller is sent uncompressed.
        compress: Compress,
        /// Whether the proof of the only slice may follow its content.
        proof_may_follow: bool,
    },
    /// [`haul_core::Source::digest`].
    Digest {
        /// The source.
        root: RootId,
        /// The paths to hash.
        paths: Vec<RelPath>,
    },
    /// [`haul_core::Source::remove_unchanged`].
    RemoveUnchanged {
        /// The source.
        root: RootId,
        /// The entries to remove; none to ask whether any may be removed.
        entries: Vec<Entry>,
    },
    /// [`haul_core::Sink::offer`].
    Offer {
        /// The sink.
        root: RootId,
        /// The entries.
        offers: Vec<Offer>,
    },
    /// [`haul_core::Sink::pages`].
    PageHashes {
        /// The sink.
        root: RootId,
        /// The entry whose existing file is hashed.
        entry: Arc<Entry>,
        /// The slices, at most [`crate::MAX_COMPARED`].
        slices: Range<u32>,
    },
    /// [`haul_core::Sink::write`]; the content is the payload.
    Write {
        /// The sink.
        root: RootId,
        /// The slices that the content belongs to.
        batch: Arc<Batch>,
        /// For each slice, its description, or why it could not be read.
        slices: Vec<Result<SliceData>>,
        /// How the payload is compressed; `None` if it is not.
        packing: Option<Packing>,
        /// Whether the only slice comes in chunks, and its proof behind it: see [`crate::passing`]. The proof in `slices` means
        /// nothing then.
        proof_follows: bool,
    },
    /// [`haul_core::Sink::flush`].
    Flush {
        /// The sink.
        root: RootId,
    },
    /// [`haul_core::Sink::discard`].
    Discard {
        /// The sink.
        root: RootId,
        /// The files that will not be completed.
        paths: Vec<RelPath>,
    },
    /// [`haul_core::Sink::link`].
    Link {
        /// The sink.
        root: RootId,
        /// The links to create.
        links: Vec<HardLink>,
    },
    /// [`haul_core::Sink::remove`].
    Remove {
        /// The sink.
        root: RootId,
        /// The paths to remove.
        paths: Vec<RelPath>,
    },
    /// [`haul_core::Sink::finish`].
    Finish {
        /// The sink.
        root: RootId,
    },
    /// Makes one TCP connection to the local end, which listens. The local end then sends Hello on it.
    Connect {
        /// The address of the local end, in addition to the one that ssh came from.
        address: Option<IpAddr>,
        /// The port of the local end.
        port: u16,
    },
    /// To the end of a source: listens for the end of a sink, which may only send [`Request::Nothing`],
    /// [`Request::Pull`] and [`Request::Connect`]. The same number again replaces the earlier state.
    Admit {
        /// The number of the new third-party copy.
        pair: PairId,
        /// The public key of the end of the sink.
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        /// The key with which the local end makes tickets.
        secret: [u8; 32],
        /// Addresses that the end of the sink may connect from.
        from: Vec<IpAddr>,
    },
    /// To the end of a sink: listens for the end of a source that could not be reached.
    Expect {
        /// The third-party copy.
        pair: PairId,
        /// The public key of the end of the source.
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        /// Addresses that the end of the source may connect from.
        from: Vec<IpAddr>,
    },
    /// To the end of a source: makes one connection to the end of the sink.
    Visit {
        /// The third-party copy.
        pair: PairId,
        /// Where the end of the sink listens.
        at: Reach,
    },
    /// To the end of a sink: opens connections to the end of a source.
    Meet {
        /// The third-party copy.
        pair: PairId,
        /// The end of the source.
        with: Granter,
        /// Where it listens; `None` if it connects to the end of the sink.
        at: Option<Reach>,
    },
    /// Looks up the numbers of owners and groups.
    OwnerIds {
        /// Their names.
        names: Vec<OwnerName>,
    },
    /// To the end of a sink: changes the rate limit of its fetches.
    Rate {
        /// The third-party copy.
        pair: PairId,
        /// The limit of all connections together, in bytes per second; `None` is no limit.
        rate: Option<u64>,
    },
    /// To the end of a sink: [`haul_core::Sink::write`] with content that it fetches itself.
    Fetch {
        /// The sink.
        root: RootId,
        /// The third-party copy; `None` if this process has the source.
        pair: Option<PairId>,
        /// The number of the source at its end.
        source: RootId,
        /// The slices to fetch and write.
        batch: Arc<Batch>,
        /// How to compress content in transit.
        compress: Compress,
        /// Proves to the end of the source that the local end allows this.
        ticket: Ticket,
    },
    /// From the end of a sink: [`Request::Read`] of a batch that has a ticket.
    Pull {
        /// The source.
        root: RootId,
        /// The slices to read.
        batch: Arc<Batch>,
        /// The pages that the end of the sink has. The ticket does not cover them: they only make the answer shorter.
        pages: Option<PageHashes>,
        /// How to compress the content of the response.
        compress: Compress,
        /// The ticket from the local end.
        ticket: Ticket,
        /// As in [`Request::Read`].
        proof_may_follow: bool,
    },
    /// Lowers the priority of the remote process from now on, and asks how long other processes had to wait.
    Nice,
    /// [`haul_core::Source::hung`] or [`haul_core::Sink::hung`]. Answered when the first operation is another one than
    /// `known`, or as operations begin or cease to wait for the operation limit.
    HungOperation {
        /// The source or sink.
        root: RootId,
        /// How long an operation must have run to be reported.
        timeout: Duration,
        /// The first operation of the last report; `None` if it was empty.
        known: Option<HungOperation>,
        /// Whether operations waited for the operation limit at the last report.
        held_by_iops: bool,
    },
    /// Takes a measurement, or looks up facts about the host.
    Probe(ProbeTask),
    /// Drops the payload; measures the link to the remote end.
    Swallow,
    /// Asks for a payload of incompressible bytes; measures the link from the remote end.
    Produce {
        /// The length of the payload, at most [`crate::MAX_PAYLOAD`].
        bytes: u32,
    },
    /// [`haul_core::Source::sha256`].
    Sha256 {
        /// The source.
        root: RootId,
        /// The paths to hash.
        paths: Vec<RelPath>,
    },
    /// Runs a program and opens its output as a source of one stream. Does nothing if the number is open already.
    RunProducer {
        /// The number of the new root.
        root: RootId,
        /// The program.
        program: Program,
        /// How many slices the source keeps.
        window: u32,
    },
    /// Runs a program and opens its input as a sink of one stream. Does nothing if the number is open already.
    RunConsumer {
        /// The number of the new root.
        root: RootId,
        /// The program.
        program: Program,
    },
    /// [`haul_core::Source::said`] or [`haul_core::Sink::said`]. Answered when there is something to say.
    Said {
        /// The source or sink.
        root: RootId,
        /// How many bytes the local end has.
        from: u64,
    },
    /// [`haul_core::Source::stop`].
    Stop {
        /// The source.
        root: RootId,
    },
    /// [`haul_core::Source::page_report`].
    PageReport {
        /// The source.
        root: RootId,
    },
    /// [`haul_core::Source::hashed`].
    Hashed {
        /// The source.
        root: RootId,
    },
    /// In an earlier run, the connections carried content from the remote end at this rate. It compresses accordingly
    /// from the start.
    ExpectRate {
        /// The rate.
        bytes_per_second: u64,
    },
}

/// A part of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanPart {
    /// The entries and errors.
    pub found: ScanBatch,
    /// Whether this is the last part.
    pub last: bool,
}

/// The response to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// The request succeeded and has no result.
    Done,
    /// The whole request failed.
    Failed(Error),
    /// The result does not fit into a body: ask for less at a time.
    TooLarge,
    /// The remote end does not have this root or scan.
    Gone,
    /// To [`Request::Root`].
    Root(Option<Entry>),
    /// To [`Request::Above`].
    Above(RulesAbove),
    /// To [`Request::ScanNext`].
    Scan(ScanPart),
    /// To [`Request::Lookup`].
    Lookup(Vec<Result<Option<Entry>>>),
    /// To [`Request::Read`]; the content is the payload.
    Read {
        /// For each slice, its description, or why it could not be read.
        slices: Vec<Result<SliceData>>,
        /// How the payload is compressed; `None` if it is not.
        packing: Option<Packing>,
        /// The length of a stream that ends in the slice or before it.
        ended: Option<u64>,
        /// Whether the only slice comes in chunks, and its proof behind it: see [`crate::passing`]. The proof in `slices` means
        /// nothing then.
        proof_follows: bool,
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
        /// Bytes of content sent between the two ends, after compression.
        wire_bytes: u64,
        /// Bytes of content that were not sent, as the end of the sink has equal pages.
        matched_bytes: u64,
        /// How they were compressed.
        method: Option<Method>,
        /// Connections between the two ends.
        streams: u32,
    },
    /// To [`Request::Admit`] and [`Request::Expect`]: where the end listens.
    Listening(DirectAnswer),
    /// To [`Request::Remove`] and [`Request::RemoveUnchanged`].
    Removed(Vec<Result<()>>),
    /// To [`Request::Finish`].
    Finish(FinishReport),
    /// To [`Request::Nice`]: how long other processes waited since the last request, if the kernel reports it.
    Nice(Option<Pressure>),
    /// To [`Request::HungOperation`].
    HungOperation {
        /// The operations that hang longest, at most [`crate::MAX_STUCK`].
        hung: Vec<HungOperation>,
        /// Whether operations wait for the operation limit.
        held_by_iops: bool,
    },
    /// To [`Request::Probe`].
    Probe(ProbeResult),
    /// To [`Request::Produce`]; the bytes are the payload.
    Produced,
    /// To [`Request::OwnerIds`]: one for each name, if the remote end has it.
    OwnerIds(Vec<Option<u32>>),
    /// To [`Request::Sha256`].
    Sha256(Vec<Result<Sha256>>),
    /// To [`Request::Said`].
    Said(Said),
    /// To [`Request::PageReport`].
    PageReport(Option<PageReport>),
    /// To [`Request::Hashed`].
    Hashed(Option<u64>),
}
