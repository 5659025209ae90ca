//! One message of each kind, with something in every field.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use haul_core::entry::GROWING;
use haul_core::filter::{
    AboveFile, MergeRule, Prefixes, Rule, RuleFormat, RuleItem, Rules, RulesAbove, Sides,
};
use haul_core::owner_map::OwnerName;
use haul_core::probe::{
    CompressFigures, CpuFigures, CpuTicks, Facts, MountedFs, ProbeResult, ProbeTask, ProbedMethod as Packer,
    ReadFigures, ReadSample, Route, Space, WriteFigures,
};
use haul_core::source::ScanBatch;
use haul_core::{
    Answer, Backup, BadPage, Batch, ChainingValue, Changes, Compare, Compress, Databases, Digest, DirLinks,
    Entry, EntryKind, Error, ErrorKind, Extent, Failure, FinishReport, HardLink, HungOperation, IpFamily,
    LeftOut, Links, MetaNote, Method, Offer, Outcome, OwnerNames, Packing, PageChecks, PageCounts,
    PageHashes, PageReport, Place, PlaceRoot, Preserve, Pressure, Program, ReferencePurpose, References,
    RelPath, Retry, Said, ScanOptions, Sha256, Side, SinkOptions, SkipReason, Slice, SliceData,
    SourceOptions, Timestamp,
};

use crate::{DirectAnswer, DirectOffer, Granter, Hello, Reach, Request, Response, ScanPart, Welcome};

pub(super) fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

pub(super) fn entry(name: &str, kind: EntryKind) -> Entry {
    Entry {
        path: path(name),
        kind,
        len: 5_000_000,
        mtime: Timestamp { sec: -1, nsec: 999_999_999 },
        atime: Timestamp { sec: 1_700_000_000, nsec: 1 },
        ctime: Some(Timestamp { sec: 1_700_000_001, nsec: 2 }),
        mode: 0o4755,
        uid: 1000,
        gid: 100,
        names: Some(Box::new(OwnerNames { user: b"me".to_vec(), group: b"us".to_vec() })),
        dev: 66306,
        ino: 1 << 40,
        nlink: 2,
        allocated: 4096,
        xattrs: vec![(
            serde_bytes::ByteBuf::from(b"user.a".to_vec()),
            serde_bytes::ByteBuf::from(b"\0\xff".to_vec()),
        )],
    }
}

pub(super) fn batch() -> Batch {
    Batch {
        entries: vec![Arc::new(entry("a/b", EntryKind::File))],
        slices: vec![Slice::whole(0, 1), Slice::whole(0, 0)],
        again: true,
    }
}

pub(super) fn read() -> Vec<haul_core::Result<SliceData>> {
    let extents = vec![Extent::data(0, 10), Extent::data(4096, 7)];
    vec![Ok(SliceData { extents, value: ChainingValue([7; 32]) }), Err(error())]
}

/// One slice of a large file, and its data: some of it is there already.
pub(super) fn changed() -> (Batch, Vec<haul_core::Result<SliceData>>) {
    let batch = Batch { slices: vec![Slice::whole(0, 0)], again: false, ..batch() };
    let extents = vec![Extent { start: 0, len: 16384, same: true }, Extent::data(16384, 17)];
    (batch, vec![Ok(SliceData { extents, value: ChainingValue([7; 32]) })])
}

pub(super) fn pages() -> PageHashes {
    let mut pages = PageHashes::default();
    pages.push(&ChainingValue([5; 32]));
    pages.push(&ChainingValue([6; 32]));
    pages
}

/// Bytes of content in [`read`], and in [`changed`].
pub(super) const CONTENT: usize = 17;

/// How [`CONTENT`] became [`PACKED`] bytes.
pub(super) const PACKING: Option<Packing> = Some(Packing { method: Method::Zstd(-3), plain_len: 17 });

/// Bytes of content in [`read`] once it is packed.
pub(super) const PACKED: usize = 9;

pub(super) fn error() -> Error {
    Error::new(ErrorKind::SourceChanged, Side::Source, "read", "it changed")
        .on(b"x\xff")
        .with_retry(Retry::Again)
        .with_hint("later")
}

pub(super) fn hello() -> Hello {
    Hello {
        version: 1,
        release: "0.1.0".to_owned(),
        session: Some([0xab; 16]),
        fresh: true,
        max_memory: 1 << 30,
        iops: Some(300),
        connections: 16,
        timeout: 30,
        direct: Some(DirectOffer {
            key: vec![1, 2, 3],
            ports: Some((40_000, 40_009)),
            congestion: Some("bbr".to_owned()),
            at: vec![IpAddr::from([192, 0, 2, 7])],
            from: Some(IpAddr::from([192, 0, 2, 8])),
        }),
    }
}

pub(super) fn welcomes() -> [Welcome; 3] {
    let welcome = |session, direct| Welcome { version: 1, release: "0.1.0".to_owned(), session, direct };
    let address = Some(IpAddr::from([192, 0, 2, 7]));
    let answer = |port| DirectAnswer { key: vec![4, 5], port, address };
    [
        welcome(Ok([0xcd; 16]), Some(answer(Ok(40_001)))),
        welcome(Ok([0xce; 16]), Some(answer(Err("no port".to_owned())))),
        welcome(Err("no".to_owned()), None),
    ]
}

pub(super) fn requests() -> Vec<Request> {
    let place = Place { path: b"~/x".to_vec(), root: PlaceRoot::InsideIfDir(b"y".to_vec()) };
    let paths = vec![path("a/b"), path("")];
    let offer = Offer {
        entry: Arc::new(entry("a", EntryKind::Symlink(b"to".to_vec()))),
        digest: Some(Digest([3; 32])),
    };
    let write = |batch, slices, packing, proof_follows| Request::Write {
        root: 11,
        batch: Arc::new(batch),
        slices,
        packing,
        proof_follows,
    };
    let sample = ReadSample { path: path("a/b"), offset: 4096, len: 300, small: true };
    vec![
        Request::Nothing,
        Request::OpenSource { root: 1, place: place.clone(), options: Links::Kept.into() },
        Request::OpenSource { root: 9, place: place.clone(), options: Links::Followed.into() },
        Request::OpenSource {
            root: 10,
            place: place.clone(),
            options: SourceOptions {
                links: Links::Kept,
                pages: Some(PageChecks { of: Databases::InnoDb, fails: true }),
                dirlinks: DirLinks::Shown,
            },
        },
        Request::OpenSink {
            root: 2,
            place: place.clone(),
            options: SinkOptions {
                compare: Compare::Checksum,
                update: true,
                source_time_unit: 100,
                keep_dirlinks: true,
                preserve: Preserve { owner: false, times: false, ..Preserve::default() },
                backup: Some(Backup { dir: Some(b"old".to_vec()), suffix: b"~".to_vec() }),
                references: References { dirs: vec![b"../1".to_vec()], purpose: ReferencePurpose::Omit },
                ..SinkOptions::default()
            },
        },
        Request::Close { root: 3 },
        Request::Root { root: 4 },
        Request::Above { root: 4, names: vec![b".f".to_vec()] },
        Request::ScanStart {
            root: 5,
            scan: 6,
            options: ScanOptions {
                starts: paths.clone(),
                rules: rules(),
                min_size: Some(1),
                modified_from: Some(Timestamp { sec: 2, nsec: 3 }),
                max_depth: Some(7),
                one_file_system: true,
                ..ScanOptions::default()
            },
        },
        Request::ScanNext { scan: 6, part: 300, acked: 299 },
        Request::ScanEnd { scan: 6 },
        Request::Lookup { root: 7, paths: paths.clone() },
        Request::Read {
            root: 8,
            batch: Arc::new(batch()),
            pages: None,
            compress: Compress::Never,
            proof_may_follow: false,
        },
        Request::Read {
            root: 8,
            batch: Arc::new(changed().0),
            pages: Some(pages()),
            compress: Compress::Always(Method::Lz4),
            proof_may_follow: true,
        },
        Request::Digest { root: 9, paths: paths.clone() },
        Request::RemoveUnchanged { root: 9, entries: vec![entry("a/b", EntryKind::File)] },
        Request::Offer { root: 10, offers: vec![offer] },
        write(batch(), read(), None, false),
        write(batch(), read(), PACKING, false),
        write(changed().0, changed().1, None, false),
        write(changed().0, changed().1, None, true),
        Request::PageHashes { root: 11, entry: Arc::new(entry("a/b", EntryKind::File)), slices: 1..3 },
        Request::Flush { root: 12 },
        Request::Discard { root: 13, paths: paths.clone() },
        Request::Link {
            root: 14,
            links: vec![HardLink { entry: Arc::new(entry("l", EntryKind::File)), to: path("a/b") }],
        },
        Request::Remove { root: 15, paths },
        Request::Finish { root: 16 },
        Request::Connect { address: Some(IpAddr::from([192, 0, 2, 8])), port: 40_002 },
        Request::Admit {
            pair: 17,
            key: vec![6, 7],
            secret: [8; 32],
            from: vec![IpAddr::from([192, 0, 2, 9])],
        },
        Request::Expect { pair: 17, key: vec![6, 7], from: Vec::new() },
        Request::Visit { pair: 17, at: reach() },
        Request::Meet { pair: 17, with: granter(), at: Some(reach()) },
        Request::Meet { pair: 17, with: granter(), at: None },
        Request::OwnerIds { names: vec![OwnerName { is_user: true, name: b"bob".to_vec() }] },
        Request::Rate { pair: 17, rate: Some(1_000_000) },
        Request::Fetch {
            root: 18,
            pair: Some(17),
            source: 19,
            batch: Arc::new(batch()),
            compress: Compress::Auto,
            ticket: [9; 32],
        },
        Request::Pull {
            root: 19,
            batch: Arc::new(changed().0),
            pages: Some(pages()),
            compress: Compress::Auto,
            ticket: [9; 32],
            proof_may_follow: false,
        },
        Request::Nice,
        Request::HungOperation {
            root: 20,
            timeout: Duration::from_millis(1500),
            known: None,
            held_by_iops: true,
        },
        Request::Probe(ProbeTask::Read { place: place.clone(), samples: vec![sample] }),
        Request::Probe(ProbeTask::Write { place: place.clone() }),
        Request::Probe(ProbeTask::Facts { place, other: Some("::1".to_owned()) }),
        Request::Probe(ProbeTask::Clock),
        Request::Probe(ProbeTask::Work),
        Request::Swallow,
        Request::Produce { bytes: 4096 },
        Request::Sha256 { root: 9, paths: vec![path("a/b")] },
        Request::Read {
            root: 21,
            batch: Arc::new(growing()),
            pages: None,
            compress: Compress::Auto,
            proof_may_follow: false,
        },
        Request::RunProducer { root: 21, program: program(), window: 12 },
        Request::RunConsumer { root: 22, program: program() },
        Request::Said { root: 22, from: 300 },
        Request::Stop { root: 21 },
        Request::PageReport { root: 22 },
        Request::Hashed { root: 23 },
        Request::ExpectRate { bytes_per_second: 1_250_000 },
    ]
}

fn program() -> Program {
    Program { words: vec![b"mbstream".to_vec(), b"-x".to_vec()] }
}

/// A slice of a stream.
pub(super) fn growing() -> Batch {
    let entry = Arc::new(Entry::stream(path(""), GROWING));
    Batch { entries: vec![entry], slices: vec![Slice::whole(0, 3)], again: false }
}

fn reach() -> Reach {
    Reach {
        addresses: vec![IpAddr::from([192, 0, 2, 9])],
        hosts: vec!["a".to_owned()],
        port: 40_003,
        family: Some(IpFamily::V6),
    }
}

fn rules() -> Rules {
    let format =
        RuleFormat { sides: Some(Sides::Source), ..RuleFormat::new(Prefixes::Old { include: true }) };
    let merge = MergeRule {
        file: b"/.f".to_vec(),
        format,
        is_private: true,
        excludes_itself: false,
        tag: Some(serde_bytes::ByteBuf::from(vec![1])),
    };
    let rule = Rule { negated: true, ..Rule::include("x").at(Sides::Destination) };
    Rules { items: vec![RuleItem::Rule(rule), RuleItem::DirMerge(merge)], ..Rules::default() }
}

fn granter() -> Granter {
    Granter {
        name: "a".to_owned(),
        key: vec![8, 9],
        session: [0xef; 16],
        streams: 4,
        timeout: 30,
        rate: None,
    }
}

pub(super) fn responses() -> Vec<Response> {
    let found = ScanBatch {
        entries: vec![entry("d", EntryKind::Dir), entry("n", EntryKind::BlockDevice(2049))],
        errors: vec![Failure { path: path("e"), error: error() }],
        excluded: 9,
        left_out: vec![LeftOut { path: path("f"), is_dir: true, perishable: false }],
        expected: Some(300),
        told: false,
    };
    let note = MetaNote { what: "owner".to_owned(), cause: "no".to_owned(), count: 3, example: path("a") };
    vec![
        Response::Done,
        Response::Failed(error()),
        Response::TooLarge,
        Response::Gone,
        Response::Root(Some(entry("", EntryKind::Dir))),
        Response::Above(RulesAbove {
            root: b"/r".to_vec(),
            files: vec![AboveFile { dir: b"/".to_vec(), name: b".f".to_vec(), text: b"- x".to_vec() }],
        }),
        Response::Scan(ScanPart { found, last: true }),
        Response::Lookup(vec![Ok(None), Ok(Some(entry("f", EntryKind::Fifo))), Err(error())]),
        Response::Read { slices: read(), packing: None, ended: None, proof_follows: false },
        Response::Read { slices: read(), packing: PACKING, ended: Some(5), proof_follows: false },
        Response::Read { slices: changed().1, packing: None, ended: None, proof_follows: true },
        Response::PageHashes(vec![pages(), PageHashes::default()]),
        Response::Digest(vec![Ok(Digest([9; 32])), Err(error())]),
        Response::Answers(vec![
            Ok(Answer::Same),
            Ok(Answer::Updated(Changes::SIZE | Changes::MODE)),
            Ok(Answer::Made(Changes::NEW)),
            Ok(Answer::Need { changes: Changes::NONE, have: vec![0..2, 5..6] }),
            Ok(Answer::Left(SkipReason::Newer)),
            Ok(Answer::Left(SkipReason::Elsewhere)),
            Err(error()),
        ]),
        Response::Write(vec![
            Ok(Outcome::Stored),
            Ok(Outcome::Committed(Some(Digest([4; 32])))),
            Err(error()),
        ]),
        Response::Fetched {
            outcomes: vec![Ok(Outcome::Stored), Err(error())],
            wire_bytes: 12,
            matched_bytes: 13,
            method: Some(Method::Lz4),
            streams: 3,
        },
        Response::Listening(DirectAnswer { key: vec![1], port: Ok(40_004), address: None }),
        Response::Removed(vec![Ok(()), Err(error())]),
        Response::Finish(FinishReport { notes: vec![note] }),
        Response::Nice(Some(Pressure { io: 300, cpu: 7, own: true })),
        Response::HungOperation {
            hung: vec![HungOperation { operation: "read".to_owned(), path: b"/a\xff".to_vec() }],
            held_by_iops: true,
        },
        Response::Probe(ProbeResult::Read(ReadFigures {
            sampled_bytes: 1,
            bytes_per_second: Some(2),
            files_per_second: None,
            cpu: cpu(),
        })),
        Response::Probe(ProbeResult::Write(WriteFigures {
            skipped: Some("full".to_owned()),
            bytes_per_second: None,
            files_per_second: Some(3),
            sync_micros: Some(4),
            cpu: CpuFigures::default(),
        })),
        Response::Probe(ProbeResult::Facts(Box::new(facts()))),
        Response::Probe(ProbeResult::Clock(Timestamp { sec: 5, nsec: 6 })),
        Response::Probe(ProbeResult::Work(CpuTicks { busy: 7, total: 8 })),
        Response::Produced,
        Response::OwnerIds(vec![Some(5), None]),
        Response::Said(Said { text: b"done\n".to_vec(), ended: true }),
        Response::PageReport(None),
        Response::PageReport(Some(PageReport {
            counts: PageCounts { innodb: 5, postgres: 6, bad: 1, without_checksum: 2 },
            named: vec![BadPage { path: RelPath::new(b"shop/orders.ibd").unwrap(), page: 40_961 }],
            unchecked: Vec::new(),
        })),
        Response::Sha256(vec![Ok(Sha256 { sha256: [8; 32], blake3: Digest([9; 32]) }), Err(error())]),
        Response::Hashed(Some(1 << 40)),
    ]
}

fn cpu() -> CpuFigures {
    let figures = |method, bytes_per_second| CompressFigures { method, bytes_per_second, permille: 412 };
    let compress = vec![figures(Packer::Lz4, 7), figures(Packer::Zstd(-3), 8)];
    CpuFigures { cores: 4, hash: 5, aes: 6, compress }
}

fn facts() -> Facts {
    Facts {
        system: "Linux".to_owned(),
        cores: 4,
        aes: true,
        governor: Some(("powersave".to_owned(), "intel_pstate".to_owned())),
        open_files: 1024,
        network: BTreeMap::from([("ipv4.tcp_rmem".to_owned(), "1 2 3".to_owned())]),
        route: Some(Route {
            to: "::1".to_owned(),
            interface: "lo".to_owned(),
            interface_mtu: 65536,
            path_mtu: 1500,
            megabits: Some(10_000),
        }),
        ssh: Some(("::1".to_owned(), "::2".to_owned())),
        sshd: BTreeMap::from([("maxstartups".to_owned(), "10:30:100".to_owned())]),
        directory: "/x".to_owned(),
        writable: true,
        mount: Some(MountedFs {
            point: "/".to_owned(),
            kind: "ext4".to_owned(),
            options: vec!["rw".to_owned()],
        }),
        space: Some(Space { free_bytes: 1, bytes: 2, free_inodes: 3, inodes: 4 }),
    }
}
