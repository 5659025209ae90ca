//! How a connection comes to be: the contract of what opens one.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use haul_core::Error;
use haul_threads::spawn;
use haul_transport::Streams;
use haul_transport::tcp::TcpInfo;

/// How often a greeting is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// A first login in which nobody is asked for anything may take so many timeouts: by default 150 seconds, where sshd gives
/// 120.
pub const LOGIN: u32 = 5;

/// Which connection is being opened.
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

/// Why there is no connection.
#[derive(Clone, Debug)]
pub struct Refused {
    /// What it means for the next attempt.
    pub trouble: Trouble,
    /// What a person is told.
    pub error: Error,
}

/// What carries a connection at our end: a process, or a socket.
pub trait Helper: Send + Sync {
    /// Ends it at once.
    fn kill(&self);
    /// Gives it time to end by itself, then ends it; collects it in any case.
    fn collect(&self, patience: Duration);
    /// The last that it said of itself; empty if nothing.
    fn last_words(&self) -> String;
    /// Why the greeting failed, as the process tells it after its end; `None` if it does not know.
    fn explain(&self) -> Option<Refused>;
    /// The connection is up: what is said from now on is for the person, not part of an error.
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

/// A connection before the greeting.
pub struct Link {
    /// Its two directions.
    pub streams: Streams,
    /// What carries it.
    pub helper: Option<Arc<dyn Helper>>,
}

/// Opens connections.
pub trait Dial: Send + Sync {
    /// Opens one more connection.
    ///
    /// # Errors
    /// If it cannot be tried at all.
    fn dial(&self, way: Way) -> Result<Link, Refused>;

    /// After [`Trouble::Login`] of a further connection: whether there is another way to open them, which `dial` takes
    /// from now on.
    fn fall_back(&self) -> bool {
        false
    }

    /// Whether the first connection may have to wait for a person, who takes as long as they like.
    fn asks_a_person(&self) -> bool {
        false
    }

    /// The session ends: attempts that are under way are given up, and no more are made.
    fn stop(&self) {}

    /// All connections have ended: what was made for them is removed.
    fn clean(&self) {}

    /// Names or addresses under which the remote end may be reached without what carries the connections.
    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether what carries the connections goes to one of [`Dial::hosts`] straight from this machine.
    fn is_straight(&self) -> bool {
        false
    }

    /// The remote end's name, for people.
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

/// Does the `work` of a greeting, and has it looked at from time to time until it is done or `look` has seen enough.
///
/// # Errors
/// If the system refuses a thread.
pub fn watched<T>(mut look: impl FnMut() -> bool + Send, work: impl FnOnce() -> T) -> haul_core::Result<T> {
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
