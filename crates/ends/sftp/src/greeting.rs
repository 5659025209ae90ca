//! The greeting of an SFTP server: versions, extensions, limits.

use std::io::{self, BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use haul_core::{Ops, Result};
use haul_ssh::Pipes;

use super::conn::{Answers, Conn};
use super::packet::{self, SftpRequest};
use super::pipe::{Life, PipeEnd};
use super::pipeline::Pipeline;
use super::reply::{Fault, Reply, lost};
use super::server::ServerFeatures;

/// Greets the server. The answers are to be read by a thread of its own, with [`Conn::listen`].
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if no SFTP server that haul can use answers; else the error of the pipes.
pub(super) fn greet(
    pipes: Pipes,
    name: &str,
    life: Arc<Life>,
    ops: Arc<Ops>,
    held: Arc<AtomicU64>,
) -> io::Result<(Conn, Answers)> {
    let mut writer = PipeEnd::new(pipes.to, life.clone())?;
    let mut reader = BufReader::with_capacity(32 * 1024, PipeEnd::new(pipes.from, life.clone())?);
    writer.write_all(&packet::encode_init())?;
    let strange = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    // It is one short line, which arrives at once.
    if let Some((cause, _)) = haul_ssh::no_login(reader.fill_buf()?) {
        return Err(strange(cause));
    }
    let first = packet::read_packet(&mut reader)?;
    let (version, offered) =
        packet::decode_version(&first).map_err(|_| strange("it did not greet as an SFTP server does"))?;
    if version < packet::VERSION {
        return Err(strange(&format!("it speaks version {version} of SFTP, haul speaks version 3")));
    }
    let server = ServerFeatures::with_extensions(&offered);
    let mut conn = Conn::new(server, name, writer, life, ops, pipes.helper, held);
    let mut answers = Answers::new(reader);
    ask_limits(&mut conn, &mut answers).map_err(|error| strange(error.cause()))?;
    Ok((conn, answers))
}

/// Asks for the limits and the home directory, before there is a thread that listens.
fn ask_limits(conn: &mut Conn, answers: &mut Answers) -> Result<()> {
    let begun = Instant::now();
    let mut pipeline = Pipeline::new(conn);
    pipeline.ask(&SftpRequest::Realpath { path: b"." });
    if conn.server.limits {
        pipeline.ask(&SftpRequest::Limits);
    }
    pipeline.flush();
    let mut round_trip = Duration::ZERO;
    for _ in 0..pipeline.sent() {
        conn.take_one(answers)?;
        if round_trip.is_zero() {
            round_trip = begun.elapsed();
        }
    }
    let failed = |fault: Fault| match fault {
        Fault::Lost(error) => error,
        Fault::Status(_, words) => lost(&conn.name, &words),
    };
    let home = pipeline.next().map(Reply::name).transpose().map_err(failed)?.unwrap_or_default();
    // A server that offers to tell its limits and then does not is taken as one that does not offer it.
    let limits = pipeline.next().and_then(|reply| reply.extended().ok());
    drop(pipeline);
    conn.server.home = home;
    conn.server.round_trip = round_trip;
    if let Some(Ok(limits)) = limits.map(|limits| packet::decode_numbers::<4>(&limits)) {
        conn.server.limit(limits);
    }
    Ok(())
}
