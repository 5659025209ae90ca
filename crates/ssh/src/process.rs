//! One ssh process: start, error output, end.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use haul_core::path::printable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::errand::Errand;
use super::trouble::LoginCommand;
use super::{terminal, trouble};
use crate::dial::{DialRefused, Helper};
use haul_core::Note;

/// The size of the pipes to ssh: the most that Linux allows without privileges, for fewer wakeups.
const PIPE_LEN: usize = 1024 * 1024;
/// Lines of error output to keep, and the longest line.
const LINES: usize = 40;
const LINE_LEN: u64 = 2048;
/// Lines of the first connection to show at most.
const SHOWN: usize = 50;
/// How long the error output may take to arrive after the end of a connection.
const EXPLAIN: Duration = Duration::from_secs(2);

/// All processes that run, for [`abandon`].
static STARTED: Mutex<Vec<Weak<SshProcess>>> = Mutex::new(Vec::new());

/// Kills every ssh process of every session at once, even one that asks for a password. Whatever waits for them fails.
/// The processes do not receive Ctrl-C, so a program that stops at once has to call this.
pub fn abandon() {
    let started = STARTED.lock().clone();
    for process in started.iter().filter_map(Weak::upgrade) {
        process.kill();
    }
}

/// A process and its state.
pub(super) struct SshProcess {
    pid: Option<Pid>,
    state: Mutex<ChildState>,
    heard: Condvar,
}

struct ChildState {
    /// `None` once it was collected, as its pid may then belong to another process.
    child: Option<Child>,
    status: Option<ExitStatus>,
    lines: VecDeque<String>,
    /// Whether its error output has ended.
    silent: bool,
    settled: bool,
    note: Option<Note>,
    shown: usize,
}

impl SshProcess {
    /// Starts it, and returns it with its standard input and output. `note` gets its error output once the connection
    /// is up.
    ///
    /// # Errors
    /// If the system refuses a process, a pipe or a thread.
    pub(super) fn start(words: &[String], note: Option<Note>) -> io::Result<(Arc<Self>, OwnedFd, OwnedFd)> {
        // Ctrl-C and a hangup reach the whole foreground group. haul finishes blocks in flight then, and needs its
        // connections.
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
            state: Mutex::new(ChildState {
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
        // The system refuses this if the user's pipes hold too much memory; the size stays at 64 KiB then.
        let _ = rustix::pipe::fcntl_setpipe_size(&output, PIPE_LEN);
        Ok((process, input, output))
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
            let mut state = self.state.lock();
            if state.lines.len() == LINES {
                state.lines.pop_front();
            }
            state.lines.push_back(text);
            if state.settled {
                Self::show(state);
            }
        }
        self.state.lock().silent = true;
        self.heard.notify_all();
    }

    /// Shows the lines that were not shown before.
    fn show(mut state: MutexGuard<'_, ChildState>) {
        let Some(note) = state.note.clone() else { return };
        let room = SHOWN.saturating_sub(state.shown);
        let lines: Vec<String> = state.lines.iter().take(room).cloned().collect();
        state.shown += lines.len();
        // The last line is kept for an error.
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

    /// Whether its error output has ended.
    pub(super) fn is_silent(&self) -> bool {
        self.state.lock().silent
    }

    /// Whether it waits for an answer on the terminal.
    pub(super) fn is_asking(&self) -> bool {
        self.pid.is_some_and(|pid| terminal::has_terminal(pid.as_raw_nonzero().get()))
    }

    pub(super) fn is_settled(&self) -> bool {
        self.state.lock().settled
    }

    /// Kills it without waiting.
    pub(super) fn kill(&self) {
        let settled = self.is_settled();
        if let Some(child) = &mut self.state.lock().child {
            // While ssh reads a password, the terminal does not echo. ssh restores it on this signal.
            if !settled
                && let Some(pid) = self.pid.filter(|pid| terminal::has_terminal(pid.as_raw_nonzero().get()))
            {
                let _ = kill_process(pid, Signal::TERM);
                return;
            }
            let _ = child.kill();
        }
    }

    /// Kills and collects it.
    pub(super) fn end(&self) {
        self.kill();
        // A killed process ends, unless it hangs in the kernel; then it is left alone.
        self.wait(Duration::from_secs(5));
    }

    /// Waits for its end and collects it. `false`: it still runs.
    fn wait(&self, timeout: Duration) -> bool {
        let begun = Instant::now();
        loop {
            {
                let mut state = self.state.lock();
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
            let left = timeout.saturating_sub(begun.elapsed());
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

    /// The last line of its error output.
    fn last_line(&self) -> String {
        self.state.lock().lines.back().cloned().unwrap_or_default()
    }
}

impl Drop for SshProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// A process as the helper of a connection.
pub(super) struct SshHelper {
    pub(super) process: Arc<SshProcess>,
    pub(super) login: LoginCommand,
    pub(super) errand: Errand,
    /// Set when the connection is up.
    pub(super) up: Option<Arc<AtomicBool>>,
}

impl Helper for SshHelper {
    fn kill(&self) {
        self.process.kill();
    }

    fn collect(&self, timeout: Duration) {
        if !self.process.wait(timeout) {
            self.process.end();
        }
    }

    fn last_words(&self) -> String {
        self.process.last_line()
    }

    fn is_asking(&self) -> bool {
        self.process.is_asking()
    }

    fn explain(&self) -> Option<DialRefused> {
        if !self.process.wait(EXPLAIN) {
            return None;
        }
        // A child of ssh may hold its standard error open. Its output is not worth a longer wait.
        let state = self.process.state.lock();
        let waited = self.process.heard.wait_timeout_while(state, EXPLAIN / 4, |state| !state.silent);
        let (state, _) = waited;
        let code = state.status.and_then(|status| status.code());
        let lines: Vec<&str> = state.lines.iter().map(String::as_str).collect();
        let refused = trouble::explain(code, &lines, &self.login, &self.errand);
        // ssh explains a refused host key in many lines. The error contains the last one, the user gets the others.
        let before = if trouble::is_host_key(&lines) { lines.len() - 1 } else { 0 };
        let reported: Vec<String> = lines.iter().take(before).map(|line| (*line).to_owned()).collect();
        let note = state.note.clone();
        drop(state);
        for line in &reported {
            note.iter().for_each(|note| note(line));
        }
        Some(refused)
    }

    fn settled(&self) {
        self.up.iter().for_each(|up| up.store(true, Ordering::Relaxed));
        let mut state = self.process.state.lock();
        state.settled = true;
        // After this line ssh asked again and got the right answer. Shown now, it would look like a failure.
        state.lines.retain(|line| !trouble::is_asked_again(line));
        SshProcess::show(state);
    }
}
