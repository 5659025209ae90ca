//! Compresses and decompresses whole batches in place, by as many threads as there are CPUs.

use haul_core::sync::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haul_core::buffer::BUFFER_LEN;
use haul_core::sink::ArrivingContent;
use haul_core::{
    Buffer, BufferPool, ChainingValue, Compress, Error, ErrorKind, Method, Packing, Result, Retry, Side,
    SliceData,
};

use crate::auto::{Auto, Choice};
use crate::coder::{Coder, is_heavy};
use crate::load::{LinkTime, thread_time};

/// Buffers of the pool that pay for one share: a thread's scratch buffer, and the memory of its contexts.
const BUFFERS_PER_SHARE: usize = 4;
/// Shorter content is not compressed: it fits into a packet or two.
const WORTH: usize = 512;

/// Bytes of a batch on which two methods are compared.
const COMPARED: usize = 1 << 20;

/// Content whose sample has a lower ratio is not compressed.
const SAMPLE_WORTH: f64 = 1.03;

/// Compresses and decompresses the content of batches, for one end of a session.
///
/// Content is swapped with a reserved buffer, so that no thread waits for a second buffer while it holds one. There is
/// one such buffer per CPU, reserved from the pool at the first batch; each also pays for the memory of its contexts,
/// so everything is within the process's budget. Only a pool that is too small for this (it keeps half of its buffers)
/// gets one slot of some 16 MiB outside of the budget.
pub struct Packer {
    pool: BufferPool,
    cores: usize,
    auto: Auto,
    bench: OnceLock<PackBuffers>,
    /// Batches that were compressed or decompressed.
    compressed: AtomicU64,
}

/// Buffers and contexts, made on first use.
struct PackBuffers {
    slots: Mutex<Slots>,
    freed: Condvar,
    /// Held only to reserve their memory.
    _reserved: Vec<Buffer>,
}

struct Slots {
    idle: Vec<CoderSlot>,
    /// Available shares; a heavy method takes two.
    shares: usize,
    all: usize,
}

struct CoderSlot {
    coder: Coder,
    scratch: Buffer,
}

/// The result of compressing a batch.
#[must_use]
pub struct Packed {
    /// How it is compressed; `None` if it is unchanged.
    pub packing: Option<Packing>,
    /// Must be kept until the link has taken the batch: this time decides how hard to compress.
    pub sending: Option<SendingBatch>,
}

/// A batch in flight, until it is dropped.
pub struct SendingBatch {
    packer: Arc<Packer>,
    plain: u64,
    wire: u64,
}

/// Content that is read while it is sent. The time of reading does not count as that of sending.
pub struct PassingBatch<'a> {
    content: &'a mut dyn ArrivingContent,
    sending: Option<SendingBatch>,
}

impl ArrivingContent for PassingBatch<'_> {
    fn next(&mut self) -> Result<&[u8]> {
        if let Some(sending) = &self.sending {
            sending.packer.auto.pauses();
        }
        let piece = self.content.next();
        if let Some(sending) = &self.sending {
            sending.packer.auto.sending();
        }
        piece
    }

    fn proof(&mut self) -> Result<Option<ChainingValue>> {
        self.content.proof()
    }
}

impl Drop for SendingBatch {
    fn drop(&mut self) {
        self.packer.auto.sent(self.plain, self.wire);
    }
}

impl Packer {
    /// Uses memory of `pool`, and at most `cores` threads at once (0: one per CPU).
    #[must_use]
    pub fn new(pool: &BufferPool, cores: usize) -> Arc<Self> {
        let available = || std::thread::available_parallelism().map_or(1, usize::from);
        let cores = if cores == 0 { available() } else { cores };
        Arc::new(Self {
            pool: pool.clone(),
            cores,
            auto: Auto::new(cores),
            bench: OnceLock::new(),
            compressed: AtomicU64::new(0),
        })
    }

    /// From now on, [`Compress::Auto`] asks `link` about the connections that take the content.
    pub fn watch(&self, link: impl Fn() -> Option<LinkTime> + Send + Sync + 'static) {
        self.auto.watch(Box::new(link));
    }

    /// The connections carried `rate` bytes per second in an earlier run. To be called before much content is sent.
    pub fn expect(&self, rate: f64) {
        self.auto.expect(rate);
    }

    /// The batches that were compressed or decompressed so far.
    #[must_use]
    pub fn compressed(&self) -> u64 {
        self.compressed.load(Ordering::Relaxed)
    }

    /// Compresses `content` in place as requested. Incompressible content stays unchanged.
    pub fn pack(self: &Arc<Self>, wish: Compress, content: &mut Buffer) -> Packed {
        let plain = content.bytes().len();
        let packing = match wish {
            _ if plain < WORTH => None,
            Compress::Never => None,
            Compress::Always(method) => self.with(method, |slot| slot.pack(method, content)),
            Compress::Auto => self.pack_auto(content),
        };
        self.compressed.fetch_add(packing.is_some().into(), Ordering::Relaxed);
        let sending = (wish == Compress::Auto && plain > 0).then(|| {
            self.auto.sending();
            SendingBatch { packer: self.clone(), plain: plain as u64, wire: content.bytes().len() as u64 }
        });
        Packed { packing, sending }
    }

    /// Prepares to send `content` of `plain` bytes that nobody has read yet, uncompressed. `None` if it has to be read first,
    /// to be compressed or sampled.
    pub fn pass<'a>(
        self: &Arc<Self>,
        wish: Compress,
        plain: u64,
        content: &'a mut dyn ArrivingContent,
    ) -> Option<PassingBatch<'a>> {
        let sending = match wish {
            Compress::Never => None,
            Compress::Always(_) => return None,
            Compress::Auto if !self.auto.begin_plain() => return None,
            Compress::Auto => {
                self.auto.sending();
                Some(SendingBatch { packer: self.clone(), plain, wire: plain })
            }
        };
        Some(PassingBatch { content, sending })
    }

    fn pack_auto(&self, content: &mut Buffer) -> Option<Packing> {
        match self.auto.begin() {
            Choice::Plain => None,
            Choice::Sample => {
                let ratio = self.with(Method::Lz4, |slot| slot.sample(content));
                if ratio >= SAMPLE_WORTH {
                    self.auto.sampled(ratio);
                }
                None
            }
            Choice::Pack((rung, method), rival) => {
                if let Some((other, rival)) = rival
                    && let Some((ratios, cpu)) =
                        self.with(method, |slot| slot.compare([method, rival], content))
                {
                    self.auto.compared([rung, other], ratios, cpu);
                }
                let plain = content.bytes().len();
                let (packing, cpu) = self.with(method, |slot| {
                    let begun = thread_time();
                    let worth = slot.sample(content) >= SAMPLE_WORTH;
                    let packing = if worth { slot.pack(method, content) } else { None };
                    (packing, thread_time().saturating_sub(begun))
                });
                self.auto.packed(rung, plain, packing.map(|_| content.bytes().len()), cpu);
                packing
            }
        }
    }

    /// Decompresses `content` in place. If that fails, it was damaged in transit: each of `slices` gets the error, and
    /// is sent again.
    pub fn unpack(&self, packing: Option<Packing>, slices: &mut [Result<SliceData>], content: &mut Buffer) {
        let Some(Packing { method, plain_len }) = packing else { return };
        self.compressed.fetch_add(1, Ordering::Relaxed);
        let plain_len = plain_len as usize;
        // The level does not matter for decompression.
        if self.with(Method::Lz4, |slot| slot.unpack(method, plain_len, content)) {
            return;
        }
        content.truncate(0);
        let cause = "the packed content did not arrive as it was sent";
        let error = Error::new(ErrorKind::Corrupt, Side::Wire, "unpack", cause).with_retry(Retry::Again);
        for slice in slices.iter_mut().filter(|slice| slice.is_ok()) {
            *slice = Err(error.clone());
        }
    }

    fn with<T>(&self, method: Method, work: impl FnOnce(&mut CoderSlot) -> T) -> T {
        let bench = self.bench.get_or_init(|| PackBuffers::new(&self.pool, self.cores));
        let mut slots = bench.slots.lock();
        let share = if is_heavy(method) { slots.all.min(2) } else { 1 };
        let mut slot = loop {
            if slots.shares >= share
                && let Some(slot) = slots.idle.pop()
            {
                slots.shares -= share;
                break slot;
            }
            slots = bench.freed.wait(slots);
        };
        drop(slots);
        let result = work(&mut slot);
        let mut slots = bench.slots.lock();
        slots.idle.push(slot);
        slots.shares += share;
        drop(slots);
        bench.freed.notify_all();
        result
    }
}

impl PackBuffers {
    fn new(pool: &BufferPool, cores: usize) -> Self {
        // Twice as many shares as threads, if the pool allows: then all threads may use a heavy method.
        let mut reserved = pool.reserve(2 * cores * BUFFERS_PER_SHARE);
        let all = (reserved.len() / BUFFERS_PER_SHARE).max(1);
        let count = all.min(cores);
        let mut scratch: Vec<Buffer> = reserved.drain(..count.min(reserved.len())).collect();
        if scratch.is_empty() {
            scratch.push(BufferPool::new(0).take());
        }
        let idle =
            scratch.into_iter().map(|scratch| CoderSlot { coder: Coder::default(), scratch }).collect();
        Self {
            slots: Mutex::new(Slots { idle, shares: all, all }),
            freed: Condvar::new(),
            _reserved: reserved,
        }
    }
}

impl CoderSlot {
    fn sample(&mut self, content: &Buffer) -> f64 {
        self.scratch.truncate(0);
        let Some(room) = self.scratch.grow(BUFFER_LEN) else { return 1.0 };
        self.coder.sample(content.bytes(), room)
    }

    /// The ratios and times of two methods on the beginning of `content`; `None` if it is too short.
    fn compare(&mut self, methods: [Method; 2], content: &Buffer) -> Option<([f64; 2], [Duration; 2])> {
        let plain = content.bytes().get(..COMPARED)?;
        self.scratch.truncate(0);
        let room = self.scratch.grow(BUFFER_LEN)?;
        let (mut ratios, mut cpu) = ([1.0; 2], [Duration::ZERO; 2]);
        for (at, method) in methods.into_iter().enumerate() {
            let begun = thread_time();
            let len = self.coder.pack(method, plain, room)?;
            cpu[at] = thread_time().saturating_sub(begun);
            ratios[at] = plain.len() as f64 / len.max(1) as f64;
        }
        Some((ratios, cpu))
    }

    fn pack(&mut self, method: Method, content: &mut Buffer) -> Option<Packing> {
        let plain = content.bytes();
        self.scratch.truncate(0);
        // It must shrink by at least 3 %: decompression costs time too.
        let room = self.scratch.grow(plain.len() - plain.len() / 32)?;
        let len = self.coder.pack(method, plain, room)?;
        let plain_len = u32::try_from(plain.len()).ok()?;
        self.scratch.truncate(len);
        content.exchange(&mut self.scratch);
        Some(Packing { method, plain_len })
    }

    fn unpack(&mut self, method: Method, plain_len: usize, content: &mut Buffer) -> bool {
        self.scratch.truncate(0);
        let Some(plain) = self.scratch.grow(plain_len.min(BUFFER_LEN)) else { return false };
        let unpacked = self.coder.unpack(method, content.bytes(), plain) && plain.len() == plain_len;
        if unpacked {
            content.exchange(&mut self.scratch);
        }
        unpacked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::ChainingValue;

    fn filled(pool: &BufferPool, bytes: &[u8]) -> Buffer {
        let mut buffer = pool.take();
        buffer.grow(bytes.len()).unwrap().copy_from_slice(bytes);
        buffer
    }

    fn slices() -> Vec<Result<SliceData>> {
        let read = || Ok(SliceData { extents: Vec::new(), value: ChainingValue([1; 32]) });
        vec![read(), Err(Error::new(ErrorKind::NotFound, Side::Source, "read", "gone")), read()]
    }

    #[test]
    fn content_is_compressed_and_decompressed_in_place() {
        let pool = BufferPool::new(64 << 20);
        let packer = Packer::new(&pool, 2);
        let text = b"some text that comes again ".repeat(50_000);
        for method in [Method::Lz4, Method::Zstd(-1), Method::Zstd(19)] {
            let mut content = filled(&pool, &text);
            let packing = packer.pack(Compress::Always(method), &mut content).packing.unwrap();
            assert_eq!(packing, Packing { method, plain_len: text.len() as u32 });
            assert!(content.bytes().len() < text.len() / 10);
            let mut slices = slices();
            packer.unpack(Some(packing), &mut slices, &mut content);
            assert!(content.bytes() == text && slices == self::slices());
        }
        let mut content = filled(&pool, &text);
        assert_eq!(packer.pack(Compress::Never, &mut content).packing, None);
        assert!(content.bytes() == text);
    }

    #[test]
    fn incompressible_samples_leave_content_unchanged() {
        let pool = BufferPool::new(64 << 20);
        let packer = Packer::new(&pool, 2);
        let mut noise = vec![0; 1 << 20];
        let mut state = 9_u64;
        for bytes in noise.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.copy_from_slice(&state.to_le_bytes());
        }
        let mut content = filled(&pool, &noise);
        assert_eq!(packer.pack(Compress::Auto, &mut content).packing, None);
        assert!(content.bytes() == noise);
        let mut content =
            filled(&pool, &b"but this does, and it is not known yet how fast all is ".repeat(9999));
        assert!(packer.pack(Compress::Auto, &mut content).packing.is_some());
    }

    /// A batch of two pieces that is read while it is sent.
    struct TwoPieces(u32);

    impl ArrivingContent for TwoPieces {
        fn next(&mut self) -> Result<&[u8]> {
            self.0 += 1;
            Ok(if self.0 < 3 { b"piece" } else { b"" })
        }
    }

    #[test]
    fn plain_batches_pass_unread_except_those_that_are_sampled() {
        let pool = BufferPool::new(64 << 20);
        let packer = Packer::new(&pool, 2);
        // Nothing is worth compressing on such a link.
        packer.expect(100e9);
        let passes = |wish| {
            let mut content = TwoPieces(0);
            let Some(mut batch) = packer.pass(wish, 10, &mut content) else { return false };
            let sent = u32::from(wish == Compress::Auto);
            while !batch.next().unwrap().is_empty() {
                assert_eq!(packer.auto.being_sent(), sent);
            }
            drop(batch);
            assert_eq!(packer.auto.being_sent(), 0);
            true
        };
        assert!(passes(Compress::Never) && !passes(Compress::Always(Method::Lz4)));
        for _ in 0..3 {
            // The first of eight batches is read and sampled before it is sent.
            assert!(!passes(Compress::Auto));
            drop(packer.pack(Compress::Auto, &mut filled(&pool, &[7; 4096])));
            assert!((0..7).all(|_| passes(Compress::Auto)));
        }
    }

    #[test]
    fn damaged_slices_are_requested_again() {
        let pool = BufferPool::new(64 << 20);
        let packer = Packer::new(&pool, 2);
        for packing in [
            Packing { method: Method::Zstd(1), plain_len: 100 },
            Packing { method: Method::Lz4, plain_len: u32::MAX },
        ] {
            let mut content = filled(&pool, b"this was never packed");
            let mut slices = slices();
            packer.unpack(Some(packing), &mut slices, &mut content);
            let kinds: Vec<_> = slices.iter().map(|slice| slice.as_ref().unwrap_err().kind()).collect();
            assert_eq!(kinds, [ErrorKind::Corrupt, ErrorKind::NotFound, ErrorKind::Corrupt]);
            assert_eq!(slices[0].as_ref().unwrap_err().retry(), Retry::Again);
            assert!(content.bytes().is_empty());
        }
    }

    #[test]
    fn the_smallest_pool_serves_many_threads_at_once() {
        let pool = BufferPool::new(0);
        let packers = [Packer::new(&pool, 4), Packer::new(&pool, 4)];
        let text = b"many threads and no memory to speak of ".repeat(20_000);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (packers, pool, text) = (&packers, &pool, &text);
                scope.spawn(move || {
                    for _ in 0..10 {
                        let mut content = filled(pool, text);
                        let method = if number % 2 == 0 { Method::Lz4 } else { Method::Zstd(10) };
                        let packing = packers[0].pack(Compress::Always(method), &mut content).packing;
                        assert!(packing.is_some());
                        packers[1].unpack(packing, &mut [], &mut content);
                        assert!(content.bytes() == text);
                    }
                });
            }
        });
    }
}
