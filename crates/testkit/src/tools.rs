//! Runs tools, writes programs, and tells whether they run as root.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether this process runs as root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a tool and returns its output.
///
/// # Panics
/// If the tool cannot be started, or fails.
pub fn tool(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Writes a program that can be run at once, with the mode 0755.
///
/// Another process writes it. If this one did, a child that another thread starts in the meantime would keep the file
/// open for writing until it runs its own program, and Linux runs no program that is open for writing (ETXTBSY).
///
/// # Panics
/// If it cannot be written.
pub fn write_program(path: &Path, content: impl AsRef<[u8]>) {
    let mut shell = Command::new("sh")
        .args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh can be run");
    shell.stdin.take().expect("it is piped").write_all(content.as_ref()).unwrap();
    assert!(shell.wait().unwrap().success(), "cannot write {}", path.display());
}
