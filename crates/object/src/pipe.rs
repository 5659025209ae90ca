//! Pipes that streams come and go through.

use std::os::fd::AsFd;

/// What a pipe holds: as much as anybody may ask for (`/proc/sys/fs/pipe-max-size` is 1 MiB unless it was changed).
const ROOM: usize = 1 << 20;

/// Lets a pipe hold more than the 64 KiB that it is made with, so that both its ends are woken less often. What is no
/// pipe, or may not grow, stays as it is.
pub(crate) fn widen(fd: &impl AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(fd, ROOM);
}
