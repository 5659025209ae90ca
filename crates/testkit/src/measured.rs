//! The peak memory of a process, exactly, as the kernel keeps it: also of one that lives for a moment only.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::process::Run;

/// The first argument that makes a test program run another one and note its peak memory.
pub const MEASURE: &str = "--measure";

/// A program whose peak memory is noted in the file `note`, where `this` calls [`measure`] for [`MEASURE`]. A process
/// between the test and the program is needed: what a process took before it became another program counts as well.
#[must_use]
pub fn measured(this: &Path, note: &Path, program: &Path, tag: &str) -> Run {
    Run::new(this, tag).arg(MEASURE).arg(note).arg(program)
}

/// The peak in bytes that was noted; 0 where there is none.
#[must_use]
pub fn peak(note: &Path) -> u64 {
    fs::read_to_string(note).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Runs `NOTE PROGRAM ARGUMENT…` and ends as that does; ended by a signal, with 200 and its number.
#[must_use]
pub fn measure(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let note = PathBuf::from(arguments.next().unwrap_or_default());
    let status = Command::new(arguments.next().unwrap_or_default()).args(arguments).status().unwrap();
    fs::write(note, children_peak().to_string()).unwrap();
    let code = status.code().or_else(|| status.signal().map(|signal| 200 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// The highest peak of the children that have ended, and of theirs, in bytes.
fn children_peak() -> u64 {
    // SAFETY: `usage` is a C struct of numbers, for which zeros are good, and the call writes only into it.
    #[allow(unsafe_code)]
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage), 0);
        usage
    };
    u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024
}
