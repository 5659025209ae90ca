//! Connections that do not go through ssh: TLS over TCP, between two ends that told each other their keys over ssh.
//!
//! Tried are: connecting to the remote end, and, where something between the two lets nobody in there, having the far
//! end connect to us. Content goes through ssh until one of them works.

use haul_core::sync::{Condvar, Mutex};
use std::collections::HashSet;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use haul_core::{Error, ErrorKind, Result, Side};
use haul_transport::tcp::{self, TcpInfo};
use haul_transport::{Credentials, Identity, Listener, Ports, Streams};
use haul_wire::{
    DirectAnswer, DirectOffer, Hello, Kind, MAX_ADDRESSES, Reach, Request, Response, decode_body, encode,
};

use super::session::{Pick, Session};
use super::{PeerConfig, Transport};
use haul_ssh::dial::{Dial, Helper, Link, Refused, Trouble, Way};

/// How long an answer is waited for while the way is being looked for: with two ways to try, content is through ssh
/// alone for two seconds at most.
pub(super) const FIND: Duration = Duration::from_secs(1);
/// How long it is waited for later, and how long the other end may take to prove itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// Holds a search back until it is known whether it is needed.
#[derive(Clone)]
pub(super) struct Gate(Arc<(Mutex<Passage>, Condvar)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Passage {
    Shut,
    Open,
    /// The run has ended.
    Never,
}

impl Gate {
    pub(super) fn new(open: bool) -> Self {
        let passage = if open { Passage::Open } else { Passage::Shut };
        Self(Arc::new((Mutex::new(passage), Condvar::new())))
    }

    pub(super) fn open(&self) {
        self.set(Passage::Open);
    }

    /// Who waits gives up.
    pub(super) fn end(&self) {
        self.set(Passage::Never);
    }

    fn set(&self, to: Passage) {
        let mut passage = self.0.0.lock();
        if *passage != Passage::Never {
            *passage = to;
        }
        self.0.1.notify_all();
    }

    /// Waits; `false` if it will never open.
    fn pass(&self) -> bool {
        let passage = self.0.0.lock();
        let shut = |passage: &mut Passage| *passage == Passage::Shut;
        *self.0.1.wait_while(passage, shut) == Passage::Open
    }
}

/// Looks for a way around ssh.
#[derive(Clone)]
pub(super) struct Finder {
    pub(super) gate: Gate,
    /// The way, where it was found before.
    known: Option<Arc<dyn Dial>>,
    identity: Identity,
    ports: Option<Ports>,
    bind: Option<IpAddr>,
    congestion: Option<String>,
}

impl Finder {
    /// What it takes to look; `None` where it is not wanted.
    ///
    /// # Errors
    /// If the congestion control that was asked for cannot be had here.
    pub(super) fn new(config: &PeerConfig) -> Result<Option<Self>> {
        if config.transport == Transport::Ssh {
            return Ok(None);
        }
        if let Some(name) = &config.congestion {
            tcp::check_congestion(name).map_err(|error| {
                Error::new(ErrorKind::Usage, Side::Local, "use the congestion control", error.to_string())
                    .on(name)
                    .with_hint("`sysctl net.ipv4.tcp_allowed_congestion_control` lists what this system lets you have")
            })?;
        }
        Ok(Some(Self {
            gate: Gate::new(!config.defer),
            known: None,
            identity: Identity::generate()?,
            ports: config.ports,
            bind: config.bind,
            congestion: config.congestion.clone(),
        }))
    }

    /// One that knows the way.
    pub(super) fn knows(way: Arc<dyn Dial>, identity: Identity) -> Self {
        let gate = Gate::new(true);
        Self { gate, known: Some(way), identity, ports: None, bind: None, congestion: None }
    }

    /// What the remote end has to know.
    pub(super) fn offer(&self) -> DirectOffer {
        DirectOffer {
            key: self.identity.public_key().clone(),
            ports: self.ports.map(|ports| (ports.first, ports.last)),
            congestion: self.congestion.clone(),
            at: Vec::new(),
            from: self.bind,
        }
    }

    /// Tries the ways there are. Gives what opens connections on the first one that answers, with a sentence about it, or
    /// why there is none.
    pub(super) fn find(
        &self,
        session: &Arc<Session>,
        answer: &DirectAnswer,
    ) -> std::result::Result<(Arc<dyn Dial>, String), String> {
        if let Some(way) = &self.known {
            return Ok((way.clone(), format!("to {}", way.name())));
        }
        if !self.gate.pass() {
            return Err("the run has ended".to_owned());
        }
        let credentials = Credentials {
            identity: self.identity.clone(),
            peer: answer.key.clone(),
            congestion: self.congestion.clone(),
        };
        let name = session.dialer.name();
        let port = answer.port.clone().unwrap_or(0);
        let at =
            Reach { addresses: answer.address.into_iter().collect(), hosts: session.dialer.hosts(), port };
        let at = addresses(&at);
        let there = match &answer.port {
            Err(why) => format!("it cannot listen ({why})"),
            Ok(port) => {
                let forward =
                    Arc::new(Forward::new(at.clone(), self.bind, credentials.clone(), name.clone()));
                match forward.reach() {
                    Ok(time) => {
                        session.measured(time);
                        return Ok((forward, format!("to port {port} of {name}")));
                    }
                    Err(error) => format!("port {port} there: {error}"),
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
            Err(why) => format!("no port here ({why})"),
            Ok(back) => {
                back.asks(session, self.bind);
                let port = back.port();
                match back.reach() {
                    Ok(()) => {
                        let how = format!("from {name} to our port {port} (the other way: {there})");
                        return Ok((Arc::new(back), how));
                    }
                    Err(why) => format!("port {port} here: {why}"),
                }
            }
        };
        Err(format!("{there}; {here}"))
    }
}

/// Tells a remote end, with the greeting, which addresses are at the two ends of the way that ssh takes, where that is known:
/// sshd tells it nothing there under sudo. Looked up while ssh connects.
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

/// The address of this machine that ssh goes out from, where that is known: not where another machine or program carries
/// it. `there` is the address that it came to, as the remote end sees it.
fn own_address(dialer: &dyn Dial, there: Option<IpAddr>) -> Option<IpAddr> {
    if !dialer.is_straight() {
        return None;
    }
    let mut at = hosts_of(dialer, None);
    // Of several it is the one that ssh came to, or at least one of its kind.
    at.sort_by_key(|ip| there.map(|there| (*ip != there, ip.is_ipv4() != there.is_ipv4())));
    at.into_iter().find_map(tcp::source_to)
}

/// The addresses of the machine that a dialer reaches: the one that it told, and those of the names that it bears here.
pub(super) fn hosts_of(dialer: &dyn Dial, told: Option<IpAddr>) -> Vec<IpAddr> {
    let at = Reach { addresses: told.into_iter().collect(), hosts: dialer.hosts(), port: 0 };
    addresses(&at).iter().map(SocketAddr::ip).collect()
}

/// Where an end may be: what its system says that its addresses are, and what names it bears here.
#[must_use]
pub fn addresses(at: &Reach) -> Vec<SocketAddr> {
    let mut all: Vec<SocketAddr> = at.addresses.iter().map(|ip| SocketAddr::new(*ip, at.port)).collect();
    for host in &at.hosts {
        all.extend((host.as_str(), at.port).to_socket_addrs().into_iter().flatten());
    }
    let mut seen = HashSet::new();
    all.retain(|address| seen.insert(*address));
    all
}

fn refused(name: &str, cause: String) -> Refused {
    let error = Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", cause);
    Refused { trouble: Trouble::Later, error: error.on(name) }
}

fn link(streams: Streams) -> Link {
    let helper = streams.socket.as_ref().and_then(|socket| socket.try_clone().ok());
    Link { streams, helper: helper.map(|socket| Arc::new(Socket(socket)) as Arc<dyn Helper>) }
}

/// Connects to the remote end.
pub(super) struct Forward {
    addresses: Vec<SocketAddr>,
    from: Option<IpAddr>,
    credentials: Credentials,
    /// The connection that showed that there is a way, and since when it waits to become a connection.
    reached: Mutex<Option<(TcpStream, Instant)>>,
    name: String,
}

impl Forward {
    pub(super) fn new(
        addresses: Vec<SocketAddr>,
        from: Option<IpAddr>,
        credentials: Credentials,
        name: String,
    ) -> Self {
        Self { addresses, from, credentials, reached: Mutex::default(), name }
    }

    /// Sees whether there is somebody, and how long that takes. Who that is, each connection finds out for itself.
    pub(super) fn reach(&self) -> std::io::Result<Duration> {
        let begun = Instant::now();
        let socket = tcp::connect_any(&self.addresses, self.from, FIND)?;
        *self.reached.lock() = Some((socket, Instant::now()));
        Ok(begun.elapsed())
    }
}

impl Dial for Forward {
    fn dial(&self, _way: Way) -> std::result::Result<Link, Refused> {
        let reached = self.reached.lock().take();
        let connected = match reached {
            // The remote end waits for us to prove ourselves, but not for ever.
            Some((socket, since)) if since.elapsed() < PATIENCE => Ok(socket),
            _ => tcp::connect_any(&self.addresses, self.from, PATIENCE),
        };
        connected
            .and_then(|socket| self.credentials.connect(socket, PATIENCE))
            .map(link)
            .map_err(|error| refused(&self.name, error.to_string()))
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// Has the remote end connect to us.
pub(super) struct Back {
    /// Where it asks for connections, and the address that it asks for them at, besides the one that ssh comes from.
    session: OnceLock<(Weak<Session>, Option<IpAddr>)>,
    listener: Listener,
    arrivals: Receiver<Arrival>,
    tell: Sender<Arrival>,
    name: String,
}

enum Arrival {
    Connection(Streams),
    Failed(String),
}

impl Back {
    pub(super) fn listen(
        bind: IpAddr,
        ports: Option<Ports>,
        from: &[IpAddr],
        credentials: Credentials,
        name: String,
    ) -> std::io::Result<Self> {
        let (tell, arrivals) = unbounded();
        let arrived = tell.clone();
        let taken = Box::new(move |streams| drop(arrived.send(Arrival::Connection(streams))));
        let listener = Listener::open(bind, ports, from, credentials, taken)?;
        Ok(Self { session: OnceLock::new(), listener, arrivals, tell, name })
    }

    /// From now on connections are asked for by this session, at this address, too.
    pub(super) fn asks(&self, session: &Arc<Session>, at: Option<IpAddr>) {
        // Nobody connects to the word for all addresses.
        let at = at.filter(|at| !at.is_unspecified());
        let _ = self.session.set((Arc::downgrade(session), at));
    }

    pub(super) fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Sees whether the remote end gets through to us.
    fn reach(&self) -> std::result::Result<(), String> {
        let streams = self.arrival(true, FIND)?;
        // It becomes the first connection.
        drop(self.tell.send(Arrival::Connection(streams)));
        Ok(())
    }

    /// Waits for a connection, `asked` for or not, or takes one that is there.
    fn arrival(&self, asked: bool, patience: Duration) -> std::result::Result<Streams, String> {
        if let Ok(Arrival::Connection(streams)) = self.arrivals.try_recv() {
            return Ok(streams);
        }
        if asked {
            self.ask()?;
        }
        match self.arrivals.recv_timeout(patience) {
            Ok(Arrival::Connection(streams)) => Ok(streams),
            Ok(Arrival::Failed(why)) => Err(why),
            Err(_) => Err("no answer".to_owned()),
        }
    }

    fn ask(&self) -> std::result::Result<(), String> {
        let (session, address) = self.session.get().ok_or("it was not prepared")?;
        let session = session.upgrade().ok_or("the run has ended")?;
        let request = Request::Connect { address: *address, port: self.listener.port() };
        let mut frame = encode(Kind::Request, 0, &request, 0).map_err(|error| error.to_string())?;
        let tell = self.tell.clone();
        let on_reply = Box::new(move |reply: Result<super::session::Reply>| {
            let response = reply.and_then(|reply| Ok(decode_body::<Response>(&reply.body)?));
            let failure = match response {
                Ok(Response::Done) => return,
                Ok(Response::Failed(error)) | Err(error) => error.cause().to_owned(),
                Ok(_) => "another answer than was asked for".to_owned(),
            };
            drop(tell.send(Arrival::Failed(failure)));
        });
        session.submit(&mut frame, &[], Pick::Small, None, on_reply);
        Ok(())
    }
}

impl Dial for Back {
    fn dial(&self, way: Way) -> std::result::Result<Link, Refused> {
        // Without a connection there is nothing to ask on.
        self.arrival(way == Way::Further, PATIENCE).map(link).map_err(|why| refused(&self.name, why))
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

    fn collect(&self, _patience: Duration) {
        self.kill();
    }

    fn last_words(&self) -> String {
        String::new()
    }

    fn explain(&self) -> Option<Refused> {
        None
    }

    fn tcp(&self) -> Option<TcpInfo> {
        tcp::info(&self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::neighbour::config;
    use super::*;

    struct Host {
        straight: bool,
        name: &'static str,
    }

    impl Dial for Host {
        fn dial(&self, _way: Way) -> std::result::Result<Link, Refused> {
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
    fn an_address_is_known_where_nothing_carries_ssh() {
        let here: IpAddr = "127.0.0.1".parse().unwrap();
        let straight = Host { straight: true, name: "127.0.0.1" };
        let carried = Host { straight: false, name: "127.0.0.1" };
        assert_eq!(own_address(&straight, None), Some(here));
        assert_eq!(own_address(&straight, "192.0.2.1".parse().ok()), Some(here));
        assert_eq!(own_address(&carried, Some(here)), None);

        let offer =
            Finder::new(&config(1, 2, 0, haul_core::Pace::default())).unwrap().map(|finder| finder.offer());
        let hello = Hello { direct: offer, ..super::super::admit::hello(0, 1, 2) };
        let told = |host: &Host| with_addresses(&hello, host).direct.map(|offer| (offer.at, offer.from));
        assert_eq!(told(&straight), Some((vec![here], Some(here))));
        assert_eq!(told(&carried), Some((Vec::new(), None)));
    }
}
