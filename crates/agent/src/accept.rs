//! TLS connections on their way into a session: those that the local end makes, and those that this end makes to it.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use haul_core::{Error, ErrorKind, Result, Side};
use haul_transport::{ConnectionKeys, Streams, tcp};
use haul_wire::DirectOffer;

use crate::direct::DirectParameters;
use crate::greeting::read_hello;
use crate::session::{RequestingEnd, ServerSession};

/// How long the TLS handshake may take, and the connection to the local end.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(3);

/// Lets the local end open TLS connections to this process from now on.
pub(crate) fn allow_direct(session: &Arc<ServerSession>, offer: &DirectOffer) {
    let weak = Arc::downgrade(session);
    if let Ok(direct) =
        DirectParameters::open(offer, Box::new(move |streams| take(&weak, streams, RequestingEnd::LocalEnd)))
    {
        session.set_direct(direct);
    }
}

/// Takes a connection into the session. A connection without a valid Hello is dropped.
pub(crate) fn take(session: &Weak<ServerSession>, streams: Streams, caller: RequestingEnd) {
    let Streams { from, to, socket } = streams;
    let Ok((greeting, from)) = read_hello(from) else { return };
    if let (Some(session), Ok(hello)) = (session.upgrade(), greeting.hello)
        && hello.session == Some(session.id)
    {
        // If it fails, the connection ends, and the other end opens another one.
        let _: std::io::Result<()> = session.take_in(Streams { from, to, socket }, caller, None);
    }
}

/// Connects to one of these addresses and takes the connection into the session.
///
/// # Errors
/// [`ErrorKind::Unreachable`] if nobody answers within `timeout`, or the other end does not prove its key.
pub(crate) fn connect(
    session: &Arc<ServerSession>,
    operation: &str,
    addresses: &[SocketAddr],
    credentials: &ConnectionKeys,
    caller: RequestingEnd,
    timeout: Duration,
) -> Result<()> {
    let failed = |cause: String| Error::new(ErrorKind::Unreachable, Side::Wire, operation, cause);
    let streams = tcp::connect_any(addresses, None, timeout)
        .and_then(|socket| credentials.connect(socket, TIMEOUT))
        .map_err(|error| failed(error.to_string()))?;
    let session = Arc::downgrade(session);
    // The other end greets only after it was told that the connection is up, so this must not wait for it.
    let spawned =
        thread::Builder::new().name("haul-greet".to_owned()).spawn(move || take(&session, streams, caller));
    spawned.map(drop).map_err(|error| failed(error.to_string()))
}

/// Connects to the local end, which listens.
///
/// # Errors
/// [`ErrorKind::Unreachable`], as [`connect`].
pub(crate) fn connect_back(session: &Arc<ServerSession>, address: Option<IpAddr>, port: u16) -> Result<()> {
    let operation = "connect back";
    let unprepared = || Error::new(ErrorKind::Unreachable, Side::Wire, operation, "it was not prepared");
    let direct = session.direct().ok_or_else(unprepared)?;
    let mut addresses: Vec<IpAddr> = address.into_iter().chain(direct.local).collect();
    addresses.dedup();
    let addresses: Vec<SocketAddr> = addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
    connect(session, operation, &addresses, &direct.credentials, RequestingEnd::LocalEnd, TIMEOUT)
}
