//! Connections that do not go through ssh: TLS over TCP, between two ends that told each other their keys over ssh.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Weak};
use std::time::Duration;

use haul_core::{Error, ErrorKind, Result, Side};
use haul_transport::listener::Taken;
use haul_transport::{Credentials, Identity, Listener, Ports, Streams, tcp};
use haul_wire::{DirectAnswer, DirectOffer, MAX_ADDRESSES};

use crate::hub::Hub;
use crate::pairs::Guest;
use crate::read_hello;

/// How long connecting to the local end may take, and how long proving it.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a session has for direct connections.
pub(crate) struct Direct {
    pub(crate) credentials: Credentials,
    /// The ports that may be listened on.
    pub(crate) ports: Option<Ports>,
    /// Where ssh came from, as far as that is known.
    local: Option<IpAddr>,
    pub(crate) answer: DirectAnswer,
    /// Listens for as long as the session lives.
    listener: Option<Listener>,
}

impl Direct {
    /// Listens for the local end.
    ///
    /// # Errors
    /// If there is no key to be had.
    pub(crate) fn open(offer: &DirectOffer, hub: &Arc<Hub>) -> Result<Self> {
        let identity = Identity::generate()?;
        let key = identity.public_key().clone();
        let congestion = offer.congestion.clone();
        let credentials = Credentials { identity, peer: offer.key.clone(), congestion };
        let (local, address) = ssh_addresses(&std::env::var("SSH_CONNECTION").unwrap_or_default());
        let local = local.or(offer.from);
        let address = address.or_else(|| own_address(&offer.at));
        let ports = offer.ports.map(|(first, last)| Ports { first, last });
        let answer = DirectAnswer { key, port: Err(String::new()), address };
        let mut own = Self { credentials, ports, local, answer, listener: None };
        match own.listen_for(offer, hub) {
            Ok(listener) => {
                own.answer.port = Ok(listener.port());
                own.listener = Some(listener);
            }
            Err(error) => own.answer.port = Err(error.to_string()),
        }
        Ok(own)
    }

    fn listen_for(&self, offer: &DirectOffer, hub: &Arc<Hub>) -> io::Result<Listener> {
        if let Some(name) = &offer.congestion {
            tcp::check_congestion(name).map_err(|error| {
                io::Error::other(format!("congestion control `{name}` cannot be had there: {error}"))
            })?;
        }
        // With `--bind` it may come from another address than ssh did.
        let expected: Vec<IpAddr> = self.local.into_iter().chain(offer.from).collect();
        let hub = Arc::downgrade(hub);
        let taken = Box::new(move |streams| take(&hub, streams, None));
        self.listen(&expected, self.credentials.clone(), taken)
    }

    /// Listens for who has the key in `credentials`, who is expected from one of these addresses.
    pub(crate) fn listen(
        &self,
        expected: &[IpAddr],
        credentials: Credentials,
        taken: Taken,
    ) -> io::Result<Listener> {
        Listener::open(self.address()?, self.ports, expected, credentials, taken)
    }

    /// The address to listen on. Without one nothing is opened: all addresses of a machine may be more than those that
    /// its users mean to show to others.
    ///
    /// # Errors
    /// If it is not known.
    pub(crate) fn address(&self) -> io::Result<IpAddr> {
        let unknown = "it is not known which of its addresses ssh came to";
        self.answer.address.ok_or_else(|| io::Error::other(unknown))
    }
}

/// The first of these that is an address of this machine.
fn own_address(told: &[IpAddr]) -> Option<IpAddr> {
    let is_own = |ip: &IpAddr| !ip.is_unspecified() && UdpSocket::bind((*ip, 0)).is_ok();
    told.iter().take(MAX_ADDRESSES).copied().find(is_own)
}

/// Takes a connection into the session, that of the local end or of a guest. What does not greet is dropped.
pub(crate) fn take(hub: &Weak<Hub>, streams: Streams, guest: Option<Arc<Guest>>) {
    let Streams { from, to, socket } = streams;
    let Ok((greeting, from)) = read_hello(from) else { return };
    if let (Some(hub), Ok(hello)) = (hub.upgrade(), greeting.hello)
        && hello.session == Some(hub.session)
    {
        // Its failure is the end of the connection; the local end opens others.
        let _: std::io::Result<()> = hub.take_in(Streams { from, to, socket }, guest, None);
    }
}

/// Connects to the local end, which listens.
pub(crate) fn connect(hub: &Arc<Hub>, address: Option<IpAddr>, port: u16) -> Result<()> {
    let failed = |cause: String| Error::new(ErrorKind::Unreachable, Side::Wire, "connect back", cause);
    let direct = hub.direct().ok_or_else(|| failed("it was not prepared".to_owned()))?;
    let mut addresses: Vec<IpAddr> = address.into_iter().chain(direct.local).collect();
    addresses.dedup();
    let addresses: Vec<SocketAddr> = addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
    let streams = tcp::connect_any(&addresses, None, PATIENCE)
        .and_then(|socket| direct.credentials.connect(socket, PATIENCE))
        .map_err(|error| failed(error.to_string()))?;
    let hub = Arc::downgrade(hub);
    // The local end greets only when it has heard that we are through.
    let spawned =
        std::thread::Builder::new().name("haul-greet".to_owned()).spawn(move || take(&hub, streams, None));
    spawned.map(drop).map_err(|error| failed(error.to_string()))
}

/// Where ssh came from and which of our addresses it came to, as sshd tells it (`SSH_CONNECTION`, ssh(1)).
fn ssh_addresses(told: &str) -> (Option<IpAddr>, Option<IpAddr>) {
    let mut words = told.split(' ');
    let local = words.next().and_then(|word| word.parse().ok());
    (local, words.nth(1).and_then(|word| word.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(address: Option<IpAddr>) -> Direct {
        let identity = Identity::generate().unwrap();
        let credentials = Credentials { identity, peer: Vec::new(), congestion: None };
        let answer = DirectAnswer { key: Vec::new(), port: Err(String::new()), address };
        Direct { credentials, ports: None, local: None, answer, listener: None }
    }

    #[test]
    fn without_an_address_nothing_is_opened() {
        let here: IpAddr = "127.0.0.3".parse().unwrap();
        let open = |own: &Direct| own.listen(&[], own.credentials.clone(), Box::new(|_| {}));
        let refused = open(&direct(None)).err().unwrap();
        assert!(refused.to_string().contains("not known"), "{refused}");
        assert!(open(&direct(Some(here))).is_ok());
    }

    #[test]
    fn an_address_that_was_told_counts_if_it_is_one_of_this_machine() {
        let all = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        assert_eq!(
            own_address(&all(&["0.0.0.0", "::", "192.0.2.1", "127.0.0.3"])),
            all(&["127.0.0.3"]).pop()
        );
        assert_eq!(own_address(&all(&["0.0.0.0", "::", "192.0.2.1"])), None);
        assert_eq!(own_address(&[]), None);
        let (local, at) = ssh_addresses("192.0.2.7 50022 192.0.2.8 22");
        assert_eq!((local, at), (all(&["192.0.2.7"]).pop(), all(&["192.0.2.8"]).pop()));
        assert_eq!(ssh_addresses(""), (None, None));
    }
}
