//! Putting this very program onto a machine that has no haul, for runs from here: `~/.cache/haul/haul-VERSION-DIGEST`.
//!
//! One ssh command does it, a fixed script for `sh`. It says which system it is on and whether the program is there
//! and runs; if not, it takes the program from its standard input under a temporary name, has it hash itself, and
//! renames it only if the digest is right. Nothing else there is touched.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::time::Duration;

use haul_core::location::SshHost;
use haul_core::{Error, ErrorKind, Result, Side};

use crate::peer::dial::{Dial, Helper, Way};
use crate::peer::ssh::{Errand, Pipes, SshDialer};
use crate::peer::{Note, PeerConfig};

/// What the script's own lines begin with: a login shell there may print others.
const MARK: &str = "haul-bootstrap:";
/// How long the script may take to end once it was told everything.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes sure that this version of haul is in the cache at `host`, and gives the words that start it there.
///
/// # Errors
/// If the machine cannot be reached, is of another kind, or the program does not run there.
pub fn bootstrap(host: &SshHost, config: &PeerConfig, note: &Note) -> Result<String> {
    let unread = |e: &io::Error| Error::io(Side::Local, "read this program for --bootstrap", e);
    let program = std::fs::read("/proc/self/exe").map_err(|e| unread(&e))?;
    let digest = blake3::hash(&program).to_hex();
    let name = format!("haul-{}-{}", env!("CARGO_PKG_VERSION"), &digest[..16]);
    let errand = Errand::Command(script(&name, &digest));
    let dialer = SshDialer::new(host, config, errand, note.clone())?;
    let pipes = dialer.start(Way::First).map_err(|refused| refused.error)?;
    let helper = pipes.helper.clone();
    let put = talk(pipes, &program, &dialer.name(), note);
    helper.collect(if put.is_ok() { PATIENCE } else { Duration::ZERO });
    dialer.clean();
    put.map(|()| format!("~/.cache/haul/{name}"))
}

/// What is run there. It holds no single quote, as it stands between two: login shells of all kinds leave alone what
/// does.
fn script(name: &str, digest: &str) -> String {
    let script = format!(
        "say() {{ echo \"{MARK} $*\"; }}; \
         say system $(uname -sm); \
         dir=\"$HOME/.cache/haul\"; \
         if \"$dir/{name}\" --version >/dev/null 2>&1; then say ready; exit 0; fi; \
         say absent; \
         read -r go && [ \"$go\" = send ] || exit 0; \
         umask 077; \
         mkdir -p \"$dir\" && cd \"$dir\" || exit 1; \
         part=\"{name}.$$.part\"; \
         trap \"rm -f $part\" EXIT HUP PIPE TERM; \
         cat >\"$part\" && chmod 700 \"$part\" || exit 1; \
         case \"$(./\"$part\" hash -q ./\"$part\" 2>&1)\" in \
         {digest}*) ;; \
         *) said=\"$(./\"$part\" --version 2>&1 | head -n 1)\"; rm -f \"$part\"; say broken \"$said\"; exit 1;; \
         esac; \
         mv -f \"$part\" \"{name}\" && ./\"{name}\" --version >/dev/null && say ready"
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
    let mut next = || line(&mut lines, &*helper, &failed);
    let theirs = next()?;
    match theirs.strip_prefix("system ") {
        Some(system) if system == ours => {}
        Some(system) => {
            return Err(failed(&format!("it is of another kind: `{system}` there, `{ours}` here")));
        }
        None => return Err(failed("it does not say what system it is")),
    }
    match &next()?[..] {
        "ready" => return Ok(()),
        "absent" => {}
        other => return Err(failed(other)),
    }
    note(&format!("haul is not installed at {name}: putting it into ~/.cache/haul there"));
    let mut to = File::from(to);
    // If this fails, what is said there tells more.
    let sent = to.write_all(b"send\n").and_then(|()| to.write_all(program));
    drop(to);
    match &next()?[..] {
        "ready" => Ok(()),
        other => match (sent, other.strip_prefix("broken ")) {
            (Err(error), _) => Err(failed(&error.to_string())),
            (Ok(()), Some(said)) => Err(failed(&format!("it does not run there as it does here ({said})"))),
            (Ok(()), None) => Err(failed(other)),
        },
    }
}

/// The next line of the script.
fn line(lines: &mut impl BufRead, helper: &dyn Helper, failed: &dyn Fn(&str) -> Error) -> Result<String> {
    let mut ended = failed("the connection was closed");
    // A login script there may print something first, but not for ever.
    for _ in 0..1000 {
        let mut line = Vec::new();
        match io::Read::take(&mut *lines, 4096).read_until(b'\n', &mut line) {
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
        let script = script("haul-1.2.3-0123456789abcdef", &"a".repeat(64));
        assert_eq!(script.matches('\'').count(), 2);
        assert!(!script.contains(['\n', '!']));
        let parsed = std::process::Command::new("sh").args(["-n", "-c", &script]).status().unwrap();
        assert!(parsed.success());
        let inner = script.strip_prefix("exec sh -c '").and_then(|rest| rest.strip_suffix('\'')).unwrap();
        let parsed = std::process::Command::new("sh").args(["-n", "-c", inner]).status().unwrap();
        assert!(parsed.success(), "{inner}");
    }
}
