//! Opens the named pipes of a group as inputs.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haul_core::{Error, ErrorKind, Result, Side};

use super::group::{LOOK, StreamGroup};
use super::input::Input;
use crate::PipeDirectory;

/// The longest wait for the next pipe: xtrabackup's default wait for a reader.
const FIFO_TIMEOUT: Duration = Duration::from_secs(60);

/// Opens `count` pipes in a directory as they appear; returns them with their names.
///
/// # Errors
/// `Usage` if there are more pipes, `Cancelled`, else that the command ended early or the directory cannot be read.
pub fn open_fifos(
    group: &Arc<StreamGroup>,
    directory: &Path,
    count: usize,
    cancel: &Arc<AtomicBool>,
) -> Result<Vec<(String, Input)>> {
    let mut pipes = BTreeMap::new();
    let mut newest = Instant::now();
    loop {
        let ended = group.ended()?;
        for (name, fd) in pipes_in(directory, &pipes)? {
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
                haul_core::program::ending(status)
            };
            return Err(Error::new(ErrorKind::Io, Side::Source, "run", cause).on(group.name()));
        }
        if newest.elapsed() > FIFO_TIMEOUT {
            let (made, waited) = (pipes.len(), FIFO_TIMEOUT.as_secs());
            let cause = format!("there are {made} of {count} pipes, and no other came for {waited} s");
            return Err(Error::new(ErrorKind::Io, Side::Source, "wait for pipes", cause)
                .on(directory.as_os_str().as_bytes()));
        }
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, Side::Local, "wait for pipes", "interrupted"));
        }
        thread::sleep(LOOK);
    }
    if pipes.len() > count {
        let cause = format!("there are {} named pipes in it, and {count} are expected", pipes.len());
        let error = Error::new(ErrorKind::Usage, Side::Local, "use the directory", cause);
        return Err(error
            .on(directory.as_os_str().as_bytes())
            .with_hint("--fifo-streams says how many there are"));
    }
    group.expect(pipes.len());
    let member = |(name, fd): (String, OwnedFd)| {
        let input = Input::of_group(fd, &name, Arc::clone(group), Arc::clone(cancel));
        (name, input)
    };
    Ok(pipes.into_iter().map(member).collect())
}

/// Counts the named pipes in a directory.
///
/// # Errors
/// The error of reading the directory.
pub fn count_pipes(directory: &Path) -> Result<usize> {
    Ok(pipes_in(directory, &BTreeMap::new())?.len())
}

/// Opens the named pipes in a directory that are not open yet. Opening does not block: reading a pipe without a writer
/// waits for one.
fn pipes_in(directory: &Path, known: &BTreeMap<String, OwnedFd>) -> Result<Vec<(String, OwnedFd)>> {
    let failed = |error: &std::io::Error| {
        Error::io(Side::Source, "read the directory of pipes", error).on(directory.as_os_str().as_bytes())
    };
    let dir = PipeDirectory::open(directory).map_err(|error| failed(&error))?;
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| failed(&error))? {
        let entry = entry.map_err(|error| failed(&error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_pipe = entry.file_type().is_ok_and(|kind| kind.is_fifo());
        if !is_pipe || known.contains_key(&name) {
            continue;
        }
        // Reads block; inputs poll before they read.
        let fd = dir.reader(Path::new(&entry.file_name())).map_err(|error| failed(&error))?;
        found.push((name, fd));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;
    use std::process::Command;

    fn pipes(names: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for name in names {
            rustix::fs::mkfifoat(rustix::fs::CWD, directory.path().join(name), Mode::RUSR | Mode::WUSR)
                .unwrap();
        }
        directory
    }

    #[test]
    fn all_streams_are_complete_or_none_counts() {
        let directory = pipes(&["a", "b"]);
        let group = StreamGroup::start(None, "x", false).unwrap();
        let cancel = Arc::default();
        let mut inputs = open_fifos(&group, directory.path(), 2, &cancel).unwrap();
        let (name, mut second) = inputs.pop().unwrap();
        let (_, mut first) = inputs.pop().unwrap();
        assert_eq!(name, "b");
        fs::write(directory.path().join("a"), "1").unwrap();
        assert_eq!((first.read(&mut [0; 8]).unwrap(), first.read(&mut [0; 8]).unwrap()), (1, 0));
        let waits = thread::spawn(move || first.finish());
        fs::write(directory.path().join("b"), "22").unwrap();
        assert_eq!(second.read(&mut [0; 8]).unwrap(), 2);
        // It was not read to its end.
        drop(second);
        assert!(waits.join().unwrap().is_err());
    }

    #[test]
    fn an_empty_stream_of_an_unknown_writer_is_a_failure() {
        for allow_empty in [false, true] {
            let directory = pipes(&["a"]);
            let group = StreamGroup::start(None, "x", allow_empty).unwrap();
            let (_, mut input) =
                open_fifos(&group, directory.path(), 1, &Arc::default()).unwrap().pop().unwrap();
            fs::write(directory.path().join("a"), "").unwrap();
            assert_eq!(input.read(&mut [0; 8]).unwrap(), 0);
            assert_eq!(input.finish().is_ok(), allow_empty);
        }
    }

    #[test]
    fn a_command_that_makes_too_few_pipes_or_fails_is_an_error() {
        let directory = pipes(&["a"]);
        let run = |line: &str, count| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            let group = StreamGroup::start(Some(command), line, false).unwrap();
            open_fifos(&group, directory.path(), count, &Arc::default()).map(|_| ())
        };
        assert!(run("exit 0", 2).unwrap_err().to_string().contains("1 of 2"));
        assert!(run("exit 7", 2).unwrap_err().to_string().contains("exited with code 7"));
        assert!(run("sleep 1", 1).is_ok());
        assert_eq!(count_pipes(directory.path()).unwrap(), 1);
        let group = StreamGroup::start(None, "x", false).unwrap();
        assert_eq!(
            open_fifos(&group, directory.path(), 0, &Arc::default()).map(|_| ()).unwrap_err().kind(),
            ErrorKind::Usage
        );
    }
}
