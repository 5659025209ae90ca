//! The text that a program writes to its standard error, until somebody has taken it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use haul_core::program::MAX_SAID;
use haul_core::sync::{Condvar, Mutex};
use haul_core::{Result, Said};

/// How long to wait for more.
const LOOK: Duration = Duration::from_millis(250);

/// The text that was not taken yet: at most [`MAX_SAID`] bytes, then the program waits.
#[derive(Default)]
pub(crate) struct Heard {
    state: Mutex<HeardState>,
    changed: Condvar,
}

#[derive(Default)]
struct HeardState {
    text: VecDeque<u8>,
    /// The offset of the first byte.
    start: u64,
    ended: bool,
    /// Nobody takes anything any more.
    unheard: bool,
}

impl Heard {
    /// Reads in a thread until the last process that has the other end of the pipe closes it.
    ///
    /// # Errors
    /// That of starting the thread.
    pub(crate) fn listen(from: OwnedFd) -> Result<Arc<Self>> {
        let own = Arc::new(Self::default());
        let heard = Arc::clone(&own);
        let listening = move || heard.read(File::from(from));
        let thread = thread::Builder::new().name("haul-stderr".to_owned()).spawn(listening);
        thread.map(|_| own).map_err(|error| haul_threads::refused(&error))
    }

    fn read(&self, mut from: File) {
        let mut piece = vec![0; 8192];
        loop {
            match from.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => self.push(&piece[..len]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.state.lock().ended = true;
        self.changed.notify_all();
    }

    fn push(&self, piece: &[u8]) {
        let is_full = |state: &mut HeardState| state.text.len() + piece.len() > MAX_SAID && !state.unheard;
        let mut state = self.changed.wait_while(self.state.lock(), is_full);
        if !state.unheard {
            state.text.extend(piece);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The text from this offset on; waits for a moment if there is none. Drops the text before the offset.
    pub(crate) fn said(&self, from: u64) -> Said {
        let mut state = self.state.lock();
        let taken = usize::try_from(from.saturating_sub(state.start)).unwrap_or(usize::MAX);
        let taken = taken.min(state.text.len());
        state.text.drain(..taken);
        state.start += taken as u64;
        self.changed.notify_all();
        let until = Instant::now() + LOOK;
        while state.text.is_empty() && !state.ended && Instant::now() < until {
            state = self.changed.wait_timeout(state, LOOK).0;
        }
        Said { text: state.text.iter().copied().collect(), ended: state.ended }
    }

    /// From now on nobody takes anything: the program does not wait for that.
    pub(crate) fn close(&self) {
        self.state.lock().unheard = true;
        self.changed.notify_all();
    }
}
