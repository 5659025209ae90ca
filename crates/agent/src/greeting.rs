//! Hello and Welcome at the remote end.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use haul_core::{Error, ErrorKind, Result, Side};
use haul_transport::{FrameReader, FrameWriter, LinkError, Liveness, Receive, Streams};
use haul_wire::{FrameKind, Hello, VERSION, Welcome, decode_body, encode, peek_version};

/// How long the local end may take to greet. It does so at once.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The first message of a local end.
pub(crate) struct Greeting {
    /// The frame as it came, for another process.
    pub(crate) frame: Vec<u8>,
    pub(crate) hello: Result<Hello>,
}

/// Reads the first frame of a connection, and no byte more if `input` is [`Receive::exact`].
///
/// # Errors
/// [`ErrorKind::Unreachable`] if the stream ends first, [`ErrorKind::Protocol`] if the frame is no Hello.
pub(crate) fn read_hello(input: Receive) -> Result<(Greeting, Receive)> {
    let liveness = Arc::new(Liveness::default());
    liveness.end_after(Some(TIMEOUT));
    let mut reader = FrameReader::new(input, liveness);
    let (header, body) = reader.head().map_err(|error| match error {
        LinkError::Closed => {
            let why = "standard input ended before haul at the local end said anything; haul starts `haul agent` \
                       by itself, over ssh";
            Error::new(ErrorKind::Unreachable, Side::Wire, "talk to the local end", why)
        }
        error => error.into_error(),
    })?;
    let bad = |why: String| Error::new(ErrorKind::Protocol, Side::Wire, "talk to the local end", why);
    let Some((version, release)) = peek_version(&body).filter(|_| header.kind == FrameKind::Hello) else {
        return Err(bad("it did not greet".to_owned()));
    };
    let hello = if version == VERSION {
        decode_body(&body).map_err(Error::from)
    } else {
        let own = env!("CARGO_PKG_VERSION");
        Err(bad(format!("haul {release} there speaks protocol {version}, haul {own} here speaks {VERSION}")))
    };
    Ok((Greeting { frame: [&header.encode()[..], &body].concat(), hello }, reader.into_inner()))
}

/// Answers a Hello on a connection that this process does not serve.
pub(crate) fn welcome(
    output: OwnedFd,
    session: std::result::Result<haul_wire::SessionId, String>,
) -> io::Result<()> {
    let frame = encode(FrameKind::Welcome, 0, &Welcome::new(session), 0).map_err(io::Error::other)?;
    let liveness = Arc::new(Liveness::default());
    liveness.end_after(Some(TIMEOUT));
    let to = Streams::plain(output.try_clone()?, output)?.to;
    FrameWriter::new(to, liveness).write(&frame, &[])
}
