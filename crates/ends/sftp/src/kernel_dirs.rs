//! Destinations in /proc and /sys. SFTP does not tell the type of a file system, so haul recognizes them by their paths.

use haul_core::{Error, ErrorKind, Side};

use super::packet;
use super::reply::Fault;

/// Whether a server refused to create an entry at this path as the file systems of the kernel do.
pub(super) fn is_of_kernel(path: &[u8], fault: &Fault) -> bool {
    let is_refusal = matches!(fault, Fault::Status(packet::NO_SUCH_FILE | packet::PERMISSION_DENIED, _));
    let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    is_refusal && path.starts_with(b"/") && matches!(names.next(), Some(b"proc" | b"sys"))
}

/// The error of such a path.
pub(super) fn refuse_the_kernel(side: Side, path: &[u8]) -> Error {
    let cause = "it shows the state of the kernel, and no file can be created there";
    Error::new(ErrorKind::Unsupported, side, "copy to", cause).on(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_in_directories_of_the_kernel_count() {
        let fault = |status| Fault::Status(status, String::new());
        let missing = fault(packet::NO_SUCH_FILE);
        assert!(is_of_kernel(b"/proc", &missing) && is_of_kernel(b"//sys/x", &missing));
        for other in [&b"proc/x"[..], b"/process", b"/srv/proc", b"/"] {
            assert!(!is_of_kernel(other, &missing));
        }
        assert!(!is_of_kernel(b"/proc/x", &fault(packet::FAILURE)));
    }
}
