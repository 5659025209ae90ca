use std::sync::Arc;

use haul_core::{
    Answer, BatchData, BufferPool, Entry, EntryKind, Error, ErrorKind, Event, FinishReport, HardLink, Links,
    Location, Note, Offer, Ops, RelPath, Report, Reporter, Result, Retry, Side, Sink, SinkCaps, SinkOptions,
    Timestamp, WriteDone,
};
use haul_engine::{Cancel, CopyOptions, EndPair};
use haul_testkit::conformance::{Keeps, OnDisk, Subject, TestedEnd, World};
use haul_testkit::ends::{Call, Effect, EndFaults, FaultySink, MemSink, MemSource, MemTree};

use super::sink::FanOutEnd;
use super::state::FanOut;

fn at(text: &str) -> Location {
    Location::parse(text.as_bytes()).unwrap()
}

fn silent() -> Note {
    Arc::new(|_: &str| {})
}

/// Two directories, which are changed together.
struct TwoDirectories(OnDisk, OnDisk);

impl World for TwoDirectories {
    fn put(&self, entry: &Entry, content: &[u8]) {
        self.0.put(entry, content);
        self.1.put(entry, content);
    }

    fn link(&self, path: &RelPath, to: &RelPath) {
        self.0.link(path, to);
        self.1.link(path, to);
    }

    fn remove(&self, path: &RelPath) {
        self.0.remove(path);
        self.1.remove(path);
    }

    fn look(&self, path: &RelPath) -> Option<(Entry, Vec<u8>)> {
        let (one, other) = (self.0.look(path), self.1.look(path));
        let content = |found: &Option<(Entry, Vec<u8>)>| found.as_ref().map(|(_, bytes)| bytes.clone());
        assert_eq!(content(&one), content(&other), "{path}");
        one
    }

    fn names(&self) -> Vec<RelPath> {
        let names = self.0.names();
        assert_eq!(names, self.1.names());
        names
    }
}

fn two_directories() -> TestedEnd {
    TestedEnd::new("two directories", Keeps::everything(), || {
        let world = TwoDirectories(OnDisk::new(), OnDisk::new());
        let (pool, ops) = (BufferPool::new(64 << 20), Arc::<Ops>::default());
        let (place, other) = (world.0.place(), world.1.place());
        let (from, buffers, limit) = (place.clone(), pool.clone(), Arc::clone(&ops));
        let source =
            Box::new(move || haul_local::open_source(&from, Links::Kept, false, &buffers, &limit).unwrap());
        let sink = move |options: &SinkOptions| -> Arc<dyn Sink> {
            let open = |place| haul_local::open_sink(place, false, options, &pool, &ops).unwrap();
            let ends = vec![
                FanOutEnd::new(&at("/first"), Ok(open(&place))),
                FanOutEnd::new(&at("/second"), Ok(open(&other))),
            ];
            Arc::new(FanOut::new(ends, pool.clone(), silent()).unwrap())
        };
        Subject { world: Box::new(world), source, sink: Box::new(sink) }
    })
}

#[test]
fn conformance() {
    two_directories().check_sink();
}

/// A source in memory and three destinations, each with its faults.
struct FanOutRun {
    source: Arc<MemTree>,
    trees: Vec<Arc<MemTree>>,
    faults: Vec<Arc<EndFaults>>,
}

fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

impl FanOutRun {
    /// Ten small files, a large one of six slices, a directory and a link.
    fn new() -> Self {
        let source = MemTree::new();
        let time = Timestamp { sec: 1_000_000, nsec: 0 };
        let put = |name: &str, kind: EntryKind, content: &[u8]| {
            let entry = Entry::new(path(name), kind, content.len() as u64);
            source.put(&Entry { mtime: time, allocated: entry.len, ..entry }, content);
        };
        put("dir", EntryKind::Dir, b"");
        for number in 0..10 {
            put(&format!("dir/{number}"), EntryKind::File, format!("content {number}").as_bytes());
        }
        let large: Vec<u8> = (0..(20 << 20) + 17_u32).map(|at| (at * 31 + at / 4096) as u8).collect();
        put("large", EntryKind::File, &large);
        put("link", EntryKind::Symlink(b"large".to_vec()), b"");
        let trees = (0..3).map(|_| MemTree::new()).collect();
        Self { source, trees, faults: (0..3).map(|_| EndFaults::new()).collect() }
    }

    fn run(&self) -> (Report, ToldTexts) {
        self.run_with(&SinkOptions::default())
    }

    fn run_with(&self, options: &SinkOptions) -> (Report, ToldTexts) {
        let pool = BufferPool::new(64 << 20);
        let events = ToldTexts::default();
        let notes = events.0.clone();
        let end = |number: usize| {
            let sink = Arc::new(MemSink::new(&self.trees[number], options));
            FanOutEnd::new(
                &at(&format!("/end{number}")),
                Ok(Arc::new(FaultySink::new(sink, &self.faults[number]))),
            )
        };
        let note: Note = Arc::new(move |text| notes.lock().push(text.to_owned()));
        let sink = Arc::new(FanOut::new((0..3).map(end).collect(), BufferPool::new(0), note).unwrap());
        let source = Arc::new(MemSource::new(&self.source, &pool));
        let parts = [EndPair { source, sink, preview: None, view: None, other_sources: Vec::new() }];
        let report = haul_engine::copy(&parts, CopyOptions::default(), &events, &Cancel::default());
        (report, events)
    }

    /// Whether a destination has all entries, with their content.
    fn is_complete(&self, number: usize) -> bool {
        let there = &self.trees[number];
        self.source.names().iter().filter(|name| !name.is_root()).all(|name| {
            let content = |tree: &Arc<MemTree>| tree.look(name).map(|(entry, bytes)| (entry.kind, bytes));
            content(&self.source) == content(there)
        })
    }
}

#[derive(Default)]
struct ToldTexts(Arc<haul_core::sync::Mutex<Vec<String>>>);

impl Reporter for ToldTexts {
    fn event(&self, event: &Event<'_>) {
        if let Event::Failed(failure) = event {
            self.0.lock().push(format!("failed {}: {}", failure.path, failure.error));
        }
    }
}

fn error(kind: ErrorKind, retry: Retry) -> Error {
    Error::new(kind, Side::Destination, "write", "no").on("x").with_retry(retry)
}

#[test]
fn all_destinations_get_everything_and_a_second_run_changes_nothing() {
    let scene = FanOutRun::new();
    let (report, _) = scene.run();
    assert_eq!((report.fatal, report.totals.failed), (None, 0));
    assert_eq!((report.totals.copied, (0..3).all(|number| scene.is_complete(number))), (11, true));
    let (again, _) = scene.run();
    assert_eq!((again.totals.same, again.totals.copied), (again.totals.found, 0));
    // Two of them lack an entry.
    let written = scene.faults[0].count(Call::Write);
    scene.trees[1].remove(&path("large"));
    scene.trees[2].remove(&path("dir/3"));
    let (again, _) = scene.run();
    assert_eq!((again.totals.copied, (0..3).all(|number| scene.is_complete(number))), (2, true));
    assert_eq!(scene.faults[0].count(Call::Write), written, "the first one needs nothing");
}

#[test]
fn writes_that_fail_for_a_time_are_repeated_where_they_failed() {
    for retry in [Retry::Again, Retry::OtherStream] {
        let scene = FanOutRun::new();
        scene.faults[1].add(Call::Write, 0..2, Effect::FailEach(error(ErrorKind::Corrupt, retry)));
        let writes = |number: usize| scene.faults[number].count(Call::Write);
        let (report, _) = scene.run();
        assert_eq!((report.fatal, report.totals.failed), (None, 0), "{retry:?}");
        assert!((0..3).all(|number| scene.is_complete(number)) && writes(1) > writes(0), "{retry:?}");
    }
}

#[test]
fn a_destination_that_refuses_an_entry_fails_it_and_the_others_get_it() {
    let scene = FanOutRun::new();
    let denied = error(ErrorKind::PermissionDenied, Retry::Never);
    scene.faults[2].add(Call::Write, 0..1, Effect::FailEach(denied));
    let (report, events) = scene.run();
    let failed = report.totals.failed;
    assert!(report.fatal.is_none() && failed > 0 && events.0.lock().len() as u64 == failed);
    assert_eq!(report.totals.found, report.totals.copied + report.totals.made + report.totals.failed);
    assert!(scene.is_complete(0) && scene.is_complete(1) && !scene.is_complete(2));
}

#[test]
fn a_destination_that_is_lost_is_named_once_and_the_others_get_everything() {
    let lost = |kind| error(kind, Retry::Never);
    let faults = [
        (Call::Write, Effect::FailEach(lost(ErrorKind::NoSpace)), ErrorKind::NoSpace),
        (Call::Write, Effect::FailEach(lost(ErrorKind::Unreachable)), ErrorKind::Unreachable),
        (Call::Offer, Effect::Fail(lost(ErrorKind::Unreachable)), ErrorKind::Unreachable),
        // It cannot create the root.
        (Call::Offer, Effect::FailEach(lost(ErrorKind::PermissionDenied)), ErrorKind::PermissionDenied),
        (Call::Finish, Effect::Fail(lost(ErrorKind::Io)), ErrorKind::Io),
    ];
    for (call, effect, kind) in faults {
        let scene = FanOutRun::new();
        scene.faults[0].add(call, 0..u64::MAX, effect);
        let (report, events) = scene.run();
        assert_eq!(report.fatal.map(|error| error.kind()), Some(kind), "{call:?}");
        assert!(scene.is_complete(1) && scene.is_complete(2), "{call:?}");
        let told = events.0.lock();
        assert!(told.len() == 1 && told[0].ends_with("the other destinations go on"), "{told:?}");
    }
}

#[test]
fn if_all_are_lost_the_run_ends() {
    let scene = FanOutRun::new();
    for faults in &scene.faults {
        let full = Effect::FailEach(error(ErrorKind::NoSpace, Retry::Never));
        faults.add(Call::Write, 0..u64::MAX, full);
    }
    let (report, _) = scene.run();
    assert_eq!(report.fatal.map(|error| error.kind()), Some(ErrorKind::NoSpace));
    assert_eq!(report.totals.copied, 0);
    let lost = FanOutEnd::new(&at("h:/x"), Err(error(ErrorKind::Unreachable, Retry::Never)));
    assert!(FanOut::new(vec![lost], BufferPool::new(0), silent()).is_err());
}

#[test]
fn no_name_is_linked_to_a_file_that_stays_at_one_destination() {
    let run = FanOutRun::new();
    let entry = Entry::new(path("a"), EntryKind::File, 8);
    run.source.put(&Entry { dev: 1, ino: 77, nlink: 2, allocated: 8, ..entry.clone() }, b"original");
    run.source.link(&path("b"), &path("a"));
    // At one destination both names are there, and the first one has other content.
    for name in ["a", "b"] {
        let there = Entry { path: path(name), len: 5, allocated: 5, ..entry.clone() };
        run.trees[1].put(&there, if name == "a" { b"newer" } else { b"older" });
    }
    let (report, events) = run.run_with(&SinkOptions { ignore_existing: true, ..SinkOptions::default() });
    let content = |end: usize, name: &str| run.trees[end].look(&path(name)).map(|(_, bytes)| bytes);
    assert_eq!(content(1, "a"), Some(b"newer".to_vec()));
    assert_eq!(content(1, "b"), Some(b"older".to_vec()), "it is no link to the file that stays");
    assert_eq!((content(0, "b"), content(2, "b")), (Some(b"original".to_vec()), Some(b"original".to_vec())));
    let told = events.0.lock();
    assert!(report.totals.failed == 1 && told.len() == 1 && told[0].contains("stays as it is"), "{told:?}");
}

/// A sink that forgets the last answer.
struct ForgetfulSink(Arc<MemSink>);

impl Sink for ForgetfulSink {
    fn caps(&self) -> SinkCaps {
        self.0.caps()
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        self.0.offer(&offers[1..])
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        self.0.write(data, done);
    }

    fn flush(&self) {}

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        self.0.discard(paths)
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        self.0.link(&links[1..])
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        self.0.remove(&paths[1..])
    }

    fn finish(&self) -> Result<FinishReport> {
        self.0.finish()
    }
}

#[test]
fn a_destination_that_forgets_an_answer_is_lost() {
    let run = FanOutRun::new();
    let (pool, events) = (BufferPool::new(64 << 20), ToldTexts::default());
    let sink = |number: usize| Arc::new(MemSink::new(&run.trees[number], &SinkOptions::default()));
    let ends = vec![
        FanOutEnd::new(&at("/end0"), Ok(Arc::new(ForgetfulSink(sink(0))))),
        FanOutEnd::new(&at("/end1"), Ok(sink(1))),
    ];
    let sink = Arc::new(FanOut::new(ends, BufferPool::new(0), silent()).unwrap());
    let source = Arc::new(MemSource::new(&run.source, &pool));
    let parts = [EndPair { source, sink, preview: None, view: None, other_sources: Vec::new() }];
    let report = haul_engine::copy(&parts, CopyOptions::default(), &events, &Cancel::default());
    assert_eq!(report.fatal.map(|error| error.kind()), Some(ErrorKind::Protocol));
    assert!(run.is_complete(1));
}
