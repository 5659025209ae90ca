//! Threads for requests that may be slow.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};

/// The most threads. They mostly wait for a disk, a network file system, or a connection that takes a slice.
const THREADS: usize = 64;
/// The most requests that wait for a thread; then the connections wait.
const QUEUE: usize = 256;

type WorkerTask = Box<dyn FnOnce() + Send>;

/// A pool of threads that are started as they are needed.
pub(crate) struct Workers {
    jobs: Sender<WorkerTask>,
    queue: Receiver<WorkerTask>,
    threads: AtomicUsize,
    /// Jobs that wait or run.
    pending: Arc<AtomicUsize>,
}

impl Default for Workers {
    fn default() -> Self {
        let (jobs, queue) = bounded(QUEUE);
        Self { jobs, queue, threads: AtomicUsize::new(0), pending: Arc::default() }
    }
}

impl Workers {
    /// Runs a job on a thread. Waits while the queue is full.
    pub(crate) fn run(&self, job: WorkerTask) {
        let pending = self.pending.fetch_add(1, Ordering::Relaxed) + 1;
        let threads = self.threads.load(Ordering::Relaxed);
        if pending > threads && threads < THREADS {
            let (queue, count) = (self.queue.clone(), self.pending.clone());
            let spawned = thread::Builder::new().name("haul-worker".to_owned()).spawn(move || {
                for job in queue {
                    // If a job panics, its reply is dropped, which answers the request. The thread goes on.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                    count.fetch_sub(1, Ordering::Relaxed);
                }
            });
            match spawned {
                Ok(_) => {
                    self.threads.fetch_add(1, Ordering::Relaxed);
                }
                Err(_) if threads == 0 => {
                    // There is no thread at all, so the thread of the connection runs the job.
                    self.pending.fetch_sub(1, Ordering::Relaxed);
                    job();
                    return;
                }
                Err(_) => {}
            }
        }
        let _ = self.jobs.send(job);
    }
}
