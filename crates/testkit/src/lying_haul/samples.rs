//! One message of each kind that a remote end may send. A liar replaces parts of real messages with parts of these.

use std::net::IpAddr;

use haul_core::filter::{AboveFile, RulesAbove};
use haul_core::page_checks::Unchecked;
use haul_core::probe::{CpuTicks, ProbeResult};
use haul_core::source::ScanBatch;
use haul_core::{
    Answer, BadPage, ChainingValue, Changes, Digest, Entry, EntryKind, Error, ErrorKind, Extent, Failure,
    FinishReport, HungOperation, LeftOut, MetaNote, Method, Outcome, OwnerNames, Packing, PageCounts,
    PageHashes, PageReport, Pressure, RelPath, Retry, Said, Sha256, Side, SkipReason, SliceData, Timestamp,
};
use haul_wire::{DirectAnswer, FrameKind, HEADER_LEN, Response, ScanPart, Welcome, encode};

use super::parts::{MessageField, parts};

/// The samples as bodies, with their parts.
pub(crate) fn all() -> Vec<(Vec<u8>, Vec<MessageField>)> {
    let told = welcomes().into_iter().map(|message| {
        let body = body(FrameKind::Welcome, &message);
        let parts = parts::<Welcome>("Welcome", &body).unwrap();
        (body, parts)
    });
    let answered = responses().into_iter().map(|message| {
        let body = body(FrameKind::Response, &message);
        let parts = parts::<Response>("Response", &body).unwrap();
        (body, parts)
    });
    told.chain(answered).collect()
}

fn body<T: serde::Serialize>(kind: FrameKind, message: &T) -> Vec<u8> {
    encode(kind, 0, message, 0).unwrap().split_off(HEADER_LEN)
}

/// The response that stands for its kind. It does not compile while a kind of response has none.
fn responses() -> Vec<Response> {
    let next = |after: &Response| match after {
        Response::Done => vec![Response::Failed(error(Retry::Never))],
        Response::Failed(_) => vec![Response::TooLarge],
        Response::TooLarge => vec![Response::Gone],
        Response::Gone => vec![Response::Root(None), Response::Root(Some(entry("", EntryKind::Dir)))],
        Response::Root(_) => vec![Response::Above(RulesAbove {
            root: b"/told".to_vec(),
            files: vec![AboveFile { dir: b"/".to_vec(), name: b".told".to_vec(), text: b"- x".to_vec() }],
        })],
        Response::Above(_) => vec![scan()],
        Response::Scan(_) => vec![Response::Lookup(vec![
            Ok(Some(entry("f", EntryKind::File))),
            Ok(None),
            Err(error(Retry::Again)),
        ])],
        Response::Lookup(_) => vec![read(Some(Packing { method: Method::Lz4, plain_len: 17 })), read(None)],
        Response::Read { .. } => {
            vec![Response::Digest(vec![Ok(Digest([9; 32])), Err(error(Retry::Never))])]
        }
        Response::Digest(_) => vec![Response::PageHashes(vec![pages(), PageHashes::default()])],
        Response::PageHashes(_) => vec![answers()],
        Response::Answers(_) => vec![Response::Write(outcomes())],
        Response::Write(_) => vec![Response::Fetched {
            outcomes: outcomes(),
            wire_bytes: 12,
            matched_bytes: 13,
            method: Some(Method::Zstd(-3)),
            streams: 3,
        }],
        Response::Fetched { .. } => vec![Response::Listening(direct())],
        Response::Listening(_) => vec![Response::Removed(vec![Ok(()), Err(error(Retry::Anew))])],
        Response::Removed(_) => vec![Response::Finish(FinishReport { notes: vec![note()] })],
        Response::Finish(_) => vec![Response::Nice(Some(Pressure { io: 300, cpu: 7, own: true }))],
        Response::Nice(_) => {
            let hung = HungOperation { operation: EVIL.to_owned(), path: EVIL.as_bytes().to_vec() };
            vec![Response::HungOperation { hung: vec![hung], held_by_iops: true }]
        }
        Response::HungOperation { .. } => {
            vec![Response::Probe(ProbeResult::Work(CpuTicks { busy: 7, total: 8 }))]
        }
        Response::Probe(_) => vec![Response::Produced],
        Response::Produced => vec![Response::OwnerIds(vec![Some(5), None])],
        Response::OwnerIds(_) => vec![digests()],
        Response::Sha256(_) => vec![Response::Said(Said { text: b"one\n".to_vec(), ended: true })],
        Response::Said(_) => vec![page_report()],
        Response::PageReport(_) => vec![Response::Hashed(Some(u64::MAX))],
        Response::Hashed(_) => Vec::new(),
    };
    let mut all = vec![Response::Done];
    loop {
        let more = next(&all[all.len() - 1]);
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}

fn digests() -> Response {
    let both = Sha256 { sha256: [8; 32], blake3: Digest([9; 32]) };
    Response::Sha256(vec![Ok(both), Err(error(Retry::Never))])
}

fn page_report() -> Response {
    Response::PageReport(Some(PageReport {
        counts: PageCounts { innodb: 5, postgres: 6, bad: 1, without_checksum: 2 },
        named: vec![BadPage { path: path("told-file"), page: 3 }],
        unchecked: vec![Unchecked { cause: EVIL.to_owned(), count: 1, example: path("told-file") }],
    }))
}

fn welcomes() -> Vec<Welcome> {
    let mut welcome = Welcome::new(Ok([0xcd; 16]));
    welcome.direct = Some(direct());
    vec![welcome, Welcome::new(Err(EVIL.to_owned()))]
}

/// Words that would act on a terminal.
const EVIL: &str = "\x1b]0;t\x07\x1b[2J\u{9b}31m\r\nhaul: all there\u{202e}";

fn direct() -> DirectAnswer {
    DirectAnswer { key: vec![4, 5], port: Ok(40_001), address: Some(IpAddr::from([192, 0, 2, 7])) }
}

fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

fn error(retry: Retry) -> Error {
    Error::new(ErrorKind::Io, Side::Source, "read", "it cannot").on(EVIL).with_retry(retry).with_hint("later")
}

fn entry(name: &str, kind: EntryKind) -> Entry {
    let mut entry = Entry::new(path(name), kind, 5_000);
    entry.ctime = Some(Timestamp { sec: 1_700_000_001, nsec: 2 });
    entry.names = Some(Box::new(OwnerNames { user: b"me".to_vec(), group: b"us".to_vec() }));
    entry.mode = 0o4755;
    entry.nlink = 2;
    entry.xattrs = [("security.selinux", "evil_t"), ("trusted.evil", "x"), ("user.a", "y")]
        .map(|(name, value)| {
            let bytes = |text: &str| serde_bytes::ByteBuf::from(text.as_bytes().to_vec());
            (bytes(name), bytes(value))
        })
        .to_vec();
    entry
}

fn scan() -> Response {
    let kinds = [
        ("told-file", EntryKind::File),
        ("told-dir", EntryKind::Dir),
        ("told-link", EntryKind::Symlink(b"../canary".to_vec())),
        // Through the link.
        ("told-link/new", EntryKind::Dir),
        ("told-pipe", EntryKind::Fifo),
        ("told-socket", EntryKind::Socket),
        ("told-character", EntryKind::CharDevice(259)),
        ("told-block", EntryKind::BlockDevice(2049)),
    ];
    Response::Scan(ScanPart {
        found: ScanBatch {
            entries: kinds.into_iter().map(|(name, kind)| entry(name, kind)).collect(),
            errors: vec![Failure { path: path("told-error"), error: error(Retry::Never) }],
            excluded: 9,
            left_out: vec![LeftOut { path: path("told-out"), is_dir: false, perishable: false }],
            expected: Some(u64::MAX),
            told: false,
        },
        last: false,
    })
}

fn read(packing: Option<Packing>) -> Response {
    let extents = vec![Extent::data(0, 10), Extent { start: 4096, len: 7, same: true }];
    let slices = vec![Ok(SliceData { extents, value: ChainingValue([7; 32]) }), Err(error(Retry::Again))];
    Response::Read { slices, packing, ended: None, proof_follows: false }
}

fn pages() -> PageHashes {
    let mut pages = PageHashes::default();
    pages.push(&ChainingValue([5; 32]));
    pages
}

fn answers() -> Response {
    Response::Answers(vec![
        Ok(Answer::Same),
        Ok(Answer::Updated(Changes::SIZE | Changes::MODE)),
        Ok(Answer::Made(Changes::NEW)),
        Ok(Answer::Need { changes: Changes::NEW, have: vec![0..1, 5..6] }),
        Ok(Answer::Left(SkipReason::Newer)),
        Err(error(Retry::Again)),
    ])
}

fn outcomes() -> Vec<haul_core::Result<Outcome>> {
    vec![
        Ok(Outcome::Stored),
        Ok(Outcome::Committed(Some(Digest([4; 32])))),
        Ok(Outcome::Committed(None)),
        Err(error(Retry::Again)),
    ]
}

fn note() -> MetaNote {
    MetaNote { what: EVIL.to_owned(), cause: EVIL.to_owned(), count: u64::MAX, example: path("a") }
}
