//! What this end has to do with other remote ends: it lets one fetch content here, or fetches content from one.
//!
//! The local end introduced them. A guest may read what the local end made a ticket for, and nothing else.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use haul_core::{
    Batch, BatchData, Compress, Error, ErrorKind, PageHashes, Result, SLICE_LEN, Side, Sink, SliceData,
    Traffic,
};
use haul_remote::{Expected, Neighbour, addresses};
use haul_transport::{Credentials, Listener, tcp};
use haul_wire::ticket::{self, Ticket};
use haul_wire::{DirectAnswer, FrameError, PairId, Reach, Request, Response, RootId};

use crate::connection::Reply;
use crate::direct::{self, Direct};
use crate::hub::{Hub, lock};

/// How long connecting to another remote end may take, and how long proving it.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long it may take while it is tried whether there is a way.
const FIND: Duration = Duration::from_secs(1);

/// The other ends of a session, by number.
#[derive(Default)]
pub(crate) struct Pairs(Mutex<HashMap<PairId, Pair>>);

enum Pair {
    /// Content is fetched here. Listens for as long as it is held.
    Host { guest: Arc<Guest>, _listener: Option<Listener> },
    /// Content will be fetched from there, once it has connected.
    Expected(Expected),
    /// Content is fetched from there.
    Neighbour(Arc<Neighbour>),
}

/// Another remote end that may fetch content here.
pub(crate) struct Guest {
    credentials: Credentials,
    secret: [u8; 32],
    /// Where it listens, if it could not connect.
    at: Mutex<Vec<SocketAddr>>,
}

impl Guest {
    /// Whether it may ask for this.
    pub(crate) fn check(&self, request: &Request) -> std::result::Result<(), FrameError> {
        let may = match request {
            Request::Nothing | Request::Connect { .. } => true,
            Request::Pull { root, batch, ticket, .. } => ticket::is_for(ticket, &self.secret, *root, batch),
            _ => false,
        };
        if may { Ok(()) } else { Err(FrameError::Rule("a guest asks for what it was not given")) }
    }

    /// Connects to it for one more connection.
    pub(crate) fn connect(self: &Arc<Self>, hub: &Arc<Hub>, patience: Duration) -> Result<()> {
        let failed = |cause: String| Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", cause);
        let at = lock(&self.at).clone();
        let streams = tcp::connect_any(&at, None, patience)
            .and_then(|socket| self.credentials.connect(socket, PATIENCE))
            .map_err(|error| failed(error.to_string()))?;
        let (hub, guest) = (Arc::downgrade(hub), self.clone());
        // It greets only when it has heard that we are through.
        let thread = std::thread::Builder::new().name("haul-greet".to_owned());
        let spawned = thread.spawn(move || direct::take(&hub, streams, Some(guest)));
        spawned.map(drop).map_err(|error| failed(error.to_string()))
    }

    /// The same, on demand of the guest.
    pub(crate) fn reconnect(self: &Arc<Self>, hub: &Arc<Hub>, reply: Reply) {
        let (guest, own) = (self.clone(), hub.clone());
        hub.workers.run(Box::new(move || reply.send(&done(guest.connect(&own, PATIENCE)))));
    }
}

fn done(result: Result<()>) -> Response {
    result.map_or_else(Response::Failed, |()| Response::Done)
}

fn unknown() -> Error {
    let cause = "the two were not introduced to each other";
    Error::new(ErrorKind::Unreachable, Side::Wire, "reach the other far end", cause)
}

/// What this session has for connections of its own, turned to another end.
fn credentials(hub: &Hub, key: Vec<u8>) -> Result<(Arc<Direct>, Credentials)> {
    let direct = hub.direct().ok_or_else(unknown)?;
    let credentials = Credentials { peer: key, ..direct.credentials.clone() };
    Ok((direct, credentials))
}

impl Pairs {
    fn put(&self, number: PairId, pair: Pair) {
        // What was there is ended outside of the lock.
        let before = lock(&self.0).insert(number, pair);
        if let Some(Pair::Neighbour(before)) = before {
            before.close();
        }
    }

    /// Ends all of them: who fetches gets an error.
    pub(crate) fn close(&self) {
        for pair in std::mem::take(&mut *lock(&self.0)).into_values() {
            if let Pair::Neighbour(neighbour) = pair {
                neighbour.close();
            }
        }
    }

    fn neighbour(&self, number: PairId) -> Result<Arc<Neighbour>> {
        match lock(&self.0).get(&number) {
            Some(Pair::Neighbour(neighbour)) => Ok(neighbour.clone()),
            _ => Err(unknown()),
        }
    }
}

/// Carries out a request that concerns another remote end.
pub(crate) fn serve(hub: &Arc<Hub>, request: Request) -> Response {
    let done = match request {
        Request::Admit { pair, key, secret, from } => admit(hub, pair, key, secret, &from),
        Request::Expect { pair, key, from } => expect(hub, pair, key, &from),
        Request::Visit { pair, at } => visit(hub, pair, &at),
        Request::Meet { pair, with, at } => meet(hub, pair, &with, at.as_ref()),
        Request::Rate { pair, rate } => hub.pairs.neighbour(pair).map(|neighbour| {
            neighbour.limit(rate);
            Response::Done
        }),
        _ => Err(unknown()),
    };
    done.unwrap_or_else(Response::Failed)
}

fn admit(
    hub: &Arc<Hub>,
    number: PairId,
    key: Vec<u8>,
    secret: [u8; 32],
    from: &[IpAddr],
) -> Result<Response> {
    let (direct, credentials) = credentials(hub, key)?;
    let guest = Arc::new(Guest { credentials: credentials.clone(), secret, at: Mutex::default() });
    let (weak, taken): (Weak<Hub>, _) = (Arc::downgrade(hub), guest.clone());
    let taken = Box::new(move |streams| direct::take(&weak, streams, Some(taken.clone())));
    let listener = direct.listen(from, credentials, taken);
    let (port, listener) = match listener {
        Ok(listener) => (Ok(listener.port()), Some(listener)),
        Err(error) => (Err(error.to_string()), None),
    };
    hub.pairs.put(number, Pair::Host { guest, _listener: listener });
    Ok(Response::Listening(DirectAnswer { port, ..direct.answer.clone() }))
}

fn expect(hub: &Hub, number: PairId, key: Vec<u8>, from: &[IpAddr]) -> Result<Response> {
    let (direct, credentials) = credentials(hub, key)?;
    let name = "the end of the source".to_owned();
    let listen = |address| Expected::listen(address, direct.ports, from, credentials, name);
    let port = match direct.address().and_then(listen) {
        Ok(expected) => {
            let port = expected.port();
            hub.pairs.put(number, Pair::Expected(expected));
            Ok(port)
        }
        Err(error) => Err(error.to_string()),
    };
    Ok(Response::Listening(DirectAnswer { port, ..direct.answer.clone() }))
}

fn visit(hub: &Arc<Hub>, number: PairId, at: &Reach) -> Result<Response> {
    let guest = match lock(&hub.pairs.0).get(&number) {
        Some(Pair::Host { guest, .. }) => guest.clone(),
        _ => return Err(unknown()),
    };
    *lock(&guest.at) = addresses(at);
    guest.connect(hub, FIND).map(|()| Response::Done)
}

fn meet(hub: &Hub, number: PairId, with: &haul_wire::Neighbour, at: Option<&Reach>) -> Result<Response> {
    let (_, credentials) = credentials(hub, with.key.clone())?;
    let neighbour = match at {
        Some(at) => Neighbour::connect(with, at, credentials, &hub.pool, hub.max_memory)?,
        None => {
            let Some(Pair::Expected(expected)) = lock(&hub.pairs.0).remove(&number) else {
                return Err(unknown());
            };
            Neighbour::expected(with, expected, &credentials, &hub.pool, hub.max_memory)?
        }
    };
    hub.pairs.put(number, Pair::Neighbour(Arc::new(neighbour)));
    Ok(Response::Done)
}

/// What is to be fetched.
pub(crate) struct Fetch {
    pub(crate) pair: Option<PairId>,
    pub(crate) source: RootId,
    pub(crate) sink: RootId,
    pub(crate) batch: Arc<Batch>,
    pub(crate) compress: Compress,
    pub(crate) ticket: Ticket,
}

/// Fetches content and writes it here. On a thread of its own: it waits for another machine.
pub(crate) fn fetch(hub: &Hub, fetch: &Fetch, reply: Reply) {
    let Some(sink) = hub.sink(fetch.sink) else { return reply.send(&Response::Gone) };
    match read(hub, fetch, pages(&*sink, &fetch.batch)) {
        Err(error) => reply.send(&Response::Failed(error)),
        Ok(None) => reply.send(&Response::Gone),
        Ok(Some((data, wire_bytes, traffic, streams))) => {
            let method = traffic.method;
            let matched_bytes = data.slices.iter().flatten().map(SliceData::same_len).sum();
            let done = move |outcomes| {
                reply.send(&Response::Fetched { outcomes, wire_bytes, matched_bytes, method, streams });
            };
            sink.write(data, Box::new(done));
        }
    }
}

/// What the sink has of a slice of a large file, if it was not sent before: then all of it is wanted.
fn pages(sink: &dyn Sink, batch: &Batch) -> Option<PageHashes> {
    let (entry, slice) = batch.get(0)?;
    if batch.again || batch.slices.len() != 1 || entry.len <= SLICE_LEN || slice.part.is_some() {
        return None;
    }
    // What stands in the way of comparing stands in the way of writing, too, and is told there.
    sink.pages(entry, slice.index..slice.index + 1).ok()?.pop()
}

/// The content with its bytes on the way, how they were packed, and over how many connections they came; `None` if there is
/// no such source here.
fn read(
    hub: &Hub,
    fetch: &Fetch,
    pages: Option<PageHashes>,
) -> Result<Option<(BatchData, u64, Traffic, u32)>> {
    let Some(pair) = fetch.pair else {
        let Some(source) = hub.source(fetch.source) else { return Ok(None) };
        let data = match &pages {
            Some(pages) => source.read_changed(&fetch.batch, pages)?,
            None => source.read(&fetch.batch)?,
        };
        return Ok(Some((data, 0, Traffic::default(), 0)));
    };
    let neighbour = hub.pairs.neighbour(pair)?;
    let (data, wire_bytes) =
        neighbour.read(fetch.source, &fetch.batch, pages, fetch.compress, fetch.ticket)?;
    Ok(Some((data, wire_bytes, neighbour.traffic(), neighbour.streams())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{SinkOptions, Slice};
    use haul_transport::Identity;

    #[test]
    fn a_guest_gets_what_it_has_a_ticket_for_and_nothing_else() {
        let credentials =
            Credentials { identity: Identity::generate().unwrap(), peer: Vec::new(), congestion: None };
        let guest = Guest { credentials, secret: [1; 32], at: Mutex::default() };
        let batch = |index| {
            Arc::new(Batch { entries: Vec::new(), slices: vec![Slice::whole(0, index)], again: false })
        };
        let ticket = ticket::make(&[1; 32], 4, &batch(7)).unwrap();
        let pull = |root, index, ticket| Request::Pull {
            root,
            batch: batch(index),
            pages: None,
            compress: Compress::Never,
            ticket,
        };
        assert!(guest.check(&pull(4, 7, ticket)).is_ok());
        assert!(guest.check(&Request::Connect { address: None, port: 1 }).is_ok());
        let place = haul_core::Place { path: b"/".to_vec(), root: haul_core::PlaceRoot::Exactly };
        let refused = [
            pull(4, 8, ticket),
            pull(5, 7, ticket),
            pull(4, 7, [0; 32]),
            Request::Read { root: 4, batch: batch(7), pages: None, compress: Compress::Never },
            Request::Root { root: 4 },
            Request::OpenSource { root: 9, place: place.clone() },
            Request::OpenSink { root: 9, place, options: SinkOptions::default() },
            Request::Admit { pair: 1, key: Vec::new(), secret: [2; 32], from: Vec::new() },
        ];
        for request in refused {
            assert!(guest.check(&request).is_err(), "{request:?}");
        }
    }
}
