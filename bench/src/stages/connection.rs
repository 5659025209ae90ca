//! A connection over the loopback device: the CPU time of its sending and of its receiving thread.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use haul_transport::{ConnectionKeys, FrameReader, FrameWriter, KeyPair, Liveness, Streams};

use super::work::{WorkTime, cpu_time, repeat};
use crate::stop::Stop;

/// How long the handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Sends `content` again and again over one connection: the work of the sender and that of the receiver.
pub(super) fn pass(content: &[u8], encrypted: bool, time: Duration, stop: &Stop) -> Result<[WorkTime; 2]> {
    let (near, far) = connect(encrypted)?;
    thread::scope(|scope| {
        let receiver = scope.spawn(move || receive(far, content.len()));
        let sent = send(near, content, time, stop);
        let received = receiver.join().map_err(|_| anyhow!("the receiver ended early"))?;
        Ok([sent?, received?])
    })
}

fn send(to: Streams, content: &[u8], time: Duration, stop: &Stop) -> Result<WorkTime> {
    let mut writer = FrameWriter::new(to.to, Arc::new(Liveness::default()));
    let sent = repeat(time, stop, || Ok(writer.write(&[], content).map(|()| content.len())?));
    writer.close();
    sent
}

fn receive(from: Streams, len: usize) -> Result<WorkTime> {
    let mut reader = FrameReader::new(from.from, Arc::new(Liveness::default()));
    let mut content = vec![0; len];
    let (mut bytes, begun) = (0, cpu_time());
    loop {
        let filled = reader.fill(&mut content)?;
        bytes += filled as u64;
        if filled < len {
            return Ok(WorkTime { bytes, cpu: cpu_time().saturating_sub(begun) });
        }
    }
}

/// Two ends of a connection.
fn connect(encrypted: bool) -> Result<(Streams, Streams)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    if !encrypted {
        return Ok((plain(near)?, plain(far)?));
    }
    let (near_key, far_key) = (KeyPair::generate()?, KeyPair::generate()?);
    let keys = |own: &KeyPair, other: &KeyPair| ConnectionKeys {
        identity: own.clone(),
        peer: other.public_key().clone(),
        congestion: None,
    };
    let (near_keys, far_keys) = (keys(&near_key, &far_key), keys(&far_key, &near_key));
    thread::scope(|scope| {
        let accepted = scope.spawn(move || far_keys.accept(far, HANDSHAKE));
        let connected = near_keys.connect(near, HANDSHAKE).context("no TLS connection");
        let accepted = accepted.join().map_err(|_| anyhow!("the other end ended early"))?;
        Ok((connected?, accepted.context("no TLS connection")?))
    })
}

fn plain(socket: TcpStream) -> io::Result<Streams> {
    let other = socket.try_clone()?;
    Ok(Streams {
        socket: Some(socket),
        ..Streams::plain(OwnedFd::from(other.try_clone()?), OwnedFd::from(other))?
    })
}
