//! Keys, port and addresses for direct connections: TLS over TCP, with keys that were exchanged over ssh.

use std::io;
use std::net::{IpAddr, UdpSocket};

use haul_core::Result;
use haul_transport::listener::OnConnection;
use haul_transport::{ConnectionKeys, KeyPair, Listener, Ports, tcp};
use haul_wire::{DirectAnswer, DirectOffer, MAX_ADDRESSES};

/// The parameters of a session for direct connections.
pub(crate) struct DirectParameters {
    pub(crate) credentials: ConnectionKeys,
    /// The ports that may be listened on.
    pub(crate) ports: Option<Ports>,
    /// The address that ssh came from, if it is known.
    pub(crate) local: Option<IpAddr>,
    pub(crate) answer: DirectAnswer,
    /// Listens for as long as the session lives.
    listener: Option<Listener>,
}

impl DirectParameters {
    /// Listens for the local end; `taken` gets its connections.
    ///
    /// # Errors
    /// If no key can be made. Why no port can be had is part of the answer.
    pub(crate) fn open(offer: &DirectOffer, taken: OnConnection) -> Result<Self> {
        let identity = KeyPair::generate()?;
        let key = identity.public_key().clone();
        let congestion = offer.congestion.clone();
        let credentials = ConnectionKeys { identity, peer: offer.key.clone(), congestion };
        let (local, address) = ssh_addresses(&std::env::var("SSH_CONNECTION").unwrap_or_default());
        let local = local.or(offer.from);
        let address = address.or_else(|| own_address(&offer.at));
        let ports = offer.ports.map(|(first, last)| Ports { first, last });
        let answer = DirectAnswer { key, port: Err(String::new()), address };
        let mut own = Self { credentials, ports, local, answer, listener: None };
        match own.listen_for(offer, taken) {
            Ok(listener) => {
                own.answer.port = Ok(listener.port());
                own.listener = Some(listener);
            }
            Err(error) => own.answer.port = Err(error.to_string()),
        }
        Ok(own)
    }

    fn listen_for(&self, offer: &DirectOffer, taken: OnConnection) -> io::Result<Listener> {
        if let Some(name) = &offer.congestion {
            tcp::check_congestion(name).map_err(|error| {
                io::Error::other(format!("congestion control `{name}` cannot be had there: {error}"))
            })?;
        }
        // With `--bind` the local end may connect from another address than ssh did.
        let expected: Vec<IpAddr> = self.local.into_iter().chain(offer.from).collect();
        self.listen(&expected, self.credentials.clone(), taken)
    }

    /// Listens for an end that has the key in `credentials`, expected from one of these addresses.
    ///
    /// # Errors
    /// If no port is free, or the address of this end is unknown.
    pub(crate) fn listen(
        &self,
        expected: &[IpAddr],
        credentials: ConnectionKeys,
        taken: OnConnection,
    ) -> io::Result<Listener> {
        Listener::open(self.address()?, self.ports, expected, credentials, taken)
    }

    /// The address to listen on. Without one, haul opens no port: a host may have addresses that must not be exposed.
    ///
    /// # Errors
    /// If it is not known.
    pub(crate) fn address(&self) -> io::Result<IpAddr> {
        let unknown = "it is not known which of its addresses ssh came to";
        self.answer.address.ok_or_else(|| io::Error::other(unknown))
    }
}

/// The first of these addresses that belongs to this host.
fn own_address(reported: &[IpAddr]) -> Option<IpAddr> {
    let is_own = |ip: &IpAddr| !ip.is_unspecified() && UdpSocket::bind((*ip, 0)).is_ok();
    reported.iter().take(MAX_ADDRESSES).copied().find(is_own)
}

/// The addresses of the client and of the server of the ssh connection, from `SSH_CONNECTION` (ssh(1)).
fn ssh_addresses(reported: &str) -> (Option<IpAddr>, Option<IpAddr>) {
    let mut words = reported.split(' ');
    let local = words.next().and_then(|word| word.parse().ok());
    (local, words.nth(1).and_then(|word| word.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(address: Option<IpAddr>) -> DirectParameters {
        let identity = KeyPair::generate().unwrap();
        let credentials = ConnectionKeys { identity, peer: Vec::new(), congestion: None };
        let answer = DirectAnswer { key: Vec::new(), port: Err(String::new()), address };
        DirectParameters { credentials, ports: None, local: None, answer, listener: None }
    }

    #[test]
    fn without_an_address_nothing_is_opened() {
        let here: IpAddr = "127.0.0.3".parse().unwrap();
        let open = |own: &DirectParameters| own.listen(&[], own.credentials.clone(), Box::new(|_| {}));
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
