//! The effect of each request.

use std::io;
use std::sync::Arc;

use haul_codec::Packed;
use haul_core::{BatchData, Error, ErrorKind, Result, Side, Sink, SliceData, Source, WriteDone};
use haul_local::Nice;
use haul_transport::LinkError;
use haul_wire::{Request, Response, RootId};

use crate::accept::connect_back;
use crate::connection::RequestContent;
use crate::reply::{OutgoingContent, ReplyDuty};
use crate::said;
use crate::scan::ServedScan;
use crate::session::{OpenEnd, RequestingEnd, ServerSession};
use crate::third_party::{self, Fetch};
use crate::watch;

/// Carries out a request: on this thread if it is quick or has to hold up the connection, else on a worker.
pub(crate) fn serve(
    session: &Arc<ServerSession>,
    caller: &RequestingEnd,
    reply: ReplyDuty,
    request: Request,
    mut payload: RequestContent<'_>,
) -> std::result::Result<(), LinkError> {
    // On this thread, so that the sink takes writes in their order, and a connection is read no faster than its sink
    // takes them.
    if let Request::Write { .. } = request {
        return write(session, reply, request, payload);
    }
    // The content of a Swallow is dropped here, so that the connection is read as fast as it delivers.
    payload.collect().map_err(|error| io::Error::other(error.to_string()))?;
    serve_without_content(session, caller, reply, request);
    Ok(())
}

fn serve_without_content(
    session: &Arc<ServerSession>,
    caller: &RequestingEnd,
    reply: ReplyDuty,
    request: Request,
) {
    match request {
        Request::Nothing | Request::Swallow => reply.send(&Response::Done),
        Request::ExpectRate { bytes_per_second } => {
            session.packer.expect(bytes_per_second as f64);
            reply.send(&Response::Done);
        }
        Request::HungOperation { root, timeout, known, held_by_iops } => {
            watch::watch(session, reply, root, timeout, known, held_by_iops);
        }
        Request::Said { root, from } => said::said(session, reply, root, from),
        // On this thread: all workers may wait for output of the program.
        Request::Stop { root } => {
            if let Some(source) = session.source(root) {
                source.stop();
            }
            reply.send(&Response::Done);
        }
        // On this thread: all workers may be hashing.
        Request::Hashed { root } => reply
            .send(&session.source(root).map_or(Response::Gone, |source| Response::Hashed(source.hashed()))),
        Request::ScanNext { scan, part, acked } => match session.scan(scan) {
            Some(scan) => scan.next(part, acked, reply),
            None => reply.send(&Response::Gone),
        },
        Request::ScanEnd { scan } => {
            session.end_scan(scan);
            reply.send(&Response::Done);
        }
        Request::Fetch { root, pair, source, batch, compress, ticket } => {
            let (own, fetch) = (session.clone(), Fetch { pair, source, sink: root, batch, compress, ticket });
            session.fetchers.run(Box::new(move || third_party::fetch(&own, &fetch, reply)));
        }
        Request::Connect { .. } if let RequestingEnd::Puller(grant) = caller => {
            third_party::reconnect(session, grant, reply);
        }
        slow => {
            let own = session.clone();
            session.workers.run(Box::new(move || work(&own, reply, slow)));
        }
    }
}

/// Passes content to a sink.
fn write(
    session: &ServerSession,
    reply: ReplyDuty,
    request: Request,
    mut payload: RequestContent<'_>,
) -> std::result::Result<(), LinkError> {
    match pass(session, reply, request, &mut payload) {
        // The sender knows why, and waits for no outcome.
        Err(_) if payload.is_withdrawn => Ok(()),
        passed => passed.map_err(|error| io::Error::other(error.to_string()).into()),
    }
}

/// Passes content to a sink: as it arrives if the sink takes it so, else when all of it is there.
fn pass(
    session: &ServerSession,
    reply: ReplyDuty,
    request: Request,
    payload: &mut RequestContent<'_>,
) -> Result<()> {
    let Request::Write { root, batch, mut slices, packing, .. } = request else { return Ok(()) };
    let Some(sink) = session.sink(root) else {
        payload.collect()?;
        reply.send(&Response::Gone);
        return Ok(());
    };
    let mut done: Option<WriteDone> = Some(Box::new(move |outcomes| reply.send(&Response::Write(outcomes))));
    if packing.is_none() {
        sink.write_arriving(&batch, &slices, payload, &mut done)?;
    }
    let Some(done) = done else { return Ok(()) };
    let (mut content, proof) = payload.collect()?;
    if let (Some(proof), [Ok(slice)]) = (proof, slices.as_mut_slice()) {
        slice.value = proof;
    }
    session.packer.unpack(packing, &mut slices, &mut content);
    sink.write(BatchData { batch, slices, content, at_hand: false }, done);
    Ok(())
}

/// Carries out a request that may take its time.
fn work(session: &Arc<ServerSession>, reply: ReplyDuty, request: Request) {
    let response = match request {
        Request::Connect { address, port } => done(connect_back(session, address, port)),
        Request::OpenSource { root, place, options } => done(
            session.open(root, || session.ends.source(&place, options, &session.pool).map(OpenEnd::Source)),
        ),
        Request::OpenSink { root, place, options } => {
            done(session.open(root, || session.ends.sink(&place, &options, &session.pool).map(OpenEnd::Sink)))
        }
        Request::RunProducer { root, program, window } => done(
            session.run(root, || session.ends.producer(&program, window, &session.pool).map(OpenEnd::Source)),
        ),
        Request::RunConsumer { root, program } => {
            done(session.run(root, || session.ends.consumer(&program).map(OpenEnd::Sink)))
        }
        Request::Close { root } => {
            session.close_root(root);
            Response::Done
        }
        Request::Read { .. } | Request::Pull { .. } => return read(session, reply, request),
        Request::Nice => Response::Nice(session.nice.lock().get_or_insert_with(Nice::begin).pressure()),
        Request::Probe(task) => session.ends.probe(&task).map_or_else(Response::Failed, Response::Probe),
        Request::Produce { bytes } => {
            let mut content = session.pool.take();
            // The check of the frame allows no more than fits.
            if let Some(space) = content.grow(bytes as usize) {
                haul_probe::fill_random(space, reply.id());
            }
            return reply
                .send_with(&Response::Produced, OutgoingContent { content, ..OutgoingContent::default() });
        }
        Request::OwnerIds { names } => Response::OwnerIds(names.iter().map(haul_local::id_of).collect()),
        Request::Admit { .. }
        | Request::Expect { .. }
        | Request::Visit { .. }
        | Request::Meet { .. }
        | Request::Rate { .. } => third_party::serve(session, request),
        Request::ScanStart { root, scan, options } => {
            let start = |source: &Arc<dyn Source>| ServedScan::start(source.clone(), options);
            let started = source(session, root, |source| {
                session.start_scan(scan, || start(source))?;
                Ok(Response::Done)
            });
            return match session.scan(scan).filter(|_| started == Response::Done) {
                Some(scan) => scan.next(0, 0, reply),
                None => reply.send(&started),
            };
        }
        Request::Root { .. }
        | Request::Above { .. }
        | Request::Lookup { .. }
        | Request::Digest { .. }
        | Request::Sha256 { .. }
        | Request::RemoveUnchanged { .. }
        | Request::PageReport { .. } => of_source(session, request),
        of_sink => self::of_sink(session, of_sink),
    };
    reply.send(&response);
}

/// Answers with content of a source.
fn read(session: &ServerSession, mut reply: ReplyDuty, request: Request) {
    let (Request::Read { root, batch, pages, compress, proof_may_follow }
    | Request::Pull { root, batch, pages, compress, proof_may_follow, .. }) = request
    else {
        return;
    };
    let grows = batch.entries.iter().any(|entry| entry.is_growing());
    let data = session.source(root).map(|source| match &pages {
        _ if grows && !source.caps().growing => {
            Err(Error::new(ErrorKind::Protocol, Side::Source, "read", "it is no stream of a program"))
        }
        Some(pages) => source.read_changed(&batch, pages).map(Some),
        None if proof_may_follow => source.read_arriving(&batch, &mut |_, slices, content| {
            let len = slices.iter().flatten().map(SliceData::data_len).sum();
            match session.packer.pass(compress, len, content) {
                Some(mut content) => reply.send_passing(slices, &mut content),
                None => Ok(false),
            }
        }),
        None => source.read(&batch).map(Some),
    });
    match data {
        Some(Ok(Some(data))) => {
            let BatchData { batch, slices, mut content, .. } = data;
            let ended = batch.entries.first().filter(|entry| grows && !entry.is_growing());
            let ended = ended.map(|entry| entry.len);
            let Packed { packing, sending } = session.packer.pack(compress, &mut content);
            let response = Response::Read { slices, packing, ended, proof_follows: false };
            reply.send_with(&response, OutgoingContent { content, sending });
        }
        // It was sent while it was read.
        Some(Ok(None)) => {}
        Some(Err(error)) => reply.send(&Response::Failed(error)),
        None => reply.send(&Response::Gone),
    }
}

/// The calls of [`Source`].
fn of_source(session: &ServerSession, request: Request) -> Response {
    match request {
        Request::Root { root } => source(session, root, |source| source.root().map(Response::Root)),
        Request::Above { root, names } => {
            source(session, root, |source| source.above(&names).map(Response::Above))
        }
        Request::Lookup { root, paths } => {
            source(session, root, |source| source.lookup(&paths).map(Response::Lookup))
        }
        Request::Digest { root, paths } => {
            source(session, root, |source| source.digest(&paths).map(Response::Digest))
        }
        Request::Sha256 { root, paths } => {
            source(session, root, |source| source.sha256(&paths).map(Response::Sha256))
        }
        Request::PageReport { root } => {
            source(session, root, |source| source.page_report().map(Response::PageReport))
        }
        Request::RemoveUnchanged { root, entries } => source(session, root, |source| {
            session.ends.may_remove(Side::Source)?;
            source.remove_unchanged(&entries).map(Response::Removed)
        }),
        _ => Response::Done,
    }
}

/// The calls of [`Sink`], but for `write`.
fn of_sink(session: &ServerSession, request: Request) -> Response {
    match request {
        Request::PageHashes { root, entry, slices } => {
            sink(session, root, |sink| sink.pages(&entry, slices).map(Response::PageHashes))
        }
        Request::Offer { root, offers } => {
            sink(session, root, |sink| sink.offer(&offers).map(Response::Answers))
        }
        Request::Flush { root } => sink(session, root, |sink| {
            sink.flush();
            Ok(Response::Done)
        }),
        Request::Discard { root, paths } => {
            sink(session, root, |sink| sink.discard(&paths).map(|()| Response::Done))
        }
        Request::Link { root, links } => sink(session, root, |sink| sink.link(&links).map(Response::Answers)),
        Request::Remove { root, paths } => sink(session, root, |sink| {
            session.ends.may_remove(Side::Destination)?;
            sink.remove(&paths).map(Response::Removed)
        }),
        Request::Finish { root } => sink(session, root, |sink| {
            let mut report = sink.finish()?;
            report.notes.truncate(haul_wire::MAX_NOTES);
            Ok(Response::Finish(report))
        }),
        _ => Response::Done,
    }
}

fn done(result: Result<()>) -> Response {
    result.map_or_else(Response::Failed, |()| Response::Done)
}

fn source(
    session: &ServerSession,
    root: RootId,
    work: impl FnOnce(&Arc<dyn Source>) -> Result<Response>,
) -> Response {
    match session.source(root) {
        Some(source) => work(&source).unwrap_or_else(Response::Failed),
        None => Response::Gone,
    }
}

fn sink(
    session: &ServerSession,
    root: RootId,
    work: impl FnOnce(&Arc<dyn Sink>) -> Result<Response>,
) -> Response {
    match session.sink(root) {
        Some(sink) => work(&sink).unwrap_or_else(Response::Failed),
        None => Response::Gone,
    }
}
