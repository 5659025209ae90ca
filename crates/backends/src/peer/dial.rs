//! How a lane comes to be: the contract of what opens one, and the greeting on it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use haul_core::path::printable;
use haul_core::{Error, ErrorKind, Side};
use haul_threads::spawn;
use haul_transport::tcp::TcpInfo;
use haul_transport::{FrameReader, FrameWriter, LinkError, Pulse, Streams};
use haul_wire::{
    FrameError, HEADER_LEN, Header, Hello, Kind, VERSION, Welcome, decode_body, encode, peek_version,
};

/// How often a greeting is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// A first login in which nobody is asked for anything may take so many timeouts: by default 150 seconds, where sshd gives
/// 120.
pub(crate) const LOGIN: u32 = 5;

/// Which lane is being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The first of a session: a person may be asked for a password.
    First,
    /// The first again, after all were lost. Nobody is asked.
    Again,
    /// One more beside those that there are. Nobody is asked.
    Further,
}

/// What a refusal means for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The login was refused; it would be again, and trying could get the address banned.
    Login,
    /// It may work later.
    Later,
    /// It will not work.
    Fatal,
}

/// Why there is no lane.
#[derive(Clone, Debug)]
pub struct Refused {
    /// What it means for the next attempt.
    pub trouble: Trouble,
    /// What a person is told.
    pub error: Error,
}

/// What carries a lane at our end: a process, or a socket.
pub trait Helper: Send + Sync {
    /// Ends it at once.
    fn kill(&self);
    /// Gives it time to end by itself, then ends it; collects it in any case.
    fn collect(&self, patience: Duration);
    /// The last that it said of itself; empty if nothing.
    fn last_words(&self) -> String;
    /// Why the greeting failed, as the process tells it after its end; `None` if it does not know.
    fn explain(&self) -> Option<Refused>;
    /// The lane is up: what is said from now on is for the person, not part of an error.
    fn settled(&self) {}
    /// Whether a person is being asked for something.
    fn is_asking(&self) -> bool {
        false
    }
    /// What the kernel knows of the connection, where it is one of ours.
    fn tcp(&self) -> Option<TcpInfo> {
        None
    }
}

/// A lane before the greeting.
pub struct Link {
    /// Its two directions.
    pub streams: Streams,
    /// What carries it.
    pub helper: Option<Arc<dyn Helper>>,
}

/// Opens lanes.
pub trait Dial: Send + Sync {
    /// Opens one more lane.
    ///
    /// # Errors
    /// If it cannot be tried at all.
    fn dial(&self, way: Way) -> Result<Link, Refused>;

    /// After [`Trouble::Login`] of a further lane: whether there is another way to open them, which `dial` takes
    /// from now on.
    fn fall_back(&self) -> bool {
        false
    }

    /// Whether the first lane may have to wait for a person, who takes as long as they like.
    fn asks_a_person(&self) -> bool {
        false
    }

    /// The session ends: attempts that are under way are given up, and no more are made.
    fn stop(&self) {}

    /// All lanes have ended: what was made for them is removed.
    fn clean(&self) {}

    /// Names or addresses under which the far end may be reached without what carries the lanes.
    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether what carries the lanes goes to one of [`Dial::hosts`] straight from this machine.
    fn is_straight(&self) -> bool {
        false
    }

    /// The far end's name, for people.
    fn name(&self) -> String;
}

impl<D: Dial + ?Sized> Dial for Arc<D> {
    fn dial(&self, way: Way) -> Result<Link, Refused> {
        (**self).dial(way)
    }

    fn fall_back(&self) -> bool {
        (**self).fall_back()
    }

    fn asks_a_person(&self) -> bool {
        (**self).asks_a_person()
    }

    fn stop(&self) {
        (**self).stop();
    }

    fn clean(&self) {
        (**self).clean();
    }

    fn hosts(&self) -> Vec<String> {
        (**self).hosts()
    }

    fn is_straight(&self) -> bool {
        (**self).is_straight()
    }

    fn name(&self) -> String {
        (**self).name()
    }
}

/// A lane after the greeting.
pub(super) struct Greeted {
    pub(super) reader: FrameReader,
    pub(super) writer: FrameWriter,
    pub(super) pulse: Arc<Pulse>,
    pub(super) helper: Option<Arc<dyn Helper>>,
    pub(super) welcome: Welcome,
}

/// Sends Hello and waits for the Welcome.
///
/// The other end may take `limit` for its answer; where `asks`, as in a first login, [`LOGIN`] times as long, and as long
/// as a person is being asked for something.
pub(super) fn greet(
    link: Link,
    hello: &Hello,
    limit: Duration,
    asks: bool,
    name: &str,
) -> Result<Greeted, Refused> {
    let helper = link.helper.clone();
    let pulse = Arc::new(Pulse::default());
    pulse.end_after(Some(limit));
    let result = match helper.clone().filter(|_| asks) {
        Some(helper) => {
            let limit = limit.saturating_mul(LOGIN);
            pulse.end_after(Some(limit));
            let looked = pulse.clone();
            let look = move || {
                if helper.is_asking() {
                    looked.end_after(Some(limit));
                }
                true
            };
            watched(look, || try_greet(link, hello, pulse, name))
                .unwrap_or_else(|error| Err(Refused { trouble: Trouble::Later, error }))
        }
        None => try_greet(link, hello, pulse, name),
    };
    if result.is_err()
        && let Some(helper) = &helper
    {
        helper.kill();
        helper.collect(Duration::ZERO);
    }
    result
}

/// Does the `work` of a greeting, and has it looked at from time to time until it is done or `look` has seen enough.
///
/// # Errors
/// If the system refuses a thread.
pub(crate) fn watched<T>(
    mut look: impl FnMut() -> bool + Send,
    work: impl FnOnce() -> T,
) -> haul_core::Result<T> {
    thread::scope(|scope| {
        let (_done, waits) = crossbeam_channel::bounded::<()>(0);
        spawn(
            scope,
            "greet",
            move || {
                while waits.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) && look() {}
            },
        )?;
        Ok(work())
    })
}

fn try_greet(link: Link, hello: &Hello, pulse: Arc<Pulse>, name: &str) -> Result<Greeted, Refused> {
    let refused = |trouble, error| Refused { trouble, error };
    let mut reader = FrameReader::new(link.streams.from, pulse.clone());
    let mut writer = FrameWriter::new(link.streams.to, pulse.clone());
    let frame = encode(Kind::Hello, 0, hello, 0).map_err(|error| refused(Trouble::Fatal, error.into()))?;
    // A far end that ended at once may have said why: the answer to that is in what is read.
    let _ = writer.write(&frame, &[]);
    let mut head = [0; HEADER_LEN];
    let filled = reader.fill(&mut head).map_err(LinkError::Io);
    let answer = filled.and_then(|filled| reader.body(&head, filled));
    let (header, body) = match answer {
        Ok(answer) => answer,
        Err(LinkError::Frame(FrameError::Magic)) => return Err(strange(&mut reader, &head, &pulse, name)),
        Err(_) if pulse.is_ended() => {
            let error =
                Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", "it did not answer in time");
            return Err(refused(Trouble::Later, error.on(name)));
        }
        Err(error) => {
            let told = link.helper.as_ref().and_then(|helper| helper.explain());
            return Err(told.unwrap_or_else(|| refused(Trouble::Later, error.into_error().on(name))));
        }
    };
    let protocol = |why: String| Error::new(ErrorKind::Protocol, Side::Wire, "talk to haul at", why).on(name);
    let spoken = if header.kind == Kind::Welcome { peek_version(&body) } else { None };
    let Some((version, release)) = spoken else {
        return Err(refused(Trouble::Fatal, protocol("it did not greet".to_owned())));
    };
    if version != VERSION {
        let why = format!(
            "haul {release} there speaks protocol {version}, haul {} here speaks protocol {VERSION}",
            hello.release
        );
        let hint =
            "install the same version at both ends, or name another one there with `--remote-haul PATH`";
        return Err(refused(Trouble::Fatal, protocol(why).with_hint(hint)));
    }
    let welcome: Welcome =
        decode_body(&body).map_err(|error| refused(Trouble::Fatal, Error::from(error).on(name)))?;
    pulse.end_after(None);
    Ok(Greeted { reader, writer, pulse, helper: link.helper, welcome })
}

/// The far end said something that is not ours.
fn strange(reader: &mut FrameReader, head: &[u8], pulse: &Pulse, name: &str) -> Refused {
    // The line that begins here is on its way as a whole; more is not worth waiting for.
    pulse.end_after(Some(Duration::from_millis(300)));
    let mut said = [0; 128];
    said[..head.len()].copy_from_slice(head);
    let _ = reader.fill(&mut said[head.len()..]);
    let end = said.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
    // The greeting itself may follow.
    let ours = said.windows(4).position(|bytes| Header::check_prefix(bytes).is_ok());
    let shown = printable(said[..ours.unwrap_or(end)].trim_ascii_end());
    let error = Error::new(
        ErrorKind::Protocol,
        Side::Wire,
        "talk to haul at",
        format!("instead of a greeting it sent `{shown}`"),
    )
    .on(name)
    .with_hint(
        "a login script there prints something (look at ~/.bashrc); it must be silent for ssh commands",
    );
    Refused { trouble: Trouble::Fatal, error }
}
