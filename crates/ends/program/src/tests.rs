use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use haul_core::digest::{PART_LEN, SliceHasher};
use haul_core::entry::GROWING;
use haul_core::{
    Batch, BatchData, Buffer, BufferPool, ChainingValue, Digest, Entry, ErrorKind, Extent, Outcome, Program,
    RelPath, Result, SLICE_LEN, Sink, Slice, SliceData, Source,
};
use haul_testkit::Scratch;

use crate::guard::ProgramGuard;
use crate::{ProgramSink, ProgramSource, RunMode};

fn line(text: &str) -> Program {
    Program { words: vec![text.as_bytes().to_vec()] }
}

fn pool() -> BufferPool {
    BufferPool::new(16 * SLICE_LEN)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 4096) as u8).collect()
}

fn batch(index: u32, len: u64) -> Arc<Batch> {
    let entry = Arc::new(Entry::stream(RelPath::root(), len));
    Arc::new(Batch { entries: vec![entry], slices: vec![Slice::whole(0, index)], again: false })
}

fn source(text: &str, window: u32) -> ProgramSource {
    ProgramSource::run(&line(text), RunMode::There, window, &pool(), Arc::default()).unwrap()
}

/// The content of a slice, and the length of the stream if it ends there.
fn read(source: &ProgramSource, index: u32) -> Result<(Vec<u8>, Option<u64>)> {
    let data = source.read(&batch(index, GROWING))?;
    let entry = &data.batch.entries[0];
    let content = data.content.bytes().to_vec();
    let slice = data.slices[0].as_ref().unwrap();
    if !content.is_empty() {
        assert!(slice.proves(entry, Slice::whole(0, index), &content), "slice {index}");
    }
    Ok((content, (!entry.is_growing()).then_some(entry.len)))
}

#[test]
fn a_stream_has_the_slices_length_and_digest_of_its_bytes() {
    let scratch = Scratch::new();
    let slice = SLICE_LEN as usize;
    for len in [0, 1, slice - 1, slice, slice + 1, 2 * slice, 5 * slice + 7] {
        let all = bytes(len);
        fs::write(scratch.join("file"), &all).unwrap();
        let source = source(&format!("cat {}", scratch.join("file").display()), 3);
        let mut got = Vec::new();
        let mut index = 0;
        let end = loop {
            let (content, end) = read(&source, index).unwrap();
            got.extend(content);
            index += 1;
            if let Some(end) = end {
                break end;
            }
        };
        assert!(end == len as u64 && got == all, "{len}");
        assert_eq!(read(&source, index + 3).unwrap(), (Vec::new(), Some(end)), "behind the end");
        let digest = source.digest(&[RelPath::root()]).unwrap().pop().unwrap();
        assert_eq!(digest.unwrap(), Digest::of(&all), "{len}");
    }
}

#[test]
fn parts_have_the_bytes_and_the_digest_of_their_stream_too() {
    let scratch = Scratch::new();
    let (slice, part) = (SLICE_LEN as usize, PART_LEN as usize);
    for len in
        [0, 5, part, slice, slice + 1, slice + part, 2 * slice - 1, 2 * slice, 2 * slice + 3 * part + 7]
    {
        let all = bytes(len);
        fs::write(scratch.join("file"), &all).unwrap();
        let (source, got) =
            (source(&format!("cat {}", scratch.join("file").display()), 4), scratch.join("got"));
        let sink = sink(&format!("cat > {}", got.display()));
        let (sender, receiver) = channel();
        // The last part comes first, and one comes twice.
        for at in (0..13).rev().chain([1]) {
            let asked = Batch { slices: vec![part_at(at)], ..Batch::clone(&batch(0, GROWING)) };
            let data = source.read(&Arc::new(asked)).unwrap();
            let (entry, sent) = (Arc::clone(&data.batch.entries[0]), data.batch.slices[0]);
            assert_eq!(sent.part.is_none(), at == 0 && len <= slice, "{len} {at}");
            if at > 0 && data.content.bytes().is_empty() {
                assert!(entry.len == len as u64 && (len <= slice || at as usize * part >= len), "{len} {at}");
                continue;
            }
            let sender = sender.clone();
            let data = BatchData { at_hand: false, ..data };
            sink.write(data, Box::new(move |outcomes| sender.send(outcomes).unwrap()));
        }
        drop(sender);
        let outcomes: Vec<Outcome> = receiver.iter().flatten().map(|outcome| outcome.unwrap()).collect();
        let digest = Some(Digest::of(&all));
        assert!(outcomes.contains(&Outcome::Committed(digest)), "{len}: {outcomes:?}");
        assert_eq!(source.digest(&[RelPath::root()]).unwrap().pop().unwrap().ok(), digest, "{len}");
        let _ = sink.finish().unwrap();
        assert!(fs::read(&got).unwrap() == all, "{len}");
    }
}

fn part_at(at: u32) -> Slice {
    Slice { part: Some((at % 4) as u8), ..Slice::whole(0, at / 4) }
}

#[test]
fn a_slice_is_kept_for_as_long_as_it_may_be_asked_for_again() {
    let source = source("yes", 3);
    let first = read(&source, 0).unwrap();
    assert!(read(&source, 2).is_ok());
    assert_eq!(read(&source, 0).unwrap(), first, "a lost answer");
    assert!(read(&source, 3).is_ok() && read(&source, 1).is_ok());
    assert!(read(&source, 0).is_err(), "slice 3 says that slice 0 has arrived");
}

#[test]
fn a_program_that_fails_gives_no_last_slice() {
    let source = source("head -c 5000000 /dev/zero; exit 3", 3);
    let error = read(&source, 1).unwrap_err();
    assert!(error.to_string().contains("exited with code 3"), "{error}");
    let source = ProgramSource::run(&line("/no/such/program"), RunMode::There, 3, &pool(), Arc::default());
    assert_eq!(source.err().map(|error| error.kind()), Some(ErrorKind::NotFound));
}

#[test]
fn a_stopped_source_fails_at_once_and_its_program_ends() {
    let scratch = Scratch::new();
    let marker = scratch.join("marker");
    let source = source(&format!("sleep 2; : > {}; sleep 60", marker.display()), 3);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| read(&source, 0));
        std::thread::sleep(Duration::from_millis(100));
        source.stop();
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    });
    drop(source);
    std::thread::sleep(Duration::from_secs(3));
    assert!(!marker.exists());
}

/// A slice of a stream on its way to a sink.
fn slice_of(all: &[u8], index: u32, len: u64) -> BatchData {
    let start = index as usize * SLICE_LEN as usize;
    let part = &all[start..all.len().min(start + SLICE_LEN as usize)];
    let mut hasher = SliceHasher::new(len, start as u64);
    hasher.update(part);
    data(part, index, len, hasher.finish())
}

fn data(part: &[u8], index: u32, len: u64, value: ChainingValue) -> BatchData {
    let mut content = BufferPool::new(0).take();
    content.grow(part.len()).unwrap().copy_from_slice(part);
    let extents = (!part.is_empty()).then(|| Extent::data(0, part.len() as u32)).into_iter().collect();
    let slices = vec![Ok(SliceData { extents, value })];
    BatchData { batch: batch(index, len), slices, content, at_hand: false }
}

type OutcomeReceiver = std::sync::mpsc::Receiver<(u32, Result<Outcome>)>;

/// Writes slices in this order, without waiting.
fn write(sink: &ProgramSink, all: &[u8], order: &[u32]) -> OutcomeReceiver {
    let (sender, receiver) = channel();
    let last = haul_core::digest::slice_count(all.len() as u64) - 1;
    for index in order {
        let (sender, index) = (sender.clone(), *index);
        let len = if index == last { all.len() as u64 } else { GROWING };
        let done = Box::new(move |mut outcomes: Vec<Result<Outcome>>| {
            sender.send((index, outcomes.pop().unwrap())).unwrap();
        });
        sink.write(slice_of(all, index, len), done);
    }
    receiver
}

fn sink(text: &str) -> ProgramSink {
    ProgramSink::run(&line(text), RunMode::There).unwrap()
}

#[test]
fn slices_in_any_order_reach_the_program_in_theirs_and_each_once() {
    let scratch = Scratch::new();
    let (got, end) = (scratch.join("got"), scratch.join("end"));
    let all = bytes(5 * SLICE_LEN as usize + 7);
    for order in [&[0, 1, 2, 3, 4, 5][..], &[5, 4, 3, 2, 1, 0], &[2, 2, 5, 0, 0, 1, 4, 3, 5, 1, 0]] {
        let sink = sink(&format!("cat > {}; : > {}", got.display(), end.display()));
        let answers = write(&sink, &all, order);
        let mut answers: Vec<_> =
            answers.iter().take(order.len()).map(|(at, answer)| (at, answer.unwrap())).collect();
        answers.dedup();
        assert!(answers.iter().all(|(at, answer)| match answer {
            Outcome::Committed(digest) => *at == 5 && *digest == Some(Digest::of(&all)),
            Outcome::Stored => *at < 5,
        }));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!end.exists(), "it sees no end before the digests were compared");
        let _ = sink.finish().unwrap();
        let _ = sink.finish().unwrap();
        assert!(end.exists() && fs::read(&got).unwrap() == all);
        fs::remove_file(&end).unwrap();
    }
}

#[test]
fn content_that_does_not_verify_never_reaches_the_program() {
    let sink = sink("cat > /dev/null");
    let all = bytes(SLICE_LEN as usize + 5);
    let answer = |data: BatchData| {
        let (sender, receiver) = channel();
        sink.write(data, Box::new(move |mut outcomes| sender.send(outcomes.pop().unwrap()).unwrap()));
        receiver.recv_timeout(Duration::from_secs(5)).unwrap().map_err(|error| error.kind())
    };
    let good = || slice_of(&all, 0, GROWING);
    let flipped = {
        let mut data = good();
        data.content.bytes_mut()[7] ^= 1;
        data
    };
    assert_eq!(answer(flipped), Err(ErrorKind::Corrupt));
    // As the proof of a slice does not have its length, a shorter one does not count, nor one with holes.
    let mut short = good();
    short.content.truncate(9);
    assert_eq!(answer(short), Err(ErrorKind::Corrupt));
    let mut hole = good();
    hole.slices = vec![Ok(SliceData { extents: Vec::new(), value: ChainingValue([0; 32]) })];
    hole.content = Buffer::default();
    assert_eq!(answer(hole), Err(ErrorKind::Corrupt));
    let file = Batch {
        entries: vec![Arc::new(Entry::new(RelPath::root(), haul_core::EntryKind::File, 5))],
        ..Batch::clone(&batch(0, 5))
    };
    assert_eq!(answer(BatchData { batch: Arc::new(file), ..good() }), Err(ErrorKind::Protocol));
    assert_eq!(answer(good()), Ok(Outcome::Stored));
    assert!(sink.finish().is_err(), "not all of it has come");
}

#[test]
fn a_program_that_ends_early_answers_waiting_and_later_writes() {
    for (text, cause) in [
        ("exit 7", "exited with code 7"),
        ("head -c 9 > /dev/null", "before it had read"),
        ("exec <&-; sleep 60", "closed its standard input"),
    ] {
        let sink = sink(text);
        let all = bytes(6 * SLICE_LEN as usize);
        for order in [&[0, 1, 3, 4][..], &[2, 5]] {
            for (at, answer) in write(&sink, &all, order).iter().take(order.len()) {
                // Content that fits into the pipe may count as taken.
                assert!(answer.is_err() || at == 0, "{text} {at}");
                let text = answer.err().map(|error| error.to_string());
                assert!(text.is_none_or(|text| text.contains(cause)), "{cause}");
            }
        }
        let error = sink.finish().unwrap_err();
        assert!(error.to_string().contains(cause), "{error}");
    }
}

#[test]
fn a_program_that_has_ended_before_its_input_may_have_left_some_of_it() {
    for text in ["true", "head -c 100 > /dev/null"] {
        for _ in 0..20 {
            let sink = sink(text);
            let answer = write(&sink, &bytes(1000), &[0]).recv().unwrap().1;
            while sink.said(0).is_ok_and(|said| !said.ended) {}
            let error = answer.and_then(|_| sink.finish().map(drop)).unwrap_err().to_string();
            assert!(
                error.contains("has not read the last") || error.contains("before it had read"),
                "{error}"
            );
        }
    }
}

#[test]
fn who_only_listens_learns_of_the_failure_after_the_last_word() {
    for (text, said) in
        [("exit 7", ""), ("echo one >&2; exit 7", "one\n"), ("exec 2>&-; sleep 1; exit 7", "")]
    {
        let sink = sink(text);
        let mut heard = Vec::new();
        let error = loop {
            match sink.said(heard.len() as u64) {
                Ok(said) => {
                    assert!(!said.ended, "{text}");
                    heard.extend(said.text);
                }
                Err(error) => break error,
            }
        };
        assert!(
            error.to_string().contains("exited with code 7") && heard == said.as_bytes(),
            "{text}: {error}"
        );
    }
}

fn gone(marker: &Path, within: Duration) -> bool {
    std::thread::sleep(within);
    !marker.exists()
}

#[test]
fn a_dropped_or_discarded_sink_kills_the_program_without_an_end() {
    for discards in [false, true] {
        let scratch = Scratch::new();
        let marker = scratch.join("marker");
        let sink = sink(&format!("cat > /dev/null; : > {}", marker.display()));
        let _ = write(&sink, &bytes(2 * SLICE_LEN as usize), &[0]).recv().unwrap().1.unwrap();
        if discards {
            sink.discard(&[RelPath::root()]).unwrap();
            assert!(sink.finish().is_err());
        }
        drop(sink);
        assert!(gone(&marker, Duration::from_millis(500)), "{discards}");
    }
}

/// As if this process were killed: its end of the pipe of the guard closes, and nothing else is done.
#[test]
fn the_guard_kills_the_group_when_this_process_is_gone() {
    let scratch = Scratch::new();
    let marker = scratch.join("marker");
    let guard = ProgramGuard::start(None).unwrap();
    let mut command = crate::command(&line(&format!("sleep 1; : > {}", marker.display())));
    crate::command::join(&mut command, &guard);
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    guard.abandon();
    assert!(!child.wait().unwrap().success() && begun.elapsed() < Duration::from_millis(900));
    assert!(gone(&marker, Duration::from_millis(1500)));
}

#[test]
fn a_word_of_a_shell_is_a_command_line_and_others_are_words() {
    let program = |words: &[&str]| {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        crate::command(&Program { words }).get_program().to_string_lossy().into_owned()
    };
    assert_eq!(program(&["cat"]), "cat");
    assert_eq!(program(&["cat x"]), "bash");
    assert_eq!(program(&["a|b"]), "bash");
    assert_eq!(program(&["cat", "a b"]), "cat");
}
