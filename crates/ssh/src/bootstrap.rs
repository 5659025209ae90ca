//! Uploads this program to a host that lacks haul, as `~/.cache/haul/haul-VERSION-DIGEST`.
//!
//! One ssh command does it, with a fixed script for `sh`. The script reports the system and whether the program exists;
//! if not, it reads the program from its standard input into a temporary file. Before it runs the program, it compares
//! it with the local one: with `sha256sum`, `shasum` or `openssl`, or else by sending it back. It does so too for a
//! program that existed. A program that does not run is not renamed into place. The script removes other versions that
//! were not started for a day, and nothing else.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

use haul_core::digest::hex;
use haul_core::location::SshHost;
use haul_core::{Error, ErrorKind, Result, Side};

use super::config::{Note, SshConfig};
use crate::dial::{Dial, Helper, Way};
use crate::dialer::{OpenPipes, Pipes, SshDialer};
use crate::errand::Errand;

/// The prefix of the script's lines, as a login shell may print other lines.
const MARK: &str = "haul-bootstrap:";
/// How long the script may take to end after the last answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Makes sure that this version of haul is in the cache of `host`, and returns the command that starts it.
///
/// # Errors
/// [`ErrorKind::Unreachable`] if the host cannot be reached, has another system, or cannot run the program.
pub fn bootstrap(host: &SshHost, config: &SshConfig, note: &Note) -> Result<String> {
    let unread = |e: &io::Error| Error::io(Side::Local, "read this program for --bootstrap", e);
    let program = std::fs::read("/proc/self/exe").map_err(|e| unread(&e))?;
    let digest = blake3::hash(&program).to_hex();
    let name = format!("haul-{}-{}", env!("CARGO_PKG_VERSION"), &digest[..16]);
    let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &program);
    let errand = Errand::Command(script(&name, &hex(sum.as_ref()), program.len()));
    let dialer = SshDialer::new(host, config, errand, note.clone())?;
    let pipes = dialer.start(Way::First).map_err(|refused| refused.error)?;
    let helper = pipes.helper.clone();
    let put = talk(pipes, &program, &dialer.name(), note);
    helper.collect(if put.is_ok() { TIMEOUT } else { Duration::ZERO });
    dialer.clean();
    put.map(|()| format!("~/.cache/haul/{name}"))
}

/// The script. It is one word in single quotes, which every login shell passes on unchanged, so it contains none. `sum`
/// is the SHA-256 of the program.
fn script(name: &str, sum: &str, len: usize) -> String {
    // The names of uploaded programs and of their temporary files, as a regular expression for `expr`.
    let ours = r"haul-[0-9][0-9]*[.][0-9][0-9]*[.][0-9][0-9A-Za-z.+-]*-[0-9a-f]\{16\}";
    let script = format!(
        "say() {{ echo \"{MARK} $*\"; }}; \
         right() {{ \
         [ $(($(wc -c <\"$1\"))) -eq {len} ] || return 1; \
         sum=\"$(sha256sum <\"$1\" 2>/dev/null || shasum -a 256 <\"$1\" 2>/dev/null \
         || openssl dgst -sha256 -r <\"$1\" 2>/dev/null)\"; \
         if [ -n \"$sum\" ]; then case \"$sum\" in {sum}*) return 0;; esac; return 1; fi; \
         say content; cat \"$1\"; read -r answer && [ \"$answer\" = right ]; \
         }}; \
         tidy() {{ \
         running=\"$(ls -l /proc/[0-9]*/exe 2>/dev/null)\"; \
         for old in haul-*; do \
         if [ \"$old\" = \"{name}\" ] || [ -L \"$old\" ]; then continue; fi; \
         if expr \"$old\" : \"{ours}[.][0-9][0-9]*[.]part\\$\" >/dev/null; then \
         pid=\"${{old%.part}}\"; kill -0 \"${{pid##*.}}\" 2>/dev/null && continue; \
         else expr \"$old\" : \"{ours}\\$\" >/dev/null || continue; \
         case \"$running\" in *\"/$old\"*) continue;; esac; fi; \
         [ -n \"$(find \"./$old\" -prune -type f -mtime +0 2>/dev/null)\" ] && rm -f \"./$old\"; \
         done; \
         }}; \
         well() {{ touch -c \"{name}\"; say ready; tidy; exit 0; }}; \
         say system $(uname -sm); \
         umask 077; \
         dir=\"$HOME/.cache/haul\"; \
         if mkdir -p \"$dir\" && cd \"$dir\" && chmod 700 .; then :; \
         else say \"~/.cache/haul cannot be made there\"; exit 1; fi; \
         if [ -f \"{name}\" ]; then \
         right \"{name}\" && chmod 700 \"{name}\" && ./\"{name}\" --version >/dev/null 2>&1 && well; rm -f \"{name}\"; fi; \
         say absent; \
         read -r go && [ \"$go\" = send ] || exit 0; \
         part=\"{name}.$$.part\"; \
         trap \"rm -f $part\" EXIT HUP PIPE TERM; \
         rm -f \"$part\"; \
         head -c {len} >\"$part\" || {{ say \"it could not be written there\"; exit 1; }}; \
         right \"$part\" || {{ say \"it did not arrive as it was sent\"; exit 1; }}; \
         chmod 700 \"$part\"; \
         said=\"$(./\"$part\" --version 2>&1)\" || {{ say broken \"$said\"; exit 1; }}; \
         mv -f \"$part\" \"{name}\" && well"
    );
    format!("exec sh -c '{script}'")
}

/// Answers the script.
fn talk(pipes: Pipes, program: &[u8], name: &str, note: &Note) -> Result<()> {
    let Pipes { from, to, helper } = pipes;
    let mut lines = BufReader::new(File::from(from));
    let failed = |cause: &str| {
        Error::new(ErrorKind::Unreachable, Side::Wire, "put haul onto", cause)
            .on(name)
            .with_hint("install haul there by hand, or leave --bootstrap out: then it goes on over SFTP")
    };
    let ours = rustix::system::uname();
    let ours = format!("{} {}", ours.sysname().to_string_lossy(), ours.machine().to_string_lossy());
    let theirs = line(&mut lines, &*helper, &failed)?;
    match theirs.strip_prefix("system ") {
        Some(system) if system == ours => {}
        Some(system) => {
            return Err(failed(&format!("it is of another kind: `{system}` there, `{ours}` here")));
        }
        None => return Err(failed("it does not say what system it is")),
    }
    let mut to = File::from(to);
    let mut sent = None;
    loop {
        match (&line(&mut lines, &*helper, &failed)?[..], &sent) {
            ("ready", _) => return Ok(()),
            ("absent", None) => {
                note(&format!("haul is not installed at {name}: putting it into ~/.cache/haul there"));
                // If this fails, the next line of the script reports why.
                sent = Some(to.write_all(b"send\n").and_then(|()| to.write_all(program)));
            }
            ("content", _) => {
                note(&format!(
                    "{name} has no sha256sum, shasum or openssl: haul reads its program back from there to compare it"
                ));
                let same = is(&mut lines, program).map_err(|error| failed(&error.to_string()))?;
                let answer: &[u8] = if same { b"right\n" } else { b"wrong\n" };
                // If this fails, the next line of the script reports why.
                let _ = to.write_all(answer);
            }
            (_, Some(Err(error))) => return Err(failed(&error.to_string())),
            (other, _) => {
                let broken = other.strip_prefix("broken ");
                let cause = broken.map(|said| format!("it does not run there as it does here ({said})"));
                return Err(failed(cause.as_deref().unwrap_or(other)));
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_word_for_any_shell() {
        let script = script("haul-1.2.3-0123456789abcdef", &"a".repeat(64), 22_000_000);
        assert_eq!(script.matches('\'').count(), 2);
        assert!(!script.contains(['\n', '!']));
        let parsed = std::process::Command::new("sh").args(["-n", "-c", &script]).status().unwrap();
        assert!(parsed.success());
        let inner = script.strip_prefix("exec sh -c '").and_then(|rest| rest.strip_suffix('\'')).unwrap();
        let parsed = std::process::Command::new("sh").args(["-n", "-c", inner]).status().unwrap();
        assert!(parsed.success(), "{inner}");
    }
}
