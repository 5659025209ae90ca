//! Several streams of one backup: named pipes written by one program. Either all of them are stored or none.
//!
//! `xtrabackup --fifo-streams=N --fifo-dir=D` creates the pipes `thread_0`, `thread_1` … in D, each after a reader has
//! opened the one before (<https://docs.percona.com/percona-xtrabackup/8.0/xbcloud-binary-fifo-datasink.html>).

use haul_core::sync::Mutex;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use haul_core::{Error, ErrorKind, Result, Side};

use super::process::{not_started, terminate};

/// The operation of errors that another stream of the group has caused.
pub const WITH_OTHERS: &str = "put with the other streams";

/// How often new pipes and the end of all streams are looked for.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// Streams that belong together, and the command that writes them.
pub struct StreamGroup {
    name: String,
    /// Whether a stream may be empty; else that is a failure.
    allow_empty: bool,
    state: Mutex<GroupState>,
}

struct GroupState {
    child: Option<Child>,
    status: Option<ExitStatus>,
    /// Streams that have not reached their end.
    open: usize,
    failed: Option<Error>,
}

impl StreamGroup {
    /// Starts the command, if there is one. Its standard output is haul's own. If it succeeds, a pipe that it never
    /// wrote to counts as an empty stream; without a command, empty streams are failures unless allowed.
    ///
    /// # Errors
    /// The error of starting it.
    pub fn start(command: Option<Command>, name: &str, allow_empty: bool) -> Result<Arc<Self>> {
        let allow_empty = allow_empty || command.is_some();
        let run = |mut command: Command| {
            let child = command.stdin(Stdio::null()).spawn();
            child.map_err(|error| not_started(&command, name, Side::Source, &error))
        };
        let child = command.map(run).transpose()?;
        let state = GroupState { child, status: None, open: 0, failed: None };
        Ok(Arc::new(Self { name: name.to_owned(), allow_empty, state: Mutex::new(state) }))
    }

    /// The exit status of the command, once it has ended; always `None` without a command.
    ///
    /// # Errors
    /// The error of `waitpid`.
    pub(super) fn ended(&self) -> Result<Option<ExitStatus>> {
        let mut state = self.state.lock();
        if let Some(child) = &mut state.child {
            let status = child.try_wait();
            let status =
                status.map_err(|error| Error::io(Side::Source, "wait for", &error).on(&self.name))?;
            if status.is_some() {
                (state.child, state.status) = (None, status);
            }
        }
        Ok(state.status)
    }

    /// Whether a stream may be empty.
    pub(super) fn allows_empty(&self) -> bool {
        self.allow_empty
    }

    /// # Errors
    /// The failure of one of the streams.
    pub(super) fn check(&self) -> Result<()> {
        self.state.lock().failed.clone().map_or(Ok(()), Err)
    }

    /// A stream was not read to its end: the whole group fails.
    pub(super) fn fail(&self, stream: &str) {
        let cause = "another stream of the same backup was not put: nothing is made of this one";
        let error = Error::new(ErrorKind::Io, Side::Source, WITH_OTHERS, cause).on(stream);
        self.state.lock().failed.get_or_insert(error);
    }

    /// One stream has ended. Waits for the other streams and for the command.
    ///
    /// # Errors
    /// `Cancelled`, or that another stream or the command has failed.
    pub(super) fn finish(&self, wanted: &dyn Fn() -> Result<()>) -> Result<()> {
        {
            let mut state = self.state.lock();
            state.open = state.open.saturating_sub(1);
        }
        loop {
            wanted()?;
            self.check()?;
            let status = self.ended()?;
            if let Some(status) = status.filter(|status| !status.success()) {
                let cause = haul_core::program::ending(status);
                return Err(Error::new(ErrorKind::Io, Side::Source, "run", cause).on(&self.name));
            }
            let state = self.state.lock();
            if state.open == 0 && state.child.is_none() {
                return Ok(());
            }
            drop(state);
            thread::sleep(LOOK);
        }
    }

    /// The name of the command.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Sets the number of streams, each of which has to reach its end.
    pub(super) fn expect(&self, streams: usize) {
        self.state.lock().open = streams;
    }
}

impl Drop for StreamGroup {
    fn drop(&mut self) {
        if let Some(child) = self.state.lock().child.take() {
            terminate(child);
        }
    }
}
