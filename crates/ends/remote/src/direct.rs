//! Direct connections: TLS over TCP, with keys that were exchanged over ssh.
//!
//! haul tries to connect to the remote end. If a firewall prevents that, it asks the remote end to connect to the local
//! one. Content goes through ssh until one of them works.

use haul_core::sync::Mutex;
use std::collections::HashSet;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use haul_core::{Error, ErrorKind, Result, Side};
use haul_transport::tcp::{self, TcpInfo};
use haul_transport::{ConnectionKeys, KeyPair, Listener, Ports, Streams};
use haul_wire::{
    DirectAnswer, DirectOffer, FrameKind, Hello, MAX_ADDRESSES, Reach, Request, Response, decode_body, encode,
};

use super::config::{PeerConfig, Transport};
use super::gate::Gate;
use super::session::Session;
use super::state::{DirectRoute, Pick, RawReply};
use haul_ssh::dial::{AfterRefusal, Dial, DialPurpose, DialRefused, DialedLink, Helper};

/// How long an answer is waited for while the way is being looked for: with two ways to try, content is through ssh
/// alone for two seconds at most.
pub(super) const FIND: Duration = Duration::from_secs(1);
/// How long to wait for later connections, and how long the other end may take for the TLS handshake.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Finds a direct connection.
#[derive(Clone)]
pub(super) struct Finder {
    pub(super) gate: Gate,
    /// The route, if it is known already.
    known: Option<Arc<dyn Dial>>,
    identity: KeyPair,
    ports: Option<Ports>,
    bind: Option<IpAddr>,
    congestion: Option<String>,
}

impl Finder {
    /// A finder; `None` if direct connections are not wanted.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if this system lacks the congestion control that was asked for.
    pub(super) fn new(config: &PeerConfig) -> Result<Option<Self>> {
        if config.transport == Transport::Ssh {
            return Ok(None);
        }
        if let Some(name) = &config.congestion {
            tcp::check_congestion(name).map_err(|error| {
                Error::new(ErrorKind::Usage, Side::Local, "use the congestion control", error.to_string())
                    .on(name)
                    .with_hint(
                        "`sysctl net.ipv4.tcp_allowed_congestion_control` lists the choices of this system",
                    )
            })?;
        }
        Ok(Some(Self {
            gate: Gate::new(!config.defer),
            known: None,
            identity: KeyPair::generate()?,
            ports: config.ports,
            bind: config.bind,
            congestion: config.congestion.clone(),
        }))
    }

    /// A finder that knows the route already.
    pub(super) fn knows(way: Arc<dyn Dial>, identity: KeyPair) -> Self {
        let gate = Gate::new(true);
        Self { gate, known: Some(way), identity, ports: None, bind: None, congestion: None }
    }

    /// The parameters for the remote end.
    pub(super) fn offer(&self) -> DirectOffer {
        DirectOffer {
            key: self.identity.public_key().clone(),
            ports: self.ports.map(|ports| (ports.first, ports.last)),
            congestion: self.congestion.clone(),
            at: Vec::new(),
            from: self.bind,
        }
    }

    /// Tries both directions. Returns the first one that works, or why neither works.
    pub(super) fn find(
        &self,
        session: &Arc<Session>,
        answer: &DirectAnswer,
    ) -> std::result::Result<DirectRoute, Vec<String>> {
        if let Some(way) = &self.known {
            return Ok(DirectRoute {
                dialer: way.clone(),
                how: format!("to {}", way.name()),
                other_way: None,
            });
        }
        if !self.gate.pass() {
            return Err(vec!["the run has ended".to_owned()]);
        }
        let credentials = ConnectionKeys {
            identity: self.identity.clone(),
            peer: answer.key.clone(),
            congestion: self.congestion.clone(),
        };
        let name = session.dialer.name();
        let port = answer.port.clone().unwrap_or(0);
        let at = addresses(&reach_of(&*session.dialer, answer.address, port));
        let there = match &answer.port {
            Err(why) => format!("{name} cannot listen: {why}"),
            Ok(port) => {
                let forward =
                    Arc::new(Forward::new(at.clone(), self.bind, credentials.clone(), name.clone()));
                match forward.reach() {
                    Ok(time) => {
                        session.measured(time);
                        let how = format!("to port {port} of {name}");
                        return Ok(DirectRoute { dialer: forward, how, other_way: None });
                    }
                    Err(error) => format!("port {port} of {name}: {error}"),
                }
            }
        };
        let from: Vec<IpAddr> = at.iter().map(SocketAddr::ip).collect();
        let own = self.bind.or_else(|| own_address(&*session.dialer, answer.address));
        let back = own
            .ok_or_else(|| {
                std::io::Error::other("which address ssh goes out from is not known, `--bind` names it")
            })
            .and_then(|own| Back::listen(own, self.ports, &from, credentials, name.clone()));
        let back = back.map_err(|error| error.to_string());
        let here = match back {
            Err(why) => format!("this end cannot listen: {why}"),
            Ok(back) => {
                back.asks(session, self.bind);
                let port = back.port();
                match back.reach() {
                    Ok(()) => {
                        let how = format!("from {name} to our port {port}");
                        return Ok(DirectRoute { dialer: Arc::new(back), how, other_way: Some(there) });
                    }
                    Err(why) => format!("our port {port}: {why}"),
                }
            }
        };
        Err(vec![there, here])
    }
}

/// Adds to Hello the addresses of both ends of the ssh connection, if they are known: under sudo the remote end does
/// not get them from sshd. Resolves names while ssh connects.
pub(super) fn with_addresses(hello: &Hello, dialer: &dyn Dial) -> Hello {
    let mut hello = hello.clone();
    if let Some(offer) = &mut hello.direct
        && dialer.is_straight()
    {
        offer.at = hosts_of(dialer, None);
        offer.at.truncate(MAX_ADDRESSES);
        offer.from = offer.from.or_else(|| offer.at.iter().copied().find_map(tcp::source_to));
    }
    hello
}

/// The local address of the ssh connection; `None` if ssh uses a proxy. `there` is the remote address, as the remote
/// end reports it.
fn own_address(dialer: &dyn Dial, there: Option<IpAddr>) -> Option<IpAddr> {
    if !dialer.is_straight() {
        return None;
    }
    let mut at = hosts_of(dialer, None);
    // Prefer the address that ssh came to, then one of the same family.
    at.sort_by_key(|ip| there.map(|there| (*ip != there, ip.is_ipv4() != there.is_ipv4())));
    at.into_iter().find_map(tcp::source_to)
}

/// The addresses of the host that a dialer reaches: the one that the host reported, and those of its names.
pub(super) fn hosts_of(dialer: &dyn Dial, reported: Option<IpAddr>) -> Vec<IpAddr> {
    addresses(&reach_of(dialer, reported, 0)).iter().map(SocketAddr::ip).collect()
}

/// How to reach the host of a dialer, which has reported this address.
pub(super) fn reach_of(dialer: &dyn Dial, reported: Option<IpAddr>, port: u16) -> Reach {
    Reach { addresses: reported.into_iter().collect(), hosts: dialer.hosts(), port, family: dialer.family() }
}

/// The addresses of an end: those that its system reports, and those of its names.
#[must_use]
pub fn addresses(at: &Reach) -> Vec<SocketAddr> {
    let mut all: Vec<SocketAddr> = at.addresses.iter().map(|ip| SocketAddr::new(*ip, at.port)).collect();
    for host in &at.hosts {
        all.extend((host.as_str(), at.port).to_socket_addrs().into_iter().flatten());
    }
    let mut seen = HashSet::new();
    let is_allowed = |ip: IpAddr| at.family.is_none_or(|family| family.has(ip));
    all.retain(|address| is_allowed(address.ip()) && seen.insert(*address));
    all
}

fn refused(name: &str, cause: String) -> DialRefused {
    let error = Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", cause);
    DialRefused { trouble: AfterRefusal::Later, error: error.on(name) }
}

fn link(streams: Streams) -> DialedLink {
    let helper = streams.socket.as_ref().and_then(|socket| socket.try_clone().ok());
    DialedLink { streams, helper: helper.map(|socket| Arc::new(Socket(socket)) as Arc<dyn Helper>) }
}

/// Connects to the remote end.
pub(super) struct Forward {
    addresses: Vec<SocketAddr>,
    from: Option<IpAddr>,
    credentials: ConnectionKeys,
    /// The connection of the first attempt, and since when it waits to be used.
    reached: Mutex<Option<(TcpStream, Instant)>>,
    name: String,
}

impl Forward {
    pub(super) fn new(
        addresses: Vec<SocketAddr>,
        from: Option<IpAddr>,
        credentials: ConnectionKeys,
        name: String,
    ) -> Self {
        Self { addresses, from, credentials, reached: Mutex::default(), name }
    }

    /// Connects, and returns how long that took. The TLS handshake follows later.
    ///
    /// # Errors
    /// If no address answers.
    pub(super) fn reach(&self) -> std::io::Result<Duration> {
        let begun = Instant::now();
        let socket = tcp::connect_any(&self.addresses, self.from, FIND)?;
        *self.reached.lock() = Some((socket, Instant::now()));
        Ok(begun.elapsed())
    }
}

impl Dial for Forward {
    fn dial(&self, _way: DialPurpose) -> std::result::Result<DialedLink, DialRefused> {
        let reached = self.reached.lock().take();
        let connected = match reached {
            // The remote end drops a connection without a handshake after a while.
            Some((socket, since)) if since.elapsed() < TIMEOUT => Ok(socket),
            _ => tcp::connect_any(&self.addresses, self.from, TIMEOUT),
        };
        connected
            .and_then(|socket| self.credentials.connect(socket, TIMEOUT))
            .map(link)
            .map_err(|error| refused(&self.name, error.to_string()))
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// Asks the remote end to connect to the local one.
pub(super) struct Back {
    /// The session to ask for connections, and the local address to name in addition to that of ssh.
    session: OnceLock<(Weak<Session>, Option<IpAddr>)>,
    listener: Listener,
    arrivals: Receiver<DirectArrival>,
    tell: Sender<DirectArrival>,
    name: String,
}

enum DirectArrival {
    Connection(Box<Streams>),
    Failed(String),
}

impl Back {
    pub(super) fn listen(
        bind: IpAddr,
        ports: Option<Ports>,
        from: &[IpAddr],
        credentials: ConnectionKeys,
        name: String,
    ) -> std::io::Result<Self> {
        let (tell, arrivals) = unbounded();
        let arrived = tell.clone();
        let taken = Box::new(move |streams| drop(arrived.send(DirectArrival::Connection(Box::new(streams)))));
        let listener = Listener::open(bind, ports, from, credentials, taken)?;
        Ok(Self { session: OnceLock::new(), listener, arrivals, tell, name })
    }

    /// From now on this session asks for connections, and names this address too.
    pub(super) fn asks(&self, session: &Arc<Session>, at: Option<IpAddr>) {
        // The unspecified address cannot be connected to.
        let at = at.filter(|at| !at.is_unspecified());
        let _ = self.session.set((Arc::downgrade(session), at));
    }

    pub(super) fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Waits for the first connection of the remote end.
    fn reach(&self) -> std::result::Result<(), String> {
        let streams = self.arrival(true, FIND)?;
        // It is used as the first connection.
        drop(self.tell.send(DirectArrival::Connection(Box::new(streams))));
        Ok(())
    }

    /// Takes a connection that has arrived, or waits for one; `asked`: asks for it first.
    fn arrival(&self, asked: bool, timeout: Duration) -> std::result::Result<Streams, String> {
        if let Ok(DirectArrival::Connection(streams)) = self.arrivals.try_recv() {
            return Ok(*streams);
        }
        if asked {
            self.ask()?;
        }
        match self.arrivals.recv_timeout(timeout) {
            Ok(DirectArrival::Connection(streams)) => Ok(*streams),
            Ok(DirectArrival::Failed(why)) => Err(why),
            Err(_) => Err("no answer".to_owned()),
        }
    }

    fn ask(&self) -> std::result::Result<(), String> {
        let (session, address) = self.session.get().ok_or("it was not prepared")?;
        let session = session.upgrade().ok_or("the run has ended")?;
        let request = Request::Connect { address: *address, port: self.listener.port() };
        let mut frame = encode(FrameKind::Request, 0, &request, 0).map_err(|error| error.to_string())?;
        let tell = self.tell.clone();
        let on_reply = Box::new(move |reply: Result<RawReply>| {
            let response = reply.and_then(|reply| Ok(decode_body::<Response>(&reply.body)?));
            let failure = match response {
                Ok(Response::Done) => return,
                Ok(Response::Failed(error)) | Err(error) => error.cause().to_owned(),
                Ok(_) => "another answer than was asked for".to_owned(),
            };
            drop(tell.send(DirectArrival::Failed(failure)));
        });
        session.submit(&mut frame, &[], Pick::Small, None, on_reply);
        Ok(())
    }
}

impl Dial for Back {
    fn dial(&self, way: DialPurpose) -> std::result::Result<DialedLink, DialRefused> {
        // Before the first connection there is none to ask on.
        self.arrival(way == DialPurpose::Further, TIMEOUT).map(link).map_err(|why| refused(&self.name, why))
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// The socket of a connection.
struct Socket(TcpStream);

impl Helper for Socket {
    fn kill(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }

    fn collect(&self, _timeout: Duration) {
        self.kill();
    }

    fn last_words(&self) -> String {
        String::new()
    }

    fn explain(&self) -> Option<DialRefused> {
        None
    }

    fn tcp(&self) -> Option<TcpInfo> {
        tcp::info(&self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::third_party::puller::config;
    use haul_core::IpFamily;

    use super::*;

    struct DirectHost {
        straight: bool,
        name: &'static str,
    }

    impl Dial for DirectHost {
        fn dial(&self, _way: DialPurpose) -> std::result::Result<DialedLink, DialRefused> {
            Err(refused(self.name, "not here".to_owned()))
        }

        fn hosts(&self) -> Vec<String> {
            vec![self.name.to_owned()]
        }

        fn is_straight(&self) -> bool {
            self.straight
        }

        fn name(&self) -> String {
            self.name.to_owned()
        }
    }

    #[test]
    fn addresses_of_another_family_are_left_out() {
        let all: Vec<IpAddr> = ["192.0.2.1", "2001:db8::1"].map(|ip| ip.parse().unwrap()).to_vec();
        let of = |family| {
            let at = Reach { addresses: all.clone(), hosts: vec!["::1".to_owned()], port: 5, family };
            addresses(&at).into_iter().map(|address| address.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of(None), ["192.0.2.1:5", "[2001:db8::1]:5", "[::1]:5"]);
        assert_eq!(of(Some(IpFamily::V4)), ["192.0.2.1:5"]);
        assert_eq!(of(Some(IpFamily::V6)), ["[2001:db8::1]:5", "[::1]:5"]);
    }

    #[test]
    fn an_address_is_known_where_nothing_carries_ssh() {
        let here: IpAddr = "127.0.0.1".parse().unwrap();
        let straight = DirectHost { straight: true, name: "127.0.0.1" };
        let carried = DirectHost { straight: false, name: "127.0.0.1" };
        assert_eq!(own_address(&straight, None), Some(here));
        assert_eq!(own_address(&straight, "192.0.2.1".parse().ok()), Some(here));
        assert_eq!(own_address(&carried, Some(here)), None);

        let offer =
            Finder::new(&config(1, 2, 0, haul_core::Pace::default())).unwrap().map(|finder| finder.offer());
        let hello = Hello { direct: offer, ..super::super::admit::hello(0, 1, 2) };
        let reported =
            |host: &DirectHost| with_addresses(&hello, host).direct.map(|offer| (offer.at, offer.from));
        assert_eq!(reported(&straight), Some((vec![here], Some(here))));
        assert_eq!(reported(&carried), Some((Vec::new(), None)));
    }
}
