//! One ssh process: started, listened to, ended, collected.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use haul_core::path::printable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::config::Note;
use super::{Errand, asking, trouble};
use crate::dial::{Helper, Refused};

/// What pipes to ssh are made to hold: fewer wakeups. It is what Linux allows without privileges.
const PIPE_LEN: usize = 1024 * 1024;
/// Lines of a process that are kept, and the longest that is taken as one.
const LINES: usize = 40;
const LINE_LEN: u64 = 2048;
/// Lines of the first connection that are shown.
const SHOWN: usize = 50;
/// How long an explanation may take to arrive after the end of what it explains.
const EXPLAIN: Duration = Duration::from_secs(2);

/// All that were started and are not collected, for [`abandon`].
static STARTED: Mutex<Vec<Weak<Process>>> = Mutex::new(Vec::new());

/// Ends every ssh process of every peer at once, one that is asking for a password included; whatever waits for them
/// fails. For a program that is told to stop now: they do not get its Ctrl-C.
pub fn abandon() {
    let started = STARTED.lock().clone();
    for process in started.iter().filter_map(Weak::upgrade) {
        process.kill();
    }
}

/// A process and what is known of it.
pub(super) struct Process {
    pid: Option<Pid>,
    state: Mutex<State>,
    heard: Condvar,
}

struct State {
    /// `None` once it was collected: then its number may be another's.
    child: Option<Child>,
    status: Option<ExitStatus>,
    lines: VecDeque<String>,
    /// Whether there will be no more lines.
    silent: bool,
    settled: bool,
    note: Option<Note>,
    shown: usize,
}

impl Process {
    /// Starts it; the descriptors are its standard input and output. `note` gets its lines once it has settled.
    pub(super) fn start(words: &[String], note: Option<Note>) -> io::Result<(Arc<Self>, OwnedFd, OwnedFd)> {
        // Ctrl-C and the loss of the terminal reach the whole foreground group; haul drains on them and needs its
        // connections for that.
        let (input, theirs) = UnixStream::pair()?;
        let mut child = Command::new("/bin/sh")
            .args(["-c", "trap '' INT HUP; exec \"$@\"", "sh"])
            .args(words)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (output, stderr) = (child.stdout.take(), child.stderr.take());
        let process = Arc::new(Self {
            pid,
            state: Mutex::new(State {
                child: Some(child),
                status: None,
                lines: VecDeque::new(),
                silent: false,
                settled: false,
                note,
                shown: 0,
            }),
            heard: Condvar::new(),
        });
        let mut started = STARTED.lock();
        started.retain(|process| process.strong_count() > 0);
        started.push(Arc::downgrade(&process));
        drop(started);
        let (Some(output), Some(stderr)) = (output, stderr) else {
            process.end();
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let listener = process.clone();
        let spawned =
            thread::Builder::new().name("haul-stderr".to_owned()).spawn(move || listener.listen(stderr));
        if let Err(error) = spawned {
            process.end();
            return Err(error);
        }
        let (input, output) = (OwnedFd::from(input), OwnedFd::from(output));
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&input, PIPE_LEN);
        // Refused where the user's pipes hold too much already; then it stays at 64 KiB.
        let _ = rustix::pipe::fcntl_setpipe_size(&output, PIPE_LEN);
        Ok((process, input, output))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn listen(&self, stderr: ChildStderr) {
        let mut stderr = BufReader::new(stderr);
        let mut line = Vec::new();
        loop {
            line.clear();
            match Read::by_ref(&mut stderr).take(LINE_LEN).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let text = printable(line.trim_ascii());
            if text.is_empty() {
                continue;
            }
            let mut state = self.lock();
            if state.lines.len() == LINES {
                state.lines.pop_front();
            }
            state.lines.push_back(text);
            if state.settled {
                Self::show(state);
            }
        }
        self.lock().silent = true;
        self.heard.notify_all();
    }

    /// Shows the lines that were not shown yet.
    fn show(mut state: MutexGuard<'_, State>) {
        let Some(note) = state.note.clone() else { return };
        let room = SHOWN.saturating_sub(state.shown);
        let lines: Vec<String> = state.lines.iter().take(room).cloned().collect();
        state.shown += lines.len();
        // What it says last is kept for an error.
        while state.lines.len() > 1 {
            state.lines.pop_front();
        }
        if state.shown > SHOWN {
            return;
        }
        drop(state);
        for line in lines {
            note(&line);
        }
    }

    /// Whether it will say no more.
    pub(super) fn is_silent(&self) -> bool {
        self.lock().silent
    }

    /// Whether it waits for an answer on the terminal.
    pub(super) fn is_asking(&self) -> bool {
        self.pid.is_some_and(|pid| asking::has_terminal(pid.as_raw_nonzero().get()))
    }

    pub(super) fn is_settled(&self) -> bool {
        self.lock().settled
    }

    /// Ends it without waiting for the end.
    pub(super) fn kill(&self) {
        let settled = self.is_settled();
        if let Some(child) = &mut self.lock().child {
            // While it reads a password the terminal shows nothing that is typed. It puts that right on this signal.
            if !settled
                && let Some(pid) = self.pid.filter(|pid| asking::has_terminal(pid.as_raw_nonzero().get()))
            {
                let _ = kill_process(pid, Signal::TERM);
                return;
            }
            let _ = child.kill();
        }
    }

    /// Ends and collects it.
    pub(super) fn end(&self) {
        self.kill();
        // It ends for certain, unless the system holds it: then it is left.
        self.wait(Duration::from_secs(5));
    }

    /// Waits for its end and collects it. `false`: it goes on.
    fn wait(&self, patience: Duration) -> bool {
        let begun = Instant::now();
        loop {
            {
                let mut state = self.lock();
                let Some(child) = &mut state.child else { return true };
                match child.try_wait() {
                    Ok(Some(status)) => {
                        state.status = Some(status);
                        state.child = None;
                        return true;
                    }
                    Ok(None) => {}
                    Err(_) => return true,
                }
            }
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            self.sleep_until_end(left);
        }
    }

    fn sleep_until_end(&self, limit: Duration) {
        let fd = self.pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        match (fd, Timespec::try_from(limit)) {
            (Some(fd), Ok(limit)) => {
                let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit));
            }
            // Linux before 5.3.
            _ => thread::sleep(limit.min(Duration::from_millis(100))),
        }
    }

    /// The last line that it said.
    fn last_line(&self) -> String {
        self.lock().lines.back().cloned().unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A process as the helper of a connection.
pub(super) struct SshHelper {
    pub(super) process: Arc<Process>,
    pub(super) name: String,
    pub(super) errand: Errand,
}

impl Helper for SshHelper {
    fn kill(&self) {
        self.process.kill();
    }

    fn collect(&self, patience: Duration) {
        if !self.process.wait(patience) {
            self.process.end();
        }
    }

    fn last_words(&self) -> String {
        self.process.last_line()
    }

    fn is_asking(&self) -> bool {
        self.process.is_asking()
    }

    fn explain(&self) -> Option<Refused> {
        if !self.process.wait(EXPLAIN) {
            return None;
        }
        // A helper of ssh's own may hold its standard error open; what it would say is not worth more time.
        let state = self.process.lock();
        let waited = self.process.heard.wait_timeout_while(state, EXPLAIN / 4, |state| !state.silent);
        let (state, _) = waited;
        let code = state.status.and_then(|status| status.code());
        let lines: Vec<&str> = state.lines.iter().map(String::as_str).collect();
        let refused = trouble::explain(code, &lines, &self.name, &self.errand);
        // Why a host key was not taken is in many lines, of which the error bears the last one.
        let before = if trouble::is_host_key(&lines) { lines.len() - 1 } else { 0 };
        let told: Vec<String> = lines.iter().take(before).map(|line| (*line).to_owned()).collect();
        let note = state.note.clone();
        drop(state);
        for line in &told {
            note.iter().for_each(|note| note(line));
        }
        Some(refused)
    }

    fn settled(&self) {
        let mut state = self.process.lock();
        state.settled = true;
        // ssh asked again after that, and the answer was right: said now, it would be taken for a failure.
        state.lines.retain(|line| !trouble::is_asked_again(line));
        Process::show(state);
    }
}
