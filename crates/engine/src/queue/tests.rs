//! Tests of the order in which the queue hands out work.

use std::sync::Arc;

use haul_core::{Entry, EntryKind, PageHashes, RelPath, SLICE_LEN};

use super::dispatch::{MAX_SMALL, Queue, Work};
use super::small::RUN;

fn file(name: &str, len: u64) -> Arc<Entry> {
    Arc::new(Entry::new(RelPath::new(name.as_bytes()).unwrap(), EntryKind::File, len))
}

fn drain(queue: &Queue) -> Vec<Vec<(String, u32)>> {
    let mut out = Vec::new();
    while !queue.is_empty() {
        let Some(work) = queue.take(0, |_| ()) else { break };
        out.push(work.batch.iter().map(|(e, s)| (e.path.to_string(), s.index)).collect());
    }
    out
}

#[test]
fn large_and_small_files_alternate_and_none_is_lost() {
    let queue = Queue::default();
    queue.add_large(file("g", 3 * SLICE_LEN + 1), Vec::from([1..2, 2..3]), false);
    queue.add_small((0..40).map(|i| file(&format!("s{i}"), 1000)).collect());
    let batches = drain(&queue);
    let large: Vec<u32> = batches.iter().flatten().filter(|(n, _)| n == "g").map(|(_, i)| *i).collect();
    assert_eq!(large, [0, 3], "slices that the destination has are not sent");
    assert_eq!(batches.iter().flatten().filter(|(n, _)| n != "g").count(), 40);
    assert!(batches[0][0].0 != batches[1][0].0 && batches[..2].iter().flatten().any(|(n, _)| n == "g"));
}

#[test]
fn the_last_slices_are_sent_in_parts() {
    let parts = |splits: bool| {
        let queue = Queue::default();
        queue.allow(2);
        queue.add_large(file("g", 4 * SLICE_LEN + 1), Vec::new(), false);
        if splits {
            queue.split();
        }
        let mut all = Vec::new();
        while !queue.is_empty() {
            let Work { batch, .. } = queue.take(0, |_| ()).unwrap();
            all.push((batch.slices[0].index, batch.slices[0].part));
        }
        all
    };
    let whole = |index| (index, None);
    let part = |part| (3, Some(part));
    // The last slice is shorter than a part.
    let expected = [whole(0), whole(1), whole(2), part(0), part(1), part(2), part(3), whole(4)];
    assert_eq!(parts(true), expected);
    assert_eq!(parts(false), [whole(0), whole(1), whole(2), whole(3), whole(4)]);
}

#[test]
fn a_bundle_fits_one_buffer() {
    let queue = Queue::default();
    queue.add_small((0..6).map(|i| file(&format!("s{i}"), 3 * 1024 * 1024)).collect());
    assert_eq!(drain(&queue).len(), 6);
}

#[test]
fn directories_take_turns() {
    let queue = Queue::default();
    let names = |dir: char| (0..40).map(move |i| file(&format!("{dir}/{i:02}"), 10));
    queue.add_small(names('a').chain(names('b')).collect());
    let all: Vec<String> = drain(&queue).into_iter().flatten().map(|(name, _)| name).collect();
    assert_eq!(all.len(), 80);
    let dirs: Vec<u8> = all.iter().map(|name| name.as_bytes()[0]).collect();
    assert_eq!([dirs[0], dirs[RUN], dirs[2 * RUN]], [b'a', b'b', b'a']);
    let of_a: Vec<&String> = all.iter().filter(|name| name.starts_with('a')).collect();
    assert!(of_a.is_sorted(), "the order within a directory stays");
}

#[test]
fn a_large_file_is_compared_before_it_is_sent() {
    let queue = Queue::default();
    queue.add_large(file("g", 16 * SLICE_LEN), Vec::from([3..4, 4..5]), true);
    let mut slices = Vec::new();
    let mut asked = || {
        let question = queue.take_question(0).unwrap();
        slices.push(question.slices.clone());
        question
    };
    let (first, second, third) = (asked(), asked(), asked());
    assert_eq!(slices, [0..3, 5..9, 9..13]);
    assert!(!queue.is_empty(), "the queue waits for the answers");
    queue.answer(second, vec![PageHashes::default(); 4]);
    queue.answer(first, vec![PageHashes::default(); 1]);
    // A short answer ends the comparison: the rest is sent whole.
    let got: Vec<(u32, bool)> = (0..10)
        .map(|_| queue.take(0, |_| ()).unwrap())
        .map(|work| (work.batch.slices[0].index, work.pages.is_some()))
        .collect();
    let expected = (5..9)
        .map(|i| (i, true))
        .chain([(0, true), (1, false), (2, false)])
        .chain((13..16).map(|i| (i, false)));
    assert_eq!(got, expected.collect::<Vec<_>>());
    queue.drop_large(&RelPath::new(b"g").unwrap());
    queue.answer(third, vec![PageHashes::default(); 4]);
    assert!(queue.is_empty(), "an answer for a dropped file is ignored");
}

#[test]
fn a_closed_queue_wakes_every_thread() {
    let queue = Queue::default();
    queue.close();
    assert!(queue.take(0, |_| ()).is_none());
    queue.add_small(vec![file("s", 1); MAX_SMALL + 1]);
}
