//! Third-party copies: this end grants content to another remote end, or fetches content from one.
//!
//! The local end introduced the two. The end that fetches may read only batches with a ticket of the local end.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use haul_core::{Batch, BatchData, Compress, PageHashes, Result, SLICE_LEN, Sink, SliceData, Traffic};
use haul_remote::{ExpectedGranter, Puller, addresses};
use haul_transport::ConnectionKeys;
use haul_wire::ticket::Ticket;
use haul_wire::{DirectAnswer, Granter, PairId, Reach, Request, Response, RootId};

use crate::accept;
use crate::direct::DirectParameters;
use crate::grants::{Grant, ThirdParty, unknown};
use crate::reply::ReplyDuty;
use crate::session::{RequestingEnd, ServerSession};

/// How long a connection may take while the two ends look for a route.
const FIND: Duration = Duration::from_secs(1);

/// The credentials of this session for connections with another remote end.
fn credentials(session: &ServerSession, key: Vec<u8>) -> Result<(Arc<DirectParameters>, ConnectionKeys)> {
    let direct = session.direct().ok_or_else(unknown)?;
    let credentials = ConnectionKeys { peer: key, ..direct.credentials.clone() };
    Ok((direct, credentials))
}

/// Connects to the end that fetches, for one connection.
fn connect(session: &Arc<ServerSession>, grant: &Arc<Grant>, timeout: Duration) -> Result<()> {
    let at = grant.at.lock().clone();
    let caller = RequestingEnd::Puller(grant.clone());
    accept::connect(session, "connect to", &at, &grant.credentials, caller, timeout)
}

/// Connects to the end that fetches, which asked for one more connection.
pub(crate) fn reconnect(session: &Arc<ServerSession>, grant: &Arc<Grant>, reply: ReplyDuty) {
    let (own, grant) = (session.clone(), grant.clone());
    session.workers.run(Box::new(move || {
        let connected = connect(&own, &grant, accept::TIMEOUT);
        reply.send(&connected.map_or_else(Response::Failed, |()| Response::Done));
    }));
}

/// Carries out a request that concerns another remote end.
pub(crate) fn serve(session: &Arc<ServerSession>, request: Request) -> Response {
    let done = match request {
        Request::Admit { pair, key, secret, from } => admit(session, pair, key, secret, &from),
        Request::Expect { pair, key, from } => expect(session, pair, key, &from),
        Request::Visit { pair, at } => visit(session, pair, &at),
        Request::Meet { pair, with, at } => meet(session, pair, &with, at.as_ref()),
        Request::Rate { pair, rate } => session.third_parties.puller(pair).map(|puller| {
            puller.limit(rate);
            Response::Done
        }),
        _ => Err(unknown()),
    };
    done.unwrap_or_else(Response::Failed)
}

fn admit(
    session: &Arc<ServerSession>,
    number: PairId,
    key: Vec<u8>,
    secret: [u8; 32],
    from: &[IpAddr],
) -> Result<Response> {
    let (direct, credentials) = credentials(session, key)?;
    let grant = Arc::new(Grant::new(credentials.clone(), secret));
    let (weak, granted) = (Arc::downgrade(session), grant.clone());
    let taken = Box::new(move |streams| accept::take(&weak, streams, RequestingEnd::Puller(granted.clone())));
    let listener = direct.listen(from, credentials, taken);
    let (port, listener) = match listener {
        Ok(listener) => (Ok(listener.port()), Some(listener)),
        Err(error) => (Err(error.to_string()), None),
    };
    session.third_parties.put(number, ThirdParty::Granter { grant, _listener: listener });
    Ok(Response::Listening(DirectAnswer { port, ..direct.answer.clone() }))
}

fn expect(session: &ServerSession, number: PairId, key: Vec<u8>, from: &[IpAddr]) -> Result<Response> {
    let (direct, credentials) = credentials(session, key)?;
    let name = "the end of the source".to_owned();
    let listen = |address| ExpectedGranter::listen(address, direct.ports, from, credentials, name);
    let port = match direct.address().and_then(listen) {
        Ok(expected) => {
            let port = expected.port();
            session.third_parties.put(number, ThirdParty::Expecting(expected));
            Ok(port)
        }
        Err(error) => Err(error.to_string()),
    };
    Ok(Response::Listening(DirectAnswer { port, ..direct.answer.clone() }))
}

fn visit(session: &Arc<ServerSession>, number: PairId, at: &Reach) -> Result<Response> {
    let grant = session.third_parties.grant(number)?;
    *grant.at.lock() = addresses(at);
    connect(session, &grant, FIND).map(|()| Response::Done)
}

fn meet(session: &ServerSession, number: PairId, with: &Granter, at: Option<&Reach>) -> Result<Response> {
    let (_, credentials) = credentials(session, with.key.clone())?;
    let (pool, max_memory) = (&session.pool, session.max_memory);
    let puller = match at {
        Some(at) => Puller::connect(with, at, credentials, pool, max_memory)?,
        None => {
            let expected = session.third_parties.take_expected(number)?;
            Puller::expected(with, expected, &credentials, pool, max_memory)?
        }
    };
    session.third_parties.put(number, ThirdParty::Puller(Arc::new(puller)));
    Ok(Response::Done)
}

/// A batch to fetch.
pub(crate) struct Fetch {
    pub(crate) pair: Option<PairId>,
    pub(crate) source: RootId,
    pub(crate) sink: RootId,
    pub(crate) batch: Arc<Batch>,
    pub(crate) compress: Compress,
    pub(crate) ticket: Ticket,
}

/// Fetches content and writes it to the sink. Runs on a thread of its own, as it waits for another host.
pub(crate) fn fetch(session: &ServerSession, fetch: &Fetch, reply: ReplyDuty) {
    let Some(sink) = session.sink(fetch.sink) else { return reply.send(&Response::Gone) };
    match read(session, fetch, pages(&*sink, &fetch.batch)) {
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

/// The page hashes of the sink for one slice of a large file. `None` if the slice is sent again: then all of it is
/// wanted.
fn pages(sink: &dyn Sink, batch: &Batch) -> Option<PageHashes> {
    let (entry, slice) = batch.get(0)?;
    if batch.again || batch.slices.len() != 1 || entry.len <= SLICE_LEN || slice.part.is_some() {
        return None;
    }
    // An error here also prevents the write, which reports it.
    sink.pages(entry, slice.index..slice.index + 1).ok()?.pop()
}

/// The content, its bytes on the wire, the traffic so far, and the number of connections; `None` if this process does
/// not have the source.
fn read(
    session: &ServerSession,
    fetch: &Fetch,
    pages: Option<PageHashes>,
) -> Result<Option<(BatchData, u64, Traffic, u32)>> {
    let Some(pair) = fetch.pair else {
        let Some(source) = session.source(fetch.source) else { return Ok(None) };
        let data = match &pages {
            Some(pages) => source.read_changed(&fetch.batch, pages)?,
            None => source.read(&fetch.batch)?,
        };
        return Ok(Some((data, 0, Traffic::default(), 0)));
    };
    let puller = session.third_parties.puller(pair)?;
    let (data, wire_bytes) = puller.read(fetch.source, &fetch.batch, pages, fetch.compress, fetch.ticket)?;
    Ok(Some((data, wire_bytes, puller.traffic(), puller.streams())))
}
