//! The program behind `-e`: packets both ways, and the lie in those of the server.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use super::lie::{Field, ServerLie};
use super::packet::{self, Before};

/// The exit code of ssh when there is no connection.
const NO_CONNECTION: u8 = 255;

/// The lie, its directory, and the requests without an answer.
struct SftpLiar {
    lie: ServerLie,
    dir: PathBuf,
    /// The kind of each request, by its number.
    asked: Mutex<HashMap<[u8; 4], String>>,
}

impl SftpLiar {
    /// Whether it is time for the lie; it then counts as told.
    fn tells(&self, asked: &str) -> bool {
        if asked != self.lie.asked && self.lie.asked != "any" {
            return false;
        }
        let told = self.dir.join("told");
        OpenOptions::new().write(true).create_new(true).open(told).is_ok() || self.lie.every
    }

    fn read(&self, body: &[u8]) -> String {
        if body.first() == Some(&2) {
            return "init".to_owned();
        }
        self.asked.lock().unwrap().remove(&packet::id(body)).unwrap_or_default()
    }
}

/// Runs as the remote shell: `DIR-OF-LIE [SSH-OPTION]… HOST sftp`. Ends when the server does.
#[must_use]
pub fn serve(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let dir = PathBuf::from(arguments.into_iter().next().unwrap_or_default());
    match run(&dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell if even this cannot be written.
            let _ = writeln!(io::stderr(), "lying server: {error}");
            ExitCode::from(NO_CONNECTION)
        }
    }
}

fn run(dir: &Path) -> io::Result<()> {
    let lie = ServerLie::parse(&fs::read_to_string(dir.join("lie"))?);
    let lie = lie.ok_or_else(|| io::Error::other("the lie cannot be read"))?;
    let liar = Arc::new(SftpLiar { lie, dir: dir.to_owned(), asked: Mutex::default() });
    let mut server = Command::new(crate::sshd::sftp_server());
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (to, from) = (server.stdin.take(), server.stdout.take());
    let (Some(mut to), Some(from)) = (to, from) else { return Err(io::ErrorKind::BrokenPipe.into()) };
    let asking = Arc::clone(&liar);
    // Detached: it may wait for bytes when the server has ended. Dropping `to` ends the server.
    thread::spawn(move || {
        let mut local = BufReader::new(io::stdin());
        while let Ok(body) = read(&mut local) {
            let asked = packet::asked(&body);
            if asking.lie.field == Field::Pretend && asking.tells(&asked) {
                let answer = packet::status(packet::id(&body), asking.lie.number as u32, b"");
                if send(&packet::framed(&answer)).is_err() {
                    break;
                }
                continue;
            }
            asking.asked.lock().unwrap().insert(packet::id(&body), asked);
            if to.write_all(&packet::framed(&body)).and_then(|()| to.flush()).is_err() {
                break;
            }
        }
    });
    let answered = answer(&liar, BufReader::new(from));
    let _ = server.kill();
    let _ = server.wait();
    answered
}

/// Passes on the answers of the server, until the server or the lie ends the connection.
fn answer(liar: &SftpLiar, mut from: impl Read) -> io::Result<()> {
    let lie = &liar.lie;
    let mut before = Before::default();
    let (mut part, mut parts) = (Vec::new(), 0);
    loop {
        let body = match read(&mut from) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        };
        let asked = liar.read(&body);
        let endless = matches!(lie.field, Field::Again | Field::Nothing | Field::Others | Field::Stuffed);
        let mut changed = None;
        if endless {
            let bounded = matches!(lie.field, Field::Others | Field::Stuffed);
            if packet::is_end(&body) && (!bounded || parts < lie.number) && liar.tells(&asked) {
                parts += 1;
                let id = packet::id(&body);
                let names = match lie.field {
                    Field::Again => [&[packet::NAMES][..], &id, &part].concat(),
                    Field::Nothing => [&[packet::NAMES][..], &id, &[0; 4]].concat(),
                    field => packet::other_names(id, parts, field == Field::Stuffed),
                };
                changed = Some(packet::framed(&names));
            } else if asked == "readdir" && body.first() == Some(&packet::NAMES) {
                part = body[5..].to_vec();
            }
        } else if lie.field != Field::Pretend
            && (asked == lie.asked || lie.asked == "any")
            && let Some(lied) = packet::lie(lie, &body, &before)
            && liar.tells(&asked)
        {
            if lie.field == Field::End {
                return Ok(());
            }
            changed = Some(lied);
        }
        before.id = packet::id(&body);
        if body.first() == Some(&102) {
            before.handle = body.get(9..).unwrap_or_default().to_vec();
        }
        send(&changed.unwrap_or_else(|| packet::framed(&body)))?;
    }
}

fn send(bytes: &[u8]) -> io::Result<()> {
    let mut local = io::stdout().lock();
    local.write_all(bytes)?;
    local.flush()
}

/// A packet without its length.
fn read(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let mut body = vec![0; u32::from_be_bytes(len) as usize];
    from.read_exact(&mut body)?;
    Ok(body)
}
