//! Several streams of one backup: named pipes that one program writes, of which all are whole or none is.
//!
//! `xtrabackup --fifo-streams=N --fifo-dir=D` makes the pipes `thread_0`, `thread_1` … in D, each when the one before
//! was opened by a reader (<https://docs.percona.com/percona-xtrabackup/8.0/xbcloud-binary-fifo-datasink.html>).

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haul_core::{Error, ErrorKind, Result, Side};

use super::input::{Input, end};
use crate::PipeFolder;

/// What could not be done where another stream of the same backup is to blame.
pub const WITH_OTHERS: &str = "put with the other streams";

/// How often it is looked whether there are more pipes, or whether all have ended.
const LOOK: Duration = Duration::from_millis(20);

/// No further pipe has to be waited for longer than this: what xtrabackup waits for a reader unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// Streams that belong together, and the command that writes them.
pub struct Group {
    name: String,
    /// A stream without content is one of them; else it is a failure.
    allow_empty: bool,
    state: Mutex<State>,
}

struct State {
    child: Option<Child>,
    status: Option<ExitStatus>,
    /// Streams whose end was not seen.
    open: usize,
    failed: Option<Error>,
}

impl Group {
    /// Runs the command, if there is one. Its standard output is haul's own. What it has not written anything to is a
    /// stream all the same if it ends well; of other pipes nobody knows that.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: Option<Command>, name: &str, allow_empty: bool) -> Result<Arc<Self>> {
        let allow_empty = allow_empty || command.is_some();
        let run = |mut command: Command| {
            let child = command.stdin(Stdio::null()).spawn();
            child.map_err(|error| Error::io(Side::Source, "run", &error).on(name))
        };
        let child = command.map(run).transpose()?;
        let state = State { child, status: None, open: 0, failed: None };
        Ok(Arc::new(Self { name: name.to_owned(), allow_empty, state: Mutex::new(state) }))
    }

    /// Opens `count` pipes in a folder as they appear; gives their names with them.
    ///
    /// # Errors
    /// If the folder cannot be read, the command ends before, or the run is cancelled.
    pub fn open(
        self: &Arc<Self>,
        folder: &Path,
        count: usize,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Vec<(String, Input)>> {
        let mut pipes = BTreeMap::new();
        let mut newest = Instant::now();
        loop {
            let ended = self.ended()?;
            for (name, fd) in pipes_in(folder, &pipes)? {
                pipes.insert(name, fd);
                newest = Instant::now();
            }
            if pipes.len() >= count {
                break;
            }
            if let Some(status) = ended {
                let made = pipes.len();
                let cause = if status.success() {
                    format!("it ended after it had made {made} of {count} pipes")
                } else {
                    format!("it failed: {status}")
                };
                return Err(Error::new(ErrorKind::Io, Side::Source, "run", cause).on(&self.name));
            }
            if newest.elapsed() > PATIENCE {
                let (made, waited) = (pipes.len(), PATIENCE.as_secs());
                let cause = format!("there are {made} of {count} pipes, and no other came for {waited} s");
                return Err(Error::new(ErrorKind::Io, Side::Source, "wait for pipes", cause)
                    .on(folder.as_os_str().as_bytes()));
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, Side::Local, "wait for pipes", "interrupted"));
            }
            thread::sleep(LOOK);
        }
        if pipes.len() > count {
            let cause = format!("there are {} named pipes in it, and {count} are expected", pipes.len());
            let error = Error::new(ErrorKind::Usage, Side::Local, "use the folder", cause);
            return Err(error
                .on(folder.as_os_str().as_bytes())
                .with_hint("--fifo-streams says how many there are"));
        }
        self.lock().open = pipes.len();
        let member = |(name, fd): (String, OwnedFd)| {
            let input = Input::of_group(fd, &name, Arc::clone(self), Arc::clone(cancel));
            (name, input)
        };
        Ok(pipes.into_iter().map(member).collect())
    }

    /// Whether the command has ended; without one it never does.
    ///
    /// # Errors
    /// If that cannot be known.
    pub(super) fn ended(&self) -> Result<Option<ExitStatus>> {
        let mut state = self.lock();
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

    /// Whether a stream without content is one of them.
    pub(super) fn allows_empty(&self) -> bool {
        self.allow_empty
    }

    /// # Errors
    /// If one of its streams has failed.
    pub(super) fn check(&self) -> Result<()> {
        self.lock().failed.clone().map_or(Ok(()), Err)
    }

    /// One of its streams was not taken to its end: then none counts.
    pub(super) fn fail(&self, stream: &str) {
        let cause = "another stream of the same backup was not put: nothing is made of this one";
        let error = Error::new(ErrorKind::Io, Side::Source, WITH_OTHERS, cause).on(stream);
        self.lock().failed.get_or_insert(error);
    }

    /// The end of one stream was seen: whether all are whole. Waits for the others and for the command.
    ///
    /// # Errors
    /// If another one or the command fails, or the run is cancelled.
    pub(super) fn finish(&self, wanted: &dyn Fn() -> Result<()>) -> Result<()> {
        {
            let mut state = self.lock();
            state.open = state.open.saturating_sub(1);
        }
        loop {
            wanted()?;
            self.check()?;
            let status = self.ended()?;
            if let Some(status) = status.filter(|status| !status.success()) {
                let cause = format!("it failed: {status}");
                return Err(Error::new(ErrorKind::Io, Side::Source, "run", cause).on(&self.name));
            }
            let state = self.lock();
            if state.open == 0 && state.child.is_none() {
                return Ok(());
            }
            drop(state);
            thread::sleep(LOOK);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(child) = self.lock().child.take() {
            end(child);
        }
    }
}

/// How many named pipes are in a folder.
///
/// # Errors
/// If it cannot be read.
pub fn count_pipes(folder: &Path) -> Result<usize> {
    Ok(pipes_in(folder, &BTreeMap::new())?.len())
}

/// Opens the named pipes in a folder that were not opened before. Opening waits for nobody: a pipe whose writer has not
/// come yet has no end.
fn pipes_in(folder: &Path, known: &BTreeMap<String, OwnedFd>) -> Result<Vec<(String, OwnedFd)>> {
    let failed = |error: &std::io::Error| {
        Error::io(Side::Source, "read the folder of pipes", error).on(folder.as_os_str().as_bytes())
    };
    let dir = PipeFolder::open(folder).map_err(|error| failed(&error))?;
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(&error))? {
        let entry = entry.map_err(|error| failed(&error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_pipe = entry.file_type().is_ok_and(|kind| kind.is_fifo());
        if !is_pipe || known.contains_key(&name) {
            continue;
        }
        // Reading waits; it is looked before whether there is something.
        let fd = dir.reader(Path::new(&entry.file_name())).map_err(|error| failed(&error))?;
        found.push((name, fd));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;

    fn pipes(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join(name), Mode::RUSR | Mode::WUSR).unwrap();
        }
        folder
    }

    #[test]
    fn all_streams_are_whole_or_none() {
        let folder = pipes(&["a", "b"]);
        let group = Group::start(None, "x", false).unwrap();
        let cancel = Arc::default();
        let mut inputs = group.open(folder.path(), 2, &cancel).unwrap();
        let (name, mut second) = inputs.pop().unwrap();
        let (_, mut first) = inputs.pop().unwrap();
        assert_eq!(name, "b");
        fs::write(folder.path().join("a"), "1").unwrap();
        assert_eq!((first.read(&mut [0; 8]).unwrap(), first.read(&mut [0; 8]).unwrap()), (1, 0));
        let waits = thread::spawn(move || first.finish());
        fs::write(folder.path().join("b"), "22").unwrap();
        assert_eq!(second.read(&mut [0; 8]).unwrap(), 2);
        // It was not taken to its end.
        drop(second);
        assert!(waits.join().unwrap().is_err());
    }

    #[test]
    fn a_stream_without_content_is_a_failure_where_nobody_knows_how_its_writer_did() {
        for allow_empty in [false, true] {
            let folder = pipes(&["a"]);
            let group = Group::start(None, "x", allow_empty).unwrap();
            let (_, mut input) = group.open(folder.path(), 1, &Arc::default()).unwrap().pop().unwrap();
            fs::write(folder.path().join("a"), "").unwrap();
            assert_eq!(input.read(&mut [0; 8]).unwrap(), 0);
            assert_eq!(input.finish().is_ok(), allow_empty);
        }
    }

    #[test]
    fn a_command_that_makes_too_few_pipes_or_fails_is_told() {
        let folder = pipes(&["a"]);
        let run = |line: &str, count| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            Group::start(Some(command), line, false)
                .unwrap()
                .open(folder.path(), count, &Arc::default())
                .map(|_| ())
        };
        assert!(run("exit 0", 2).unwrap_err().to_string().contains("1 of 2"));
        assert!(run("exit 7", 2).unwrap_err().to_string().contains("exit status: 7"));
        assert!(run("sleep 1", 1).is_ok());
        assert_eq!(count_pipes(folder.path()).unwrap(), 1);
        let group = Group::start(None, "x", false).unwrap();
        assert_eq!(
            group.open(folder.path(), 0, &Arc::default()).map(|_| ()).unwrap_err().kind(),
            ErrorKind::Usage
        );
    }
}
