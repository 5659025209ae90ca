//! The control socket of a run: one JSON object per line in each direction. Only its user and root may use it.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use haul_engine::RateHandle;
use rustix::net::sockopt::socket_peercred;
use serde::{Deserialize, Serialize};

use super::directory::JobDirectory;
use crate::values::Timetable;

/// Maximum size of a request or a reply, in bytes.
const MAX_LEN: u64 = 16 * 1024;
/// Timeout of each side.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A request to a run.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ControlRequest {
    /// Change the rate or schedule.
    Limit(String),
}

/// The reply.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ControlAnswer {
    /// Success.
    Done,
    /// Refused, with the reason.
    Refused(String),
}

/// Answers requests in a separate thread until the program ends.
///
/// # Errors
/// If the socket cannot be created.
pub(super) fn listen(directory: &JobDirectory, id: u64, controller: RateHandle) -> io::Result<()> {
    let (held, path) = directory.socket(id)?;
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    drop(held);
    std::thread::Builder::new().name("haul-control".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // Errors concern the client only.
            let _ = serve(&stream, &controller);
        }
    })?;
    Ok(())
}

fn serve(stream: &UnixStream, controller: &RateHandle) -> io::Result<()> {
    let asking = socket_peercred(stream)?.uid;
    if !asking.is_root() && asking != rustix::process::geteuid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let answer = match receive(stream)? {
        ControlRequest::Limit(text) => match text.parse::<Timetable>() {
            Ok(table) => {
                controller.set(Box::new(move || table.rate_now()));
                ControlAnswer::Done
            }
            Err(why) => ControlAnswer::Refused(why),
        },
    };
    send(stream, &answer)
}

/// Changes the limit of a run.
///
/// # Errors
/// If the run cannot be reached or refuses.
pub(crate) fn limit(directory: &JobDirectory, id: u64, table: &Timetable) -> io::Result<()> {
    let (_held, path) = directory.socket(id)?;
    let stream = UnixStream::connect(path)?;
    send(&stream, &ControlRequest::Limit(table.to_string()))?;
    match receive(&stream)? {
        ControlAnswer::Done => Ok(()),
        ControlAnswer::Refused(why) => Err(io::Error::other(why)),
    }
}

fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn receive<T: for<'a> Deserialize<'a>>(stream: &UnixStream) -> io::Result<T> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut line = Vec::new();
    BufReader::new(stream.take(MAX_LEN)).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}
