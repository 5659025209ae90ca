//! Runs other programs.

use std::process::Command;
use std::time::Instant;

/// Runs `command` and prints its name and how long it took.
///
/// # Errors
/// If it cannot be started, or ends with another code than 0.
pub(crate) fn step(name: &str, command: &mut Command) -> Result<(), String> {
    println!("== {name}");
    let begun = Instant::now();
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if !status.success() {
        return Err(format!("{name}: {status}"));
    }
    println!("== {name}: {} s", begun.elapsed().as_secs());
    Ok(())
}

/// Runs `command` and returns its standard output.
///
/// # Errors
/// If it cannot be started, or ends with another code than 0.
pub(crate) fn output(name: &str, command: &mut Command) -> Result<String, String> {
    let done = command.stderr(std::process::Stdio::inherit()).output();
    let done = done.map_err(|error| format!("{name}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{name}: {}", done.status));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// cargo, in the version that runs this program.
pub(crate) fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words);
    command
}
