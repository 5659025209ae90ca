//! The memory limit of all targets.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that decoding may allocate for any input.
pub const BASE: usize = 64 * 1024;
/// Bytes that decoding may allocate for each byte of the input. A missing entry has two bytes on the wire and about 250 in
/// memory, and while a list grows, its old and its doubled buffer exist together.
const EACH: usize = 512;

/// The system allocator with a limit, beyond which it ends the program.
struct Limited;

#[global_allocator]
static LIMITED: Limited = Limited;

/// Bytes that are allocated, and the limit.
static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

fn take(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if held > MOST.load(Ordering::Relaxed) {
        MOST.store(usize::MAX, Ordering::Relaxed);
        panic!("{bytes} more bytes exceed the limit for an input of this length; {held} in all");
    }
}

// SAFETY: every call is passed to the system allocator unchanged. Counting has no effect on it.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        // Both buffers exist while the content moves.
        take(new);
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.realloc(old, layout, new) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(old, layout) }
    }
}

/// Runs `decode` on an input of `len` bytes. It may allocate `base` bytes and [`EACH`] for each byte of the input.
pub fn within<T>(base: usize, len: usize, decode: impl FnOnce() -> T) -> T {
    MOST.store(HELD.load(Ordering::Relaxed) + base + EACH * len, Ordering::Relaxed);
    let decoded = decode();
    MOST.store(usize::MAX, Ordering::Relaxed);
    decoded
}
