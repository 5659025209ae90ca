//! Lanes that do not go through ssh: TLS over TCP, between two ends that told each other their keys over ssh.
//!
//! Tried are: connecting to the far end, and, where something between the two lets nobody in there, having the far
//! end connect to us. Content goes through ssh until one of them works.

use std::collections::HashSet;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use haul_core::{Error, ErrorKind, Result, Side};
use haul_transport::tcp::{self, TcpInfo};
use haul_transport::{Credentials, Identity, Listener, Ports, Streams};
use haul_wire::{DirectAnswer, DirectOffer, Kind, Request, Response, decode_body, encode};

use super::dial::{Dial, Helper, Link, Refused, Trouble, Way};
use super::session::{Pick, Session};
use super::{PeerConfig, Transport};

/// How long an answer is waited for while the way is being looked for: with two ways to try, content is through ssh
/// alone for two seconds at most.
const FIND: Duration = Duration::from_secs(1);
/// How long it is waited for later, and how long the other end may take to prove itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks for a way around ssh.
#[derive(Clone)]
pub(super) struct Finder {
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
            identity: Identity::generate()?,
            ports: config.ports,
            bind: config.bind,
            congestion: config.congestion.clone(),
        }))
    }

    /// What the far end has to know.
    pub(super) fn offer(&self) -> DirectOffer {
        DirectOffer {
            key: self.identity.public_key().clone(),
            ports: self.ports.map(|ports| (ports.first, ports.last)),
            congestion: self.congestion.clone(),
        }
    }

    /// Tries the ways there are. Gives what opens lanes on the first one that answers, with a sentence about it, or
    /// why there is none.
    pub(super) fn find(
        &self,
        session: &Arc<Session>,
        answer: &DirectAnswer,
    ) -> std::result::Result<(Arc<dyn Dial>, String), String> {
        let credentials = Credentials {
            identity: self.identity.clone(),
            peer: answer.key.clone(),
            congestion: self.congestion.clone(),
        };
        let name = session.dialer.name();
        let there = match &answer.port {
            Err(why) => format!("it cannot listen ({why})"),
            Ok(port) => {
                let addresses = addresses(answer.address, &session.dialer.hosts(), *port);
                let forward = Arc::new(Forward {
                    addresses,
                    from: self.bind,
                    credentials: credentials.clone(),
                    reached: Mutex::default(),
                    name: name.clone(),
                });
                match forward.reach(session) {
                    Ok(()) => return Ok((forward, format!("to port {port} of {name}"))),
                    Err(error) => format!("port {port} there: {error}"),
                }
            }
        };
        let back = Back::listen(session, self, credentials).map_err(|error| error.to_string());
        let here = match back {
            Err(why) => format!("no port here ({why})"),
            Ok(back) => {
                let port = back.listener.port();
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

/// Where the far end may be: what its system says ssh reached it at, and what ssh here was told.
fn addresses(told: Option<IpAddr>, hosts: &[String], port: u16) -> Vec<SocketAddr> {
    let mut all: Vec<SocketAddr> = told.map(|ip| SocketAddr::new(ip, port)).into_iter().collect();
    for host in hosts {
        all.extend((host.as_str(), port).to_socket_addrs().into_iter().flatten());
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

/// Connects to the far end.
struct Forward {
    addresses: Vec<SocketAddr>,
    from: Option<IpAddr>,
    credentials: Credentials,
    /// The connection that showed that there is a way, and since when it waits to become a lane.
    reached: Mutex<Option<(TcpStream, Instant)>>,
    name: String,
}

impl Forward {
    /// Sees whether there is somebody. Who that is, each lane finds out for itself.
    fn reach(&self, session: &Session) -> std::io::Result<()> {
        let begun = Instant::now();
        let socket = tcp::connect_any(&self.addresses, self.from, FIND)?;
        session.measured(begun.elapsed());
        *self.reached.lock().unwrap_or_else(PoisonError::into_inner) = Some((socket, Instant::now()));
        Ok(())
    }
}

impl Dial for Forward {
    fn dial(&self, _way: Way) -> std::result::Result<Link, Refused> {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner).take();
        let connected = match reached {
            // The far end waits for us to prove ourselves, but not for ever.
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

/// Has the far end connect to us.
struct Back {
    session: Weak<Session>,
    listener: Listener,
    bind: Option<IpAddr>,
    arrivals: Receiver<Arrival>,
    tell: Sender<Arrival>,
    name: String,
}

enum Arrival {
    Lane(Streams),
    Failed(String),
}

impl Back {
    fn listen(session: &Arc<Session>, finder: &Finder, credentials: Credentials) -> std::io::Result<Self> {
        let (tell, arrivals) = unbounded();
        let arrived = tell.clone();
        let taken = Box::new(move |streams| drop(arrived.send(Arrival::Lane(streams))));
        let listener = Listener::open(finder.bind, finder.ports, credentials, taken)?;
        let name = session.dialer.name();
        Ok(Self { session: Arc::downgrade(session), listener, bind: finder.bind, arrivals, tell, name })
    }

    /// Sees whether the far end gets through to us.
    fn reach(&self) -> std::result::Result<(), String> {
        let streams = self.arrival(FIND)?;
        // It becomes the first lane.
        drop(self.tell.send(Arrival::Lane(streams)));
        Ok(())
    }

    /// Asks for a connection and waits for it, or takes one that is there.
    fn arrival(&self, patience: Duration) -> std::result::Result<Streams, String> {
        if let Ok(Arrival::Lane(streams)) = self.arrivals.try_recv() {
            return Ok(streams);
        }
        self.ask()?;
        match self.arrivals.recv_timeout(patience) {
            Ok(Arrival::Lane(streams)) => Ok(streams),
            Ok(Arrival::Failed(why)) => Err(why),
            Err(_) => Err("no answer".to_owned()),
        }
    }

    fn ask(&self) -> std::result::Result<(), String> {
        let session = self.session.upgrade().ok_or("the run has ended")?;
        let request = Request::Connect { address: self.bind, port: self.listener.port() };
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
    fn dial(&self, _way: Way) -> std::result::Result<Link, Refused> {
        self.arrival(PATIENCE).map(link).map_err(|why| refused(&self.name, why))
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// The socket of a lane.
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
