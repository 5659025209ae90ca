//! Lanes that do not go through ssh: TLS over TCP, between two ends that told each other their keys over ssh.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use haul_core::{Error, ErrorKind, Result, Side};
use haul_transport::{Credentials, Identity, Listener, Ports, Streams, tcp};
use haul_wire::{DirectAnswer, DirectOffer};

use crate::hub::Hub;
use crate::pairs::Guest;
use crate::read_hello;

/// How long connecting to the near end may take, and how long proving it.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a session has for direct lanes.
pub(crate) struct Direct {
    pub(crate) credentials: Credentials,
    /// The ports that may be listened on.
    pub(crate) ports: Option<Ports>,
    /// Where ssh came from.
    near: Option<IpAddr>,
    pub(crate) answer: DirectAnswer,
    /// Listens for as long as the session lives.
    _listener: Option<Listener>,
}

impl Direct {
    /// Listens for the near end.
    ///
    /// # Errors
    /// If there is no key to be had.
    pub(crate) fn open(offer: &DirectOffer, hub: &Arc<Hub>) -> Result<Self> {
        let identity = Identity::generate()?;
        let key = identity.public_key().clone();
        let congestion = offer.congestion.clone();
        let credentials = Credentials { identity, peer: offer.key.clone(), congestion };
        let (near, address) = ssh_addresses();
        let ports = offer.ports.map(|(first, last)| Ports { first, last });
        let listener = listen(offer, ports, (address, near), &credentials, hub);
        let (port, listener) = match listener {
            Ok(listener) => (Ok(listener.port()), Some(listener)),
            Err(error) => (Err(error.to_string()), None),
        };
        let answer = DirectAnswer { key, port, address };
        Ok(Self { credentials, ports, near, answer, _listener: listener })
    }
}

fn listen(
    offer: &DirectOffer,
    ports: Option<Ports>,
    (address, near): (Option<IpAddr>, Option<IpAddr>),
    credentials: &Credentials,
    hub: &Arc<Hub>,
) -> std::io::Result<Listener> {
    if let Some(name) = &offer.congestion {
        tcp::check_congestion(name).map_err(|error| {
            std::io::Error::other(format!("congestion control `{name}` cannot be had there: {error}"))
        })?;
    }
    let hub = Arc::downgrade(hub);
    let taken = Box::new(move |streams| take(&hub, streams, None));
    Listener::open(address, ports, near.as_slice(), credentials.clone(), taken)
}

/// Takes a lane into the session, that of the near end or of a guest. What does not greet is dropped.
pub(crate) fn take(hub: &Weak<Hub>, streams: Streams, guest: Option<Arc<Guest>>) {
    let Streams { from, to, socket } = streams;
    let Ok((greeting, from)) = read_hello(from) else { return };
    if let (Some(hub), Ok(hello)) = (hub.upgrade(), greeting.hello)
        && hello.session == Some(hub.session)
    {
        // Its failure is the end of the lane; the near end opens others.
        let _: std::io::Result<()> = hub.take_in(Streams { from, to, socket }, guest, None);
    }
}

/// Connects to the near end, which listens.
pub(crate) fn connect(hub: &Arc<Hub>, address: Option<IpAddr>, port: u16) -> Result<()> {
    let failed = |cause: String| Error::new(ErrorKind::Unreachable, Side::Wire, "connect back", cause);
    let direct = hub.direct().ok_or_else(|| failed("it was not prepared".to_owned()))?;
    let mut addresses: Vec<IpAddr> = address.into_iter().chain(direct.near).collect();
    addresses.dedup();
    let addresses: Vec<SocketAddr> = addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
    let streams = tcp::connect_any(&addresses, None, PATIENCE)
        .and_then(|socket| direct.credentials.connect(socket, PATIENCE))
        .map_err(|error| failed(error.to_string()))?;
    let hub = Arc::downgrade(hub);
    // The near end greets only when it has heard that we are through.
    let spawned =
        std::thread::Builder::new().name("haul-greet".to_owned()).spawn(move || take(&hub, streams, None));
    spawned.map(drop).map_err(|error| failed(error.to_string()))
}

/// Where ssh came from and which of our addresses it came to, as sshd tells it (`SSH_CONNECTION`, ssh(1)).
fn ssh_addresses() -> (Option<IpAddr>, Option<IpAddr>) {
    let told = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let mut words = told.split(' ');
    let near = words.next().and_then(|word| word.parse().ok());
    (near, words.nth(1).and_then(|word| word.parse().ok()))
}
