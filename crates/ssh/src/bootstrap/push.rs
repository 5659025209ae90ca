//! Talks to the script on the remote host, and sends it the program.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

use haul_core::location::SshHost;
use haul_core::{Error, ErrorKind, Note, Result, Side};

use super::program::{SUMS, System, UploadProgram, find, places};
use super::script::{MARK, script};
use crate::config::SshConfig;
use crate::dial::{Dial, DialPurpose, Helper};
use crate::dialer::{OpenPipes, Pipes, SshDialer};
use crate::errand::Errand;

/// The alternatives of the user.
const HINT: &str = "install haul there by hand, or leave --bootstrap out: then it goes on over SFTP";

/// How long the script may take to end after the last answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Makes sure that this version of haul is in the cache of `host`, and returns the command that starts it. `why` tells the
/// user why it is needed.
///
/// # Errors
/// [`ErrorKind::Unreachable`] if the host cannot be reached, there is no program for its system here, or it cannot run
/// the program.
pub fn bootstrap(host: &SshHost, config: &SshConfig, why: &str, note: &Note) -> Result<String> {
    let errand = Errand::Command(script());
    let dialer = SshDialer::new(host, config, errand, note.clone())?;
    let pipes = dialer.start(DialPurpose::First).map_err(|refused| refused.error)?;
    let helper = pipes.helper.clone();
    let put = talk(pipes, &dialer.name(), why, note);
    helper.collect(if put.is_ok() { TIMEOUT } else { Duration::ZERO });
    dialer.clean();
    put.map(|name| format!("~/.cache/haul/{name}"))
}

/// Answers the script. Returns the name of the program in the remote cache.
fn talk(pipes: Pipes, name: &str, why: &str, note: &Note) -> Result<String> {
    let Pipes { from, to, helper } = pipes;
    let mut lines = BufReader::new(File::from(from));
    let failed = |cause: &str| {
        Error::new(ErrorKind::Unreachable, Side::Wire, "put haul onto", cause).on(name).with_hint(HINT)
    };
    let system = line(&mut lines, &*helper, &failed)?;
    let system = system.strip_prefix("system ").and_then(System::parse);
    let system = system.ok_or_else(|| failed("it does not name its system"))?;
    let program = program_for(&system, &failed)?;
    let mut to = File::from(to);
    // If this fails, the next line of the script reports why.
    let _ = to.write_all(program.told().as_bytes());
    let mut sent = None;
    loop {
        match (&line(&mut lines, &*helper, &failed)?[..], &sent) {
            ("ready", _) => return Ok(program.name),
            ("absent", None) => {
                let version = env!("CARGO_PKG_VERSION");
                note(&format!("{why}: putting haul {version} into ~/.cache/haul there"));
                // If this fails, the next line of the script reports why.
                sent = Some(to.write_all(b"send\n").and_then(|()| to.write_all(&program.content)));
            }
            ("content", _) => {
                note(&format!(
                    "{name} has no sha256sum, shasum or openssl: haul reads its program back from there to compare it"
                ));
                let same = is(&mut lines, &program.content).map_err(|error| failed(&error.to_string()))?;
                let answer: &[u8] = if same { b"right\n" } else { b"wrong\n" };
                // If this fails, the next line of the script reports why.
                let _ = to.write_all(answer);
            }
            (_, Some(Err(error))) => return Err(failed(&error.to_string())),
            (other, _) => return Err(said(other, &program, &system, &failed)),
        }
    }
}

/// The program for this system.
fn program_for(system: &System, failed: &dyn Fn(&str) -> Error) -> Result<UploadProgram> {
    find(system).map_err(|cause| failed(&cause))?.ok_or_else(|| {
        let (System { name, machine }, here) = (system, System::here());
        let kind =
            format!("it is of another kind: `{name} {machine}` there, `{} {}` here", here.name, here.machine);
        match std::env::current_exe() {
            Ok(running) if *name == here.name => {
                let [beside, installed] = places(&running, machine);
                let (beside, installed) = (beside.display(), installed.display());
                failed(&format!("{kind}, and neither {beside} nor {installed} exists here"))
                    .with_hint(way_out(machine))
            }
            _ => failed(&kind),
        }
    })
}

/// The way out if there is no program that runs on this architecture.
fn way_out(machine: &str) -> String {
    let dir = std::env::current_exe().ok().map(|running| places(&running, machine));
    let dir = dir.and_then(|[_, installed]| Some(installed.parent()?.display().to_string()));
    let dir = dir.unwrap_or_else(|| "/usr/lib/haul".to_owned());
    format!("copy haul-{machine} and {SUMS} of this release into {dir} here; or {HINT}")
}

/// The error for a line of the script that reports a failure.
fn said(line: &str, program: &UploadProgram, system: &System, failed: &dyn Fn(&str) -> Error) -> Error {
    let shown = || program.place.as_ref().map_or("this haul".to_owned(), |place| place.display().to_string());
    if let Some(said) = line.strip_prefix("broken") {
        // A program that is killed says nothing.
        let said = Some(said.trim()).filter(|said| !said.is_empty()).unwrap_or("it says nothing");
        let error = failed(&format!("{} does not run there ({said})", shown()));
        // Only the static program is sure to find all that it needs.
        if program.place.is_none() { error.with_hint(way_out(&system.machine)) } else { error }
    } else if let Some(said) = line.strip_prefix("other ") {
        let version = env!("CARGO_PKG_VERSION");
        let error = failed(&format!("{} is `{said}`, this one is `haul {version}`", shown()));
        error.with_hint(way_out(&system.machine))
    } else {
        failed(line)
    }
}

/// Whether the next bytes equal `expected`. Reads that many bytes in any case.
fn is(from: &mut impl Read, expected: &[u8]) -> io::Result<bool> {
    let mut same = true;
    let mut block = vec![0; 64 * 1024];
    for expected in expected.chunks(block.len()) {
        let read = &mut block[..expected.len()];
        from.read_exact(read)?;
        same &= *read == *expected;
    }
    Ok(same)
}

/// The next line of the script.
fn line(lines: &mut impl BufRead, helper: &dyn Helper, failed: &dyn Fn(&str) -> Error) -> Result<String> {
    let mut ended = failed("the connection was closed");
    // A login script may print lines first, but not without end.
    for _ in 0..1000 {
        let mut line = Vec::new();
        match Read::take(&mut *lines, 4096).read_until(b'\n', &mut line) {
            Ok(0) => {
                return Err(helper.explain().map_or(ended, |refused| refused.error));
            }
            Ok(_) => {
                let text = haul_core::path::printable(line.trim_ascii());
                if let Some(ours) = text.strip_prefix(MARK) {
                    return Ok(ours.trim().to_owned());
                }
            }
            Err(error) => {
                ended = failed(&error.to_string());
                break;
            }
        }
    }
    Err(ended)
}
