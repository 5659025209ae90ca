//! Asks for a password on the terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::{Error, ErrorKind, Result, Side};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustix::time::Timespec;

/// How often a question checks whether the run was stopped.
const CHECK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// The longest password, in bytes.
const MOST: usize = 4096;

/// A terminal that does not show typed characters until this is dropped.
struct HiddenInput<'a>(&'a File, Termios);

impl Drop for HiddenInput<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.0, OptionalActions::Flush, &self.1);
        let _ = (&mut &*self.0).write_all(b"\n");
    }
}

/// Asks once. `None` if there is no terminal, or nothing was typed.
///
/// # Errors
/// `Cancelled` if the run was stopped meanwhile.
pub(crate) fn ask(question: &str, cancel: &AtomicBool) -> Result<Option<String>> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
    let Ok(terminal) = terminal else { return Ok(None) };
    let Ok(before) = tcgetattr(&terminal) else { return Ok(None) };
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    let shown = (&terminal).write_all(question.as_bytes());
    if shown.is_err() || tcsetattr(&terminal, OptionalActions::Flush, &silent).is_err() {
        return Ok(None);
    }
    let _echoes_again = HiddenInput(&terminal, before);
    // A terminal gives whole lines.
    let mut line = vec![0; MOST];
    let len = loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, Side::Local, "log in", "the run was stopped"));
        }
        let mut ready = [PollFd::new(&terminal, PollFlags::IN)];
        if poll(&mut ready, Some(&CHECK)).unwrap_or_default() > 0 {
            break (&terminal).read(&mut line).unwrap_or_default();
        }
    };
    line.truncate(len);
    let text = String::from_utf8(line).unwrap_or_default();
    let password = text.trim_end_matches(['\n', '\r']);
    Ok((!password.is_empty()).then(|| password.to_owned()))
}
