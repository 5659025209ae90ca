//! Measures the peak memory of a process as the kernel counts it, even of a short-lived one.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::process::CommandRun;

/// The first argument that makes a test program run another program and record its peak memory.
pub const MEASURE: &str = "--measure";

/// Runs a program through `this`, which calls [`measure`] for [`MEASURE`] and records the peak memory in the file
/// `note`. A process between the test and the program is needed, since the peak includes memory from before exec(2).
#[must_use]
pub fn measured(this: &Path, note: &Path, program: &Path, tag: &str) -> CommandRun {
    CommandRun::new(this, tag).arg(MEASURE).arg(note).arg(program)
}

/// The recorded peak in bytes; 0 without one.
#[must_use]
pub fn peak(note: &Path) -> u64 {
    fs::read_to_string(note).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Runs `NOTE PROGRAM ARGUMENT…` and returns its exit code; 200 plus the number of the signal that ended it.
#[must_use]
pub fn measure(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let note = PathBuf::from(arguments.next().unwrap_or_default());
    let status = Command::new(arguments.next().unwrap_or_default()).args(arguments).status().unwrap();
    fs::write(note, children_peak().to_string()).unwrap();
    let code = status.code().or_else(|| status.signal().map(|signal| 200 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// The highest peak of all ended descendants, in bytes.
fn children_peak() -> u64 {
    // SAFETY: `usage` is a C struct of integers, for which zero is valid, and the call writes only to it.
    #[allow(unsafe_code)]
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage), 0);
        usage
    };
    u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024
}
