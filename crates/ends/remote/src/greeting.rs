//! The greeting on a connection: Hello and Welcome, and the error for other output.

use std::sync::Arc;
use std::time::Duration;

use haul_core::path::printable;
use haul_core::{Error, ErrorKind, Side};
use haul_ssh::dial::{AfterRefusal, DialRefused, DialedLink, Helper, LOGIN, watched};
use haul_transport::{FrameReader, FrameWriter, LinkError, Liveness};
use haul_wire::{
    FrameError, FrameHeader, FrameKind, HEADER_LEN, Hello, VERSION, Welcome, decode_body, encode,
    peek_version,
};

/// The operation that fails if the remote haul speaks another version of the protocol.
const VERSIONS: &str = "match the version of haul at";

/// Whether this error means that the remote haul speaks another version of the protocol.
#[must_use]
pub fn is_other_version(error: &Error) -> bool {
    error.operation() == VERSIONS && error.kind() == ErrorKind::Protocol
}

/// A connection after the greeting.
pub(super) struct Greeted {
    pub(super) reader: FrameReader,
    pub(super) writer: FrameWriter,
    pub(super) liveness: Arc<Liveness>,
    pub(super) helper: Option<Arc<dyn Helper>>,
    pub(super) welcome: Welcome,
}

/// Sends Hello and waits for the Welcome.
///
/// The other end may take `limit` for its answer. If `asks`, as in a first login, it may take [`LOGIN`] times as long,
/// and any time while ssh waits for the user.
pub(super) fn greet(
    link: DialedLink,
    hello: &Hello,
    limit: Duration,
    asks: bool,
    name: &str,
) -> Result<Greeted, DialRefused> {
    let helper = link.helper.clone();
    let liveness = Arc::new(Liveness::default());
    liveness.end_after(Some(limit));
    let result = match helper.clone().filter(|_| asks) {
        Some(helper) => {
            let limit = limit.saturating_mul(LOGIN);
            liveness.end_after(Some(limit));
            let looked = liveness.clone();
            let look = move || {
                if helper.is_asking() {
                    looked.end_after(Some(limit));
                }
                true
            };
            watched(look, || try_greet(link, hello, liveness, name))
                .unwrap_or_else(|error| Err(DialRefused { trouble: AfterRefusal::Later, error }))
        }
        None => try_greet(link, hello, liveness, name),
    };
    if result.is_err()
        && let Some(helper) = &helper
    {
        helper.kill();
        helper.collect(Duration::ZERO);
    }
    result
}

fn try_greet(
    link: DialedLink,
    hello: &Hello,
    liveness: Arc<Liveness>,
    name: &str,
) -> Result<Greeted, DialRefused> {
    let refused = |trouble, error| DialRefused { trouble, error };
    let mut reader = FrameReader::new(link.streams.from, liveness.clone());
    let mut writer = FrameWriter::new(link.streams.to, liveness.clone());
    let frame =
        encode(FrameKind::Hello, 0, hello, 0).map_err(|error| refused(AfterRefusal::Fatal, error.into()))?;
    // If the remote end has ended, it may have sent the reason, which is read below.
    let _ = writer.write(&frame, &[]);
    let mut head = [0; HEADER_LEN];
    let filled = reader.fill(&mut head).map_err(LinkError::Io);
    let answer = filled.and_then(|filled| reader.body(&head, filled));
    let (header, body) = match answer {
        Ok(answer) => answer,
        Err(LinkError::Frame(FrameError::Magic)) => return Err(strange(&mut reader, &head, &liveness, name)),
        Err(_) if liveness.is_ended() => {
            let error =
                Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", "it did not answer in time");
            return Err(refused(AfterRefusal::Later, error.on(name)));
        }
        Err(error) => {
            let reported = link.helper.as_ref().and_then(|helper| helper.explain());
            return Err(reported.unwrap_or_else(|| refused(AfterRefusal::Later, error.into_error().on(name))));
        }
    };
    let protocol = |why: String| Error::new(ErrorKind::Protocol, Side::Wire, "talk to haul at", why).on(name);
    let spoken = if header.kind == FrameKind::Welcome { peek_version(&body) } else { None };
    let Some((version, release)) = spoken else {
        return Err(refused(AfterRefusal::Fatal, protocol("it did not greet".to_owned())));
    };
    if version != VERSION {
        let why = format!(
            "haul {release} there speaks protocol {version}, haul {} here speaks protocol {VERSION}",
            hello.release
        );
        let hint = "add `--bootstrap` to use this version there too, from ~/.cache/haul; or install the same version \
                    at both ends, or name another one there with `--remote-haul PATH`";
        let error = Error::new(ErrorKind::Protocol, Side::Wire, VERSIONS, why).on(name);
        return Err(refused(AfterRefusal::Fatal, error.with_hint(hint)));
    }
    let welcome: Welcome =
        decode_body(&body).map_err(|error| refused(AfterRefusal::Fatal, Error::from(error).on(name)))?;
    liveness.end_after(None);
    Ok(Greeted { reader, writer, liveness, helper: link.helper, welcome })
}

/// The error for output that is not a frame.
fn strange(reader: &mut FrameReader, head: &[u8], liveness: &Liveness, name: &str) -> DialRefused {
    // The rest of this line arrives at once; more is not worth a longer wait.
    liveness.end_after(Some(Duration::from_millis(300)));
    let mut said = [0; 128];
    said[..head.len()].copy_from_slice(head);
    let _ = reader.fill(&mut said[head.len()..]);
    let end = said.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
    // The greeting may follow in the same bytes.
    let ours = said.windows(4).position(|bytes| FrameHeader::check_prefix(bytes).is_ok());
    let no_login = haul_ssh::no_login(&said).map(|(cause, hint)| (cause, hint.to_owned()));
    if let Some((cause, hint)) = no_login.or_else(|| haul_ssh::sftp_only(&said, name)) {
        let error = Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", cause).on(name);
        return DialRefused { trouble: AfterRefusal::Fatal, error: error.with_hint(hint) };
    }
    let shown = printable(said[..ours.unwrap_or(end)].trim_ascii_end());
    let error = Error::new(
        ErrorKind::Protocol,
        Side::Wire,
        "talk to haul at",
        format!("instead of a greeting it sent `{shown}`"),
    )
    .on(name)
    .with_hint(
        "a login script there prints something (look at ~/.bashrc); it must be silent for ssh commands",
    );
    DialRefused { trouble: AfterRefusal::Fatal, error }
}
