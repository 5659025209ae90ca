//! Runs processes with a time limit, signals them by their id, and finds those that do not end.
//!
//! Every process of a test, and each of its descendants, has a tag in its environment. The remote ends of a run are
//! found by this tag, and no other process of the machine is ever signalled.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The environment variable with the tag.
pub const TAG: &str = "TESTKIT_TAG";

/// Polls until `done` returns true. Panics after `limit`, with the first argument in the message.
pub fn wait_until(what: &str, limit: Duration, done: impl FnMut() -> bool) {
    assert!(comes_true(limit, done), "waited for {limit:?} until {what}");
}

/// Polls until `done` returns true. Returns whether it did within `limit`.
#[must_use]
pub fn comes_true(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !done() {
        if begun.elapsed() >= limit {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// The running processes with this tag.
#[must_use]
pub fn tagged(tag: &str) -> Vec<u32> {
    let wanted = format!("{TAG}={tag}").into_bytes();
    let carries = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
    };
    processes().filter(carries).collect()
}

/// The remote ends among the processes with this tag: those that run `haul agent`.
#[must_use]
pub fn agents(tag: &str) -> Vec<u32> {
    let is_agent = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|program| program.ends_with(b"haul")) && words.any(|word| word == b"agent")
    };
    tagged(tag).into_iter().filter(is_agent).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The descendants of the process `root`.
#[must_use]
pub fn descendants(root: u32) -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let all: Vec<(u32, u32)> = processes().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let of = found[at];
        found.extend(all.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

/// Sends a signal to a process. It is no failure if the process has ended already.
pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => panic!("cannot signal {pid:?}: {error}"),
    }
}

/// Ends a process like `kill -9`.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Fails if processes with this tag are still running after `limit`.
pub fn assert_all_gone(tag: &str, limit: Duration) {
    let begun = Instant::now();
    loop {
        let left = tagged(tag);
        if left.is_empty() {
            return;
        }
        if begun.elapsed() > limit {
            let lines: Vec<String> = left.iter().map(|pid| describe(*pid)).collect();
            left.iter().for_each(|pid| kill(*pid));
            panic!("left over after {limit:?}: {lines:#?}");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Describes a process and the system calls in which its threads wait.
fn describe(pid: u32) -> String {
    let read = |name: String| fs::read(name).map(|text| String::from_utf8_lossy(&text).replace('\0', " "));
    let mut text = format!("{pid}: {}", read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
    let mut threads = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let of = |name: &str| read(task.path().join(name).display().to_string()).unwrap_or_default();
        *threads.entry((of("comm").trim().to_owned(), of("wchan"))).or_insert(0) += 1;
    }
    for ((name, waits_in), count) in threads {
        let _ = write!(text, " [{count} x {name}: {waits_in}]");
    }
    text
}

/// A program to run.
#[derive(Debug)]
pub struct CommandRun {
    command: Command,
    input: Vec<u8>,
    limit: Duration,
    tag: String,
    watch_memory: bool,
    watch_remote: bool,
}

impl CommandRun {
    /// The program at `program`, with this tag.
    #[must_use]
    pub fn new(program: impl AsRef<OsStr>, tag: &str) -> Self {
        let mut command = Command::new(program);
        // Settings of this machine's user must not change a test.
        command.env(TAG, tag).env("HAUL_CONFIG", "");
        Self {
            command,
            input: Vec::new(),
            limit: Duration::from_secs(120),
            tag: tag.to_owned(),
            watch_memory: false,
            watch_remote: true,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets its working directory.
    #[must_use]
    pub fn in_dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Sets its standard input [default: empty].
    #[must_use]
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Sets the time after which it counts as hung [default: two minutes].
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Measures its peak memory and that of its remote ends.
    #[must_use]
    pub fn watch_memory(mut self) -> Self {
        self.watch_memory = true;
        self
    }

    /// Measures only its own peak memory.
    #[must_use]
    pub fn watch_own_memory(mut self) -> Self {
        self.watch_memory = true;
        self.watch_remote = false;
        self
    }

    /// Starts the program.
    #[must_use]
    pub fn start(mut self) -> Running {
        let text = format!("{:?}", self.command).replace(&format!("{TAG}=\"{}\" ", self.tag), "");
        let file = || tempfile::tempfile().expect("a temporary file can be made");
        let (mut input, stdout, stderr) = (file(), file(), file());
        input.write_all(&self.input).and_then(|()| input.rewind()).expect("a temporary file can be written");
        // Files, not pipes: a process that keeps running cannot block the test.
        let copy = |file: &File| Stdio::from(file.try_clone().expect("a file can be duplicated"));
        self.command.stdin(copy(&input)).stdout(copy(&stdout)).stderr(copy(&stderr));
        let child = self.command.spawn().unwrap_or_else(|error| panic!("cannot run {text}: {error}"));
        let memory =
            self.watch_memory.then(|| MemoryWatch::start(child.id(), self.watch_remote.then_some(&self.tag)));
        Running {
            child: Some(child),
            stdout,
            stderr,
            text,
            begun: Instant::now(),
            limit: self.limit,
            tag: self.tag,
            memory,
        }
    }

    /// Runs the program and waits for its end.
    #[must_use]
    pub fn finish(self) -> Finished {
        self.start().finish()
    }
}

/// A running program. On drop it is killed, with all processes of its tag.
#[derive(Debug)]
pub struct Running {
    child: Option<Child>,
    stdout: File,
    stderr: File,
    text: String,
    begun: Instant,
    limit: Duration,
    tag: String,
    memory: Option<MemoryWatch>,
}

impl Running {
    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it is there until it is finished").id()
    }

    /// Whether the program is still running.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Sends a signal to the program.
    pub fn signal(&self, which: Signal) {
        signal(self.pid(), which);
    }

    /// Its running remote ends.
    #[must_use]
    pub fn agents(&self) -> Vec<u32> {
        agents(&self.tag)
    }

    /// Its standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&contents(&self.stdout)).into_owned()
    }

    /// Waits until `done` returns true. Fails after the limit, or if the program ends earlier.
    pub fn wait_until(&mut self, what: &str, mut done: impl FnMut() -> bool) {
        while !done() {
            if !self.is_running() {
                if done() {
                    return;
                }
                panic!(
                    "{} ended before {what}\n{}",
                    self.text,
                    String::from_utf8_lossy(&contents(&self.stderr))
                );
            }
            assert!(self.begun.elapsed() < self.limit, "{} did not get to where {what}", self.text);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for its end. Fails if it does not end in time.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        while self.is_running() {
            if self.begun.elapsed() > self.limit {
                let threads: Vec<String> = tagged(&self.tag).into_iter().map(describe).collect();
                let said = String::from_utf8_lossy(&contents(&self.stderr)).into_owned();
                panic!("{} still runs after {:?}: {threads:#?}\n{said}", self.text, self.limit);
            }
            thread::sleep(Duration::from_millis(5));
        }
        let status =
            self.child.take().expect("it is finished once").wait().expect("a child can be waited for");
        let (local_peak, remote_peak) = self.memory.take().map_or((0, 0), MemoryWatch::stop);
        Finished {
            status,
            stdout: contents(&self.stdout),
            stderr: contents(&self.stderr),
            text: std::mem::take(&mut self.text),
            took: self.begun.elapsed(),
            local_peak,
            remote_peak,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            tagged(&self.tag).into_iter().for_each(kill);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn contents(file: &File) -> Vec<u8> {
    let len = file.metadata().map_or(0, |meta| meta.len());
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    file.read_exact_at(&mut bytes, 0).expect("a temporary file can be read");
    bytes
}

/// The result of a program.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The standard error.
    pub stderr: Vec<u8>,
    /// The command line.
    pub text: String,
    /// The elapsed time.
    pub took: Duration,
    /// Peak memory of the process in bytes; 0 if it was not measured.
    pub local_peak: u64,
    /// The highest peak memory of its remote ends in bytes; 0 if it was not measured.
    pub remote_peak: u64,
}

impl Finished {
    /// The exit code; `None` if a signal ended the program.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Whether `kill -9` ended it.
    #[must_use]
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(Signal::KILL.as_raw())
    }

    /// The standard output as text.
    #[must_use]
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The standard error as text.
    #[must_use]
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Standard output and standard error as text.
    #[must_use]
    pub fn said(&self) -> String {
        self.err() + &self.out()
    }

    /// Fails unless the exit code is `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert!(self.code() == Some(code), "expected exit code {code}: {self}");
        self
    }

    /// Fails unless the exit code is 0.
    #[track_caller]
    pub fn expect_success(self) -> Self {
        self.expect_code(0)
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tail = |bytes: &[u8]| {
            let from = bytes.len().saturating_sub(4000);
            String::from_utf8_lossy(&bytes[from..]).into_owned()
        };
        let (out, err) = (tail(&self.stdout), tail(&self.stderr));
        write!(f, "{} after {:?}\n{}\nprinted: {out}\nsaid: {err}", self.status, self.took, self.text)
    }
}

/// Reads the peak memory of running processes. The kernel records the peak, so only growth in the last moments before
/// the end is missed.
#[derive(Debug)]
struct MemoryWatch {
    stop: Arc<AtomicBool>,
    remote: Arc<AtomicU64>,
    local: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl MemoryWatch {
    /// With `tag`, also measures the remote ends.
    fn start(local_pid: u32, tag: Option<&String>) -> Self {
        let (stop, local, remote) = (Arc::default(), Arc::default(), Arc::default());
        let watch = (Arc::clone(&stop), Arc::clone(&local), Arc::clone(&remote), tag.cloned());
        let thread = thread::spawn(move || {
            let (stop, local, remote, tag) = watch;
            let mut round = 0u32;
            let mut remote_pids = Vec::new();
            while !AtomicBool::load(&stop, Ordering::Relaxed) {
                if let Some(tag) = tag.as_ref().filter(|_| round.is_multiple_of(10)) {
                    remote_pids = agents(tag);
                }
                AtomicU64::fetch_max(&local, peak(local_pid), Ordering::Relaxed);
                for pid in &remote_pids {
                    AtomicU64::fetch_max(&remote, peak(*pid), Ordering::Relaxed);
                }
                round += 1;
                thread::sleep(Duration::from_millis(10));
            }
        });
        Self { stop, remote, local, thread }
    }

    fn stop(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watching thread does not panic");
        (self.local.load(Ordering::Relaxed), self.remote.load(Ordering::Relaxed))
    }
}

fn peak(pid: u32) -> u64 {
    // Before exec(2) a new process shares the memory of this one, which is larger than any bound.
    let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
    if program(&pid.to_string()) == program("self") {
        return 0;
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
    status.lines().find(|line| line.starts_with("VmHWM:")).and_then(kib).unwrap_or(0) * 1024
}

/// Joins parts of an argument that may contain any byte.
#[must_use]
pub fn joined(parts: &[&[u8]]) -> OsString {
    OsStr::from_bytes(&parts.concat()).to_owned()
}
