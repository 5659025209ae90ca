//! Tests of the queue alone in many orders of threads.

use haul_core::{Outcome, SLICE_LEN, SinkOptions};
use shuttle::thread::{self, JoinHandle};

use super::*;
use crate::commit::shuttle_tests::model::{in_many_orders, join, scratch};
use crate::scene::{own_file, tree};
use crate::ticket::WriteTicket;

/// A short queue, a file whose slices it takes, and how often each of them was settled.
struct QueueModel {
    queue: CommitQueue,
    threads: ThreadPool,
    large: Arc<LargeFile>,
    settled: Arc<Mutex<Vec<u32>>>,
}

impl QueueModel {
    fn new() -> Arc<Self> {
        let dir = scratch();
        let entry = own_file("f", 2 * SLICE_LEN);
        let large = LargeFile::open(&tree(dir.path(), false), &entry, &SinkOptions::default()).unwrap();
        Arc::new(Self {
            queue: CommitQueue { most: 2, ..CommitQueue::new(true) },
            threads: ThreadPool::fixed(1),
            large: Arc::new(large),
            settled: Arc::default(),
        })
    }

    fn start(self: &Arc<Self>, work: fn(&Self)) -> JoinHandle<()> {
        let model = self.clone();
        thread::spawn(move || work(&model))
    }

    fn commit(&self) {
        while let Some(items) = self.queue.next_group() {
            assert!(items.len() <= self.queue.most);
            items.iter().for_each(|item| item.pending.settle(Ok(Outcome::Stored)));
            self.queue.settled(items.iter().map(QueueItem::places).sum());
        }
    }

    fn push(&self) {
        let at = {
            let mut settled = self.settled.lock();
            settled.push(0);
            settled.len() - 1
        };
        let settled = self.settled.clone();
        let ticket = WriteTicket::new(1, Box::new(move |_| settled.lock()[at] += 1));
        let (pending, what) = (PendingSlice { ticket, at: 0 }, WrittenItem::Slice(self.large.clone()));
        let _seat = self.threads.own_seat();
        self.queue.push(QueueItem { pending, bytes: 1, what }, &self.threads);
    }

    /// Drains the queue: all that was pushed before is settled once.
    fn drain(&self) {
        let pushed = self.settled.lock().len();
        self.queue.drain();
        assert_eq!(self.settled.lock()[..pushed], vec![1; pushed]);
    }
}

#[test]
fn shuttle_writers_wait_for_space_and_each_item_is_settled_once() {
    in_many_orders(|| {
        let model = QueueModel::new();
        let committing = model.start(QueueModel::commit);
        let push_two = |model: &QueueModel| (0..2).for_each(|_| model.push());
        join([model.start(push_two), model.start(push_two), model.start(push_two)]);
        model.drain();
        model.queue.close();
        join([committing]);
    });
}

#[test]
fn shuttle_several_threads_drain() {
    in_many_orders(|| {
        let model = QueueModel::new();
        model.push();
        // A run is finished again when the connection of the request has died.
        let threads =
            [QueueModel::drain, QueueModel::commit, QueueModel::drain].map(|work| model.start(work));
        let [first, committing, second] = threads;
        join([first, second]);
        model.queue.close();
        join([committing]);
    });
}
