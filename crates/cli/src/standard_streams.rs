//! Standard input and output, as the process got them.
//!
//! Before main, Rust's runtime opens /dev/null in place of a closed one (`>&-`, `<&-`). Content written to it would be
//! lost with exit code 0, and a list read from it would be empty. So [`look`] runs earlier, and notes which are closed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

static INPUT_CLOSED: AtomicBool = AtomicBool::new(false);
static OUTPUT_CLOSED: AtomicBool = AtomicBool::new(false);

#[used]
// SAFETY: the C library calls each function of this section once before main, in the only thread; `look` needs nothing
// that is not there yet.
#[allow(unsafe_code)]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    INPUT_CLOSED.store(is_closed(rustix::stdio::stdin()), Ordering::Relaxed);
    OUTPUT_CLOSED.store(is_closed(rustix::stdio::stdout()), Ordering::Relaxed);
}

fn is_closed(fd: BorrowedFd<'_>) -> bool {
    rustix::io::fcntl_getfd(fd).is_err()
}

/// Standard input, duplicated.
///
/// # Errors
/// If it is closed; the error of dup(2).
pub(crate) fn input() -> io::Result<OwnedFd> {
    duplicate(io::stdin().as_fd(), &INPUT_CLOSED)
}

/// Standard output, duplicated.
///
/// # Errors
/// If it is closed; the error of dup(2).
pub(crate) fn output() -> io::Result<OwnedFd> {
    duplicate(io::stdout().as_fd(), &OUTPUT_CLOSED)
}

fn duplicate(fd: BorrowedFd<'_>, closed: &AtomicBool) -> io::Result<OwnedFd> {
    if closed.load(Ordering::Relaxed) {
        Err(io::Error::other("it is closed"))
    } else {
        fd.try_clone_to_owned()
    }
}
