//! How connections are opened: the contract [`Dial`].

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use haul_core::{Error, IpFamily};
use haul_threads::spawn;
use haul_transport::Streams;
use haul_transport::tcp::TcpInfo;

/// How often to check a greeting in progress.
const LOOK: Duration = Duration::from_millis(250);
/// A first login without a question may take this many timeouts: 150 seconds by default, where sshd allows 120.
pub const LOGIN: u32 = 5;

/// Which connection is being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialPurpose {
    /// The first of a session: ssh may ask the user for a password.
    First,
    /// The first one again, after all were lost. ssh asks no question.
    Again,
    /// A further connection. ssh asks no question.
    Further,
}

/// The consequence of a refusal for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterRefusal {
    /// The login was refused. Another attempt would be refused too, and could get the address banned.
    Login,
    /// A later attempt may succeed.
    Later,
    /// No attempt will succeed.
    Fatal,
}

/// Why a connection was not opened.
#[derive(Clone, Debug)]
pub struct DialRefused {
    /// The consequence for the next attempt.
    pub trouble: AfterRefusal,
    /// The error for the user.
    pub error: Error,
}

/// The process or the socket that carries a connection at this end.
pub trait Helper: Send + Sync {
    /// Ends it at once.
    fn kill(&self);
    /// Waits for its end for a while, then kills it, and collects it in any case.
    fn collect(&self, timeout: Duration);
    /// The last line of its error output; empty if there is none.
    fn last_words(&self) -> String;
    /// Why the greeting failed, according to the process; `None` if that is unknown.
    fn explain(&self) -> Option<DialRefused>;
    /// The connection is up: later error output goes to the user and is no part of an error.
    fn settled(&self) {}
    /// Whether it waits for an answer of the user.
    fn is_asking(&self) -> bool {
        false
    }
    /// The state of the TCP connection, if haul opened it itself.
    fn tcp(&self) -> Option<TcpInfo> {
        None
    }
}

/// A connection before the greeting.
pub struct DialedLink {
    /// Its two directions.
    pub streams: Streams,
    /// The process or socket that carries it.
    pub helper: Option<Arc<dyn Helper>>,
}

/// Opens connections.
pub trait Dial: Send + Sync {
    /// Opens one more connection.
    ///
    /// # Errors
    /// If the attempt fails.
    fn dial(&self, way: DialPurpose) -> Result<DialedLink, DialRefused>;

    /// After [`AfterRefusal::Login`] of a further connection: switches `dial` to another way to open
    /// them. `false`: there is none.
    fn fall_back(&self) -> bool {
        false
    }

    /// Whether the first connection may have to wait for the user.
    fn asks_a_person(&self) -> bool {
        false
    }

    /// The session ends: abandons attempts in progress, and makes no more.
    fn stop(&self) {}

    /// All connections have ended: removes temporary files.
    fn clean(&self) {}

    /// Names or addresses of the remote host, for direct connections.
    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the connections go from this host to one of [`Dial::hosts`] without a proxy.
    fn is_straight(&self) -> bool {
        false
    }

    /// The version of IP that direct connections with the remote end use; `None`: any.
    fn family(&self) -> Option<IpFamily> {
        None
    }

    /// The remote end's name, for people.
    fn name(&self) -> String;
}

impl<D: Dial + ?Sized> Dial for Arc<D> {
    fn dial(&self, way: DialPurpose) -> Result<DialedLink, DialRefused> {
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

    fn family(&self) -> Option<IpFamily> {
        (**self).family()
    }

    fn name(&self) -> String {
        (**self).name()
    }
}

/// Does the `work` of a greeting, and calls `look` from time to time, until the work is done or `look` returns `false`.
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
