//! What all targets have: a limit of the memory that decoding takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What decoding may take besides what goes with the length of the input.
pub const BASE: usize = 64 * 1024;
/// What it may take for each byte of the input: an entry that is not there is two bytes on the wire and some 250 in memory,
/// and a list that grows is there twice while it moves, once in double length.
const EACH: usize = 512;

/// The system's allocator, which ends the program where decoding takes more than it may.
struct Limited;

#[global_allocator]
static LIMITED: Limited = Limited;

/// Bytes that are held now, and how many may be.
static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

fn take(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if held > MOST.load(Ordering::Relaxed) {
        MOST.store(usize::MAX, Ordering::Relaxed);
        panic!("{bytes} bytes more than may be taken for an input of this length, {held} in all");
    }
}

// SAFETY: everything is the system allocator's; what is counted changes nothing of it.
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
        // Both are there while it moves.
        take(new);
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.realloc(old, layout, new) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(old, layout) }
    }
}

/// Decodes an input of `len` bytes, which may take `base` bytes of memory and some for each byte of the input.
pub fn within<T>(base: usize, len: usize, decode: impl FnOnce() -> T) -> T {
    MOST.store(HELD.load(Ordering::Relaxed) + base + EACH * len, Ordering::Relaxed);
    let decoded = decode();
    MOST.store(usize::MAX, Ordering::Relaxed);
    decoded
}
