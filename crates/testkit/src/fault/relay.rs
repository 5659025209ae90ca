//! The program behind `-e`: runs the remote command as a child, and relays with one thread for each direction.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::plan::{ByteDirection, FLIPS, FRAME_MARK, FaultPlan, LinkFault};

/// The exit code of ssh without a connection.
const NO_CONNECTION: u8 = 255;

/// Options of ssh that take a value.
const WITH_VALUE: &[u8] = b"BbcDEeFIiJLlmOopQRSWw";

/// The command line of ssh.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SshCommand {
    /// Queries or starts a control master only.
    control: bool,
    /// The command is the name of a subsystem.
    subsystem: bool,
    host: OsString,
    command: Vec<OsString>,
}

impl SshCommand {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Self {
        let mut call = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_bytes() {
                b"--" => call.host = arguments.next().unwrap_or_default(),
                [b'-', options @ ..] => {
                    for (at, option) in options.iter().enumerate() {
                        call.control |= b"OMNG".contains(option);
                        call.subsystem |= *option == b's';
                        if WITH_VALUE.contains(option) {
                            if at + 1 == options.len() {
                                arguments.next();
                            }
                            break;
                        }
                    }
                    continue;
                }
                _ => call.host = argument,
            }
            break;
        }
        call.command = arguments.collect();
        if call.command.first().is_some_and(|word| word == "--") {
            call.command.remove(0);
        }
        call
    }

    /// Whether it runs a command on a host.
    pub(crate) fn is_command(&self) -> bool {
        !self.control && !self.host.is_empty() && !self.command.is_empty()
    }
}

/// Runs as the remote shell: `DIR-OF-PLAN [SSH-OPTION]… HOST COMMAND…`. Ends with the remote command.
#[must_use]
pub fn relay(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let dir = arguments.next().unwrap_or_default();
    let dir = Path::new(&dir);
    let Some(plan) = fs::read_to_string(dir.join("plan")).ok().and_then(|text| FaultPlan::parse(dir, &text))
    else {
        return complain("the plan cannot be read");
    };
    let call = SshCommand::parse(arguments);
    if !call.is_command() {
        return complain("only commands on a host can be run");
    }
    let Some((number, note)) = take_number(dir) else { return complain("no number can be taken") };
    let (up, down) = (plan.of(number, ByteDirection::Up), plan.of(number, ByteDirection::Down));
    if up.contains(&LinkFault::Refuse) || down.contains(&LinkFault::Refuse) {
        return complain("connection refused");
    }
    match start(plan.through.as_deref(), &call) {
        Ok(child) => run(child, note, dir, &up, &down),
        Err(error) => complain(&error.to_string()),
    }
}

pub(crate) fn complain(why: &str) -> ExitCode {
    // An error of this write cannot be reported.
    let _ = writeln!(io::stderr(), "fault shell: {why}");
    ExitCode::from(NO_CONNECTION)
}

/// The number of this connection and its file.
fn take_number(dir: &Path) -> Option<(u32, File)> {
    (1..10_000).find_map(|number| {
        let path = dir.join(format!("connection-{number}"));
        let file = OpenOptions::new().write(true).create_new(true).open(path).ok()?;
        Some((number, file))
    })
}

pub(crate) fn start(through: Option<&str>, call: &SshCommand) -> io::Result<Child> {
    let mut command = if let Some(ssh) = through {
        let mut words = ssh.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("ssh"));
        command.args(words);
        if call.subsystem {
            command.arg("-s");
        }
        command.arg(&call.host).args(&call.command);
        command
    } else if call.subsystem {
        Command::new(crate::sshd::sftp_server())
    } else {
        let mut command = Command::new("sh");
        command.arg("-c").arg(call.command.join(OsStr::new(" ")));
        if let Some(home) = std::env::var_os("HOME") {
            command.current_dir(home);
        }
        command
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

fn run(mut child: Child, mut note: File, dir: &Path, up: &[LinkFault], down: &[LinkFault]) -> ExitCode {
    let _ = writeln!(note, "{} {}", std::process::id(), child.id());
    let open = || OpenOptions::new().append(true).create(true).open(dir.join(FLIPS));
    let (Ok(up_flips), Ok(down_flips)) = (open(), open()) else { return complain("flips cannot be noted") };
    let (Some(remote_in), Some(remote_out)) = (child.stdin.take(), child.stdout.take()) else {
        return complain("the far command has no pipes");
    };
    let (ended, end): (Sender<RelayEnd>, Receiver<RelayEnd>) = channel();
    thread::scope(|scope| {
        let at_end = ended.clone();
        let up = up.to_vec();
        // Detached: a thread that waits for bytes of the local end must not delay the exit.
        thread::spawn(move || {
            let how = pump(&mut io::stdin(), remote_in, &up, up_flips);
            // A remote command that no longer reads ends by itself, with its own status.
            let _ = at_end.send(if how == RelayEnd::Cut { RelayEnd::Cut } else { RelayEnd::LocalIsDone });
        });
        scope.spawn(move || {
            let how = pump(&mut { remote_out }, io::stdout(), down, down_flips);
            let _ = ended.send(how);
        });
        loop {
            match end.recv() {
                Ok(RelayEnd::LocalIsDone) => {}
                Ok(RelayEnd::Done) => break,
                // Exiting closes both pipes, like a lost connection.
                Ok(RelayEnd::Cut | RelayEnd::Deaf) | Err(_) => leave(),
            }
        }
    });
    match child.wait() {
        Ok(status) => ExitCode::from(status.code().map_or(NO_CONNECTION, |code| code as u8)),
        Err(error) => complain(&error.to_string()),
    }
}

#[expect(clippy::exit, reason = "a cut connection must not wait for the threads that still hold its pipes")]
pub(crate) fn leave() -> ! {
    std::process::exit(i32::from(NO_CONNECTION))
}

/// Why a direction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RelayEnd {
    /// End of input from the local end.
    LocalIsDone,
    /// End of output of the remote end.
    Done,
    /// A fault cuts the connection.
    Cut,
    /// The reader has gone.
    Deaf,
}

/// Relays bytes until their end or a fault. Dropping `to` closes it. Writes a byte to `flips` for each flipped byte.
fn pump(from: &mut impl Read, mut to: impl Write + AsFd, faults: &[LinkFault], mut flips: File) -> RelayEnd {
    let mut block = vec![0; 64 * 1024];
    let mut offset = 0u64;
    let mut headers = Headers::default();
    loop {
        let mut want = block.len() as u64;
        for fault in faults {
            match *fault {
                LinkFault::Cut(at) if at <= offset => return RelayEnd::Cut,
                LinkFault::Stall(at) if at <= offset => {
                    until_hung_up(&to);
                    return RelayEnd::Cut;
                }
                LinkFault::Cut(at) | LinkFault::Stall(at) => want = want.min(at - offset),
                // At least fifty blocks per second, for an even flow.
                LinkFault::Rate(bytes) => want = want.min(bytes.div_ceil(50)),
                LinkFault::Flip(_) | LinkFault::FlipHeader(_) | LinkFault::Delay(_) | LinkFault::Refuse => {}
            }
        }
        let len = match from.read(&mut block[..want as usize]) {
            Ok(0) => return RelayEnd::Done,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return RelayEnd::Cut,
        };
        let mut pause = Duration::ZERO;
        for fault in faults {
            match *fault {
                LinkFault::Flip(at) if (offset..offset + len as u64).contains(&at) => {
                    block[(at - offset) as usize] ^= 0xff;
                    let _ = flips.write_all(b"x");
                }
                LinkFault::FlipHeader(number) if headers.flip(number, &mut block[..len]) => {
                    let _ = flips.write_all(b"x");
                }
                LinkFault::Rate(bytes) => {
                    pause += Duration::from_micros(len as u64 * 1_000_000 / bytes.max(1));
                }
                LinkFault::Delay(milliseconds) => pause += Duration::from_millis(milliseconds),
                _ => {}
            }
        }
        thread::sleep(pause);
        if to.write_all(&block[..len]).and_then(|()| to.flush()).is_err() {
            return RelayEnd::Deaf;
        }
        offset += len as u64;
    }
}

/// Finds the headers of frames in a stream of blocks.
#[derive(Default)]
struct Headers {
    /// The number of marks so far.
    seen: u64,
    /// The number of bytes of a mark that have just passed.
    matched: usize,
    /// Whether to flip the next byte.
    armed: bool,
}

impl Headers {
    /// Flips the byte after the mark of frame `number`. Returns whether it was in this block.
    fn flip(&mut self, number: u64, block: &mut [u8]) -> bool {
        let mut flipped = false;
        for byte in block {
            if std::mem::take(&mut self.armed) {
                *byte ^= 0xff;
                flipped = true;
            }
            self.matched = match self.matched {
                at if *byte == FRAME_MARK[at] => at + 1,
                _ => usize::from(*byte == FRAME_MARK[0]),
            };
            if self.matched == FRAME_MARK.len() {
                self.matched = 0;
                self.seen += 1;
                self.armed = self.seen == number;
            }
        }
        flipped
    }
}

/// Waits until the local end or the receiver has hung up.
pub(crate) fn until_hung_up(to: &impl AsFd) {
    let (local_in, local_out) = (io::stdin(), io::stdout());
    let mut watched = [
        PollFd::new(&local_in, PollFlags::empty()),
        PollFd::new(&local_out, PollFlags::empty()),
        PollFd::new(to, PollFlags::empty()),
    ];
    while poll(&mut watched, None) == Err(rustix::io::Errno::INTR) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(words: &str) -> SshCommand {
        SshCommand::parse(words.split(' ').map(OsString::from))
    }

    #[test]
    fn finds_headers_across_blocks() {
        let mut headers = Headers::default();
        let mut blocks = [b"\x89hl\x01a..\x89h".to_vec(), b"l\x01b\x89\x89hl\x01c".to_vec()];
        for block in &mut blocks {
            headers.flip(2, block);
        }
        assert_eq!((blocks[0][4], blocks[1][2], blocks[1][8]), (b'a', b'b' ^ 0xff, b'c'));
    }

    #[test]
    fn reads_the_command_line_of_an_ssh() {
        let plain = call("-p 22 -oBatchMode=yes -o X=y -Tax me@host haul agent");
        assert_eq!((plain.host.as_bytes(), plain.command.len(), plain.control), (&b"me@host"[..], 2, false));
        assert_eq!(call("-- host -- haul agent").command.len(), 2);
        assert!(call("-O check -S /x host").control && call("-MNf host").control);
    }
}
