//! The program behind `-e`: it runs the far command as a child and changes the messages of that command.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, ExitCode};
use std::sync::{Arc, Mutex};
use std::thread;

use haul_core::{Digest, Outcome};
use haul_wire::{FrameKind, MAX_BODY, Request, Response, decode_body, encode};

use super::changes::{changes, replaced};
use super::frame::{FalseFrame, Frame};
use super::lie::MessageLie;
use super::message::{name_of, parts_of};
use crate::fault::{SshCommand, complain, leave, start_remote, until_hung_up};

/// The answers to content that never reached the remote end.
pub(crate) const CLAIMS: &[&str] = &["stored", "committed", "committed-as", "fewer", "more", "nothing"];

/// Runs as the remote shell: `DIR-OF-PLAN [SSH-OPTION]… HOST COMMAND…`. Ends when the far command does.
#[must_use]
pub fn relay(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let dir = PathBuf::from(arguments.next().unwrap_or_default());
    let call = SshCommand::parse(arguments);
    if !call.is_command() {
        return complain("only commands on a host can be run");
    }
    let lie: Option<MessageLie> = fs::read_to_string(dir.join("lie")).ok().and_then(|text| text.parse().ok());
    let child = start_remote(None, &call);
    let Ok(mut child) = child else { return complain("the far command cannot be run") };
    let (Some(remote_in), Some(mut remote_out)) = (child.stdin.take(), child.stdout.take()) else {
        return complain("the far command has no pipes");
    };
    let liar =
        Arc::new(HaulLiar { lie, dir, state: Mutex::default(), local: Mutex::new(LocalOutput::default()) });
    let up = liar.clone();
    // Detached: it must not hold up the end of the process while it waits for the local end.
    thread::spawn(move || up.pass_up(remote_in));
    liar.pass_down(&mut remote_out);
    match child.wait() {
        Ok(status) => ExitCode::from(status.code().map_or(255, |code| code as u8)),
        Err(error) => complain(&error.to_string()),
    }
}

struct HaulLiar {
    lie: Option<MessageLie>,
    dir: PathBuf,
    state: Mutex<LiarState>,
    local: Mutex<LocalOutput>,
}

#[derive(Default)]
struct LiarState {
    /// Requests that have no answer yet.
    open: BTreeSet<u64>,
    /// The last that has one.
    answered: u64,
    /// How many parts with the key of the lie have passed.
    seen: u64,
}

/// The output to the local end.
#[derive(Default)]
struct LocalOutput {
    /// To be sent after the next frame.
    held: Vec<u8>,
}

impl LocalOutput {
    fn send(&mut self, bytes: &[u8]) {
        let mut out = io::stdout().lock();
        let held = std::mem::take(&mut self.held);
        if out.write_all(bytes).and_then(|()| out.write_all(&held)).and_then(|()| out.flush()).is_err() {
            leave();
        }
    }
}

impl HaulLiar {
    /// Passes on the frames of the local end, except content whose arrival the lie claims.
    fn pass_up(&self, mut remote: ChildStdin) {
        let mut local = io::stdin().lock();
        while let Ok(Some(frame)) = Frame::read(&mut local) {
            if frame.kind == FrameKind::Request {
                self.state.lock().unwrap().open.insert(frame.id);
                if let Some(answer) = self.claim(&frame) {
                    self.local.lock().unwrap().send(&answer);
                    continue;
                }
            }
            if remote.write_all(&frame.bytes()).and_then(|()| remote.flush()).is_err() {
                return;
            }
        }
    }

    fn pass_down(&self, remote: &mut impl Read) {
        let mut messages = OpenOptions::new().append(true).create(true).open(self.dir.join("messages")).ok();
        while let Ok(Some(frame)) = Frame::read(remote) {
            if self.lie.is_none() {
                record(&mut messages, &frame);
            }
            let told = self.retell(frame);
            let mut local = self.local.lock().unwrap();
            match told {
                FalseFrame::Bytes(bytes) => local.send(&bytes),
                FalseFrame::Later(bytes) => local.held = bytes,
                FalseFrame::Cut(bytes) => {
                    local.send(&bytes);
                    leave();
                }
                FalseFrame::Silence => {
                    until_hung_up(&io::stdout());
                    leave();
                }
                FalseFrame::Flood(bytes, times, end) => {
                    (0..times).for_each(|_| local.send(&bytes));
                    local.send(&end);
                }
            }
        }
        // Sends the bytes that are still held.
        self.local.lock().unwrap().send(&[]);
    }

    /// Whether the next part with the key is the one, or one of those, that is changed.
    fn is_now(&self, lie: &MessageLie) -> bool {
        let number = {
            let mut state = self.state.lock().unwrap();
            state.seen += 1;
            state.seen - 1
        };
        // Once in a run, whichever connection it is on.
        let tell = || OpenOptions::new().write(true).create_new(true).open(self.dir.join("told")).is_ok();
        match lie.at {
            None => {
                tell();
                true
            }
            Some(at) => at == number && tell(),
        }
    }

    fn retell(&self, mut frame: Frame) -> FalseFrame {
        let (old, other) = {
            let mut state = self.state.lock().unwrap();
            let known = state.open.remove(&frame.id);
            let other = state.open.iter().copied().find(|id| *id != frame.id).unwrap_or(frame.id + 1);
            let old = state.answered;
            if known {
                state.answered = frame.id;
            }
            (old, other)
        };
        let Some(lie) = &self.lie else { return FalseFrame::Bytes(frame.bytes()) };
        let welcome = frame.kind == FrameKind::Welcome;
        if !welcome && frame.kind != FrameKind::Response {
            return FalseFrame::Bytes(frame.bytes());
        }
        let parts = parts_of(welcome, &frame.body);
        if let Some(name) = lie.key.strip_prefix("Frame.") {
            if name == name_of(welcome, &parts) && self.is_now(lie) {
                return frame.told(&lie.change, old, other);
            }
            return FalseFrame::Bytes(frame.bytes());
        }
        let mut chosen: Vec<_> = parts.iter().filter(|part| part.key == lie.key).collect();
        chosen.retain(|_| self.is_now(lie));
        // From the last on, so that those before it stay where they are.
        for part in chosen.into_iter().rev() {
            let all = changes(part, &frame.body);
            if let Some((_, bytes)) = all.iter().find(|(name, _)| *name == lie.change) {
                // Larger ones have lies of their own; and this process is measured with the local end.
                if frame.body.len() + bytes.len() <= MAX_BODY {
                    frame.body = replaced(&frame.body, &part.at, bytes);
                }
            }
        }
        FalseFrame::Bytes(frame.bytes())
    }

    /// The answer to content that is dropped here, if that is the lie.
    fn claim(&self, frame: &Frame) -> Option<Vec<u8>> {
        let lie = self.lie.as_ref().filter(|lie| lie.key == "Claim.Write")?;
        let Ok(Request::Write { slices, .. }) = decode_body(&frame.body) else { return None };
        if !self.is_now(lie) {
            return None;
        }
        let committed = |digest| vec![Ok(Outcome::Committed(digest)); slices.len()];
        let mut outcomes = match &*lie.change {
            "stored" => vec![Ok(Outcome::Stored); slices.len()],
            "committed-as" => committed(Some(Digest([7; 32]))),
            "nothing" => Vec::new(),
            _ => committed(None),
        };
        match &*lie.change {
            "fewer" => drop(outcomes.pop()),
            "more" => outcomes.push(Ok(Outcome::Stored)),
            _ => {}
        }
        self.state.lock().unwrap().open.remove(&frame.id);
        encode(FrameKind::Response, frame.id, &Response::Write(outcomes), 0).ok()
    }
}

fn record(messages: &mut Option<File>, frame: &Frame) {
    let kind = match frame.kind {
        FrameKind::Welcome => 2,
        FrameKind::Response => 4,
        FrameKind::Hello | FrameKind::Request | FrameKind::Ping => return,
    };
    let len = (frame.body.len() as u32).to_le_bytes();
    if let Some(file) = messages {
        let _ = file.write_all(&[&[kind], &len[..], &frame.body].concat());
    }
}
