//! What each request does.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use haul_codec::Packed;
use haul_core::{BatchData, Buffer, Result, Sink, Source};
use haul_local::Nice;
use haul_wire::{Request, Response, RootId};

use crate::connection::{Outgoing, Reply};
use crate::direct;
use crate::hub::{Hub, Open, lock};
use crate::pairs::{self, Fetch};
use crate::scan::Scan;
use crate::watch;

/// Carries out a request, here if that is quick or has to hold up the connection, else on a worker.
pub(crate) fn serve(hub: &Arc<Hub>, reply: Reply, request: Request, content: Buffer) {
    match request {
        // What was swallowed is dropped here, so that a connection is read as fast as it brings.
        Request::Nothing | Request::Swallow => reply.send(&Response::Done),
        // Here, so that writes are taken in their order, and a connection is read no faster than its sink takes.
        Request::Write { root, batch, mut slices, packing } => match hub.sink(root) {
            Some(sink) => {
                let mut content = content;
                hub.packer.unpack(packing, &mut slices, &mut content);
                let data = BatchData { batch, slices, content, at_hand: false };
                sink.write(data, Box::new(move |outcomes| reply.send(&Response::Write(outcomes))));
            }
            None => reply.send(&Response::Gone),
        },
        Request::HungOperation { root, patience, known } => watch::watch(hub, reply, root, patience, known),
        Request::ScanNext { scan, part, acked } => {
            let found = lock(&hub.scans).get(&scan).cloned();
            match found {
                Some(scan) => scan.next(part, acked, reply),
                None => reply.send(&Response::Gone),
            }
        }
        Request::ScanEnd { scan } => {
            let found = lock(&hub.scans).remove(&scan);
            if let Some(scan) = found {
                scan.cancel();
            }
            reply.send(&Response::Done);
        }
        Request::Fetch { root, pair, source, batch, compress, ticket } => {
            let (own, fetch) = (hub.clone(), Fetch { pair, source, sink: root, batch, compress, ticket });
            hub.fetchers.run(Box::new(move || pairs::fetch(&own, &fetch, reply)));
        }
        slow => {
            let own = hub.clone();
            hub.workers.run(Box::new(move || work(&own, reply, slow)));
        }
    }
}

fn work(hub: &Arc<Hub>, reply: Reply, request: Request) {
    let response = match request {
        Request::Connect { address, port } => done(direct::connect(hub, address, port)),
        Request::OpenSource { root, place } => {
            done(hub.open(root, || hub.ends.source(&place, &hub.pool).map(Open::Source)))
        }
        Request::OpenSink { root, place, options } => {
            done(hub.open(root, || hub.ends.sink(&place, &options, &hub.pool).map(Open::Sink)))
        }
        Request::Close { root } => {
            hub.close_root(root);
            Response::Done
        }
        Request::Root { root } => source(hub, root, |source| source.root().map(Response::Root)),
        Request::ScanStart { root, scan, options } => source(hub, root, |source| {
            let mut scans = lock(&hub.scans);
            if let Entry::Vacant(new) = scans.entry(scan) {
                new.insert(Scan::start(source.clone(), options)?);
            }
            Ok(Response::Done)
        }),
        Request::Lookup { root, paths } => {
            source(hub, root, |source| source.lookup(&paths).map(Response::Lookup))
        }
        Request::Digest { root, paths } => {
            source(hub, root, |source| source.digest(&paths).map(Response::Digest))
        }
        Request::Read { root, batch, pages, compress }
        | Request::Pull { root, batch, pages, compress, .. } => {
            let data = hub.source(root).map(|source| match &pages {
                Some(pages) => source.read_changed(&batch, pages),
                None => source.read(&batch),
            });
            match data {
                Some(Ok(data)) => {
                    let BatchData { slices, mut content, .. } = data;
                    let Packed { packing, sending } = hub.packer.pack(compress, &mut content);
                    return reply
                        .send_with(&Response::Read { slices, packing }, Outgoing { content, sending });
                }
                Some(Err(error)) => Response::Failed(error),
                None => Response::Gone,
            }
        }
        Request::PageHashes { root, entry, slices } => {
            sink(hub, root, |sink| sink.pages(&entry, slices).map(Response::PageHashes))
        }
        Request::Offer { root, offers } => sink(hub, root, |sink| sink.offer(&offers).map(Response::Answers)),
        Request::Flush { root } => sink(hub, root, |sink| {
            sink.flush();
            Ok(Response::Done)
        }),
        Request::Discard { root, paths } => {
            sink(hub, root, |sink| sink.discard(&paths).map(|()| Response::Done))
        }
        Request::Link { root, links } => sink(hub, root, |sink| sink.link(&links).map(Response::Answers)),
        Request::Remove { root, paths } => sink(hub, root, |sink| {
            hub.ends.may_remove()?;
            sink.remove(&paths).map(Response::Removed)
        }),
        Request::Finish { root } => sink(hub, root, |sink| {
            let mut report = sink.finish()?;
            report.notes.truncate(haul_wire::MAX_NOTES);
            Ok(Response::Finish(report))
        }),
        Request::Nice => Response::Nice(lock(&hub.nice).get_or_insert_with(Nice::begin).pressure()),
        Request::Probe(task) => hub.ends.probe(&task).map_or_else(Response::Failed, Response::Probe),
        Request::Produce { bytes } => {
            let mut content = hub.pool.take();
            // A frame is checked to ask for no more than fits.
            if let Some(room) = content.grow(bytes as usize) {
                haul_probe::fill_random(room, reply.id());
            }
            return reply.send_with(&Response::Produced, Outgoing { content, ..Outgoing::default() });
        }
        Request::Admit { .. }
        | Request::Expect { .. }
        | Request::Visit { .. }
        | Request::Meet { .. }
        | Request::Rate { .. } => pairs::serve(hub, request),
        Request::Nothing
        | Request::Swallow
        | Request::HungOperation { .. }
        | Request::Write { .. }
        | Request::Fetch { .. }
        | Request::ScanNext { .. }
        | Request::ScanEnd { .. } => Response::Done,
    };
    reply.send(&response);
}

fn done(result: Result<()>) -> Response {
    result.map_or_else(Response::Failed, |()| Response::Done)
}

fn source(hub: &Hub, root: RootId, work: impl FnOnce(&Arc<dyn Source>) -> Result<Response>) -> Response {
    match hub.source(root) {
        Some(source) => work(&source).unwrap_or_else(Response::Failed),
        None => Response::Gone,
    }
}

fn sink(hub: &Hub, root: RootId, work: impl FnOnce(&Arc<dyn Sink>) -> Result<Response>) -> Response {
    match hub.sink(root) {
        Some(sink) => work(&sink).unwrap_or_else(Response::Failed),
        None => Response::Gone,
    }
}
