//! `haul put -n`: estimates the requests.

use haul_core::{ObjectPlace, Result};
use haul_object::Client;
use haul_streams::put::estimate;

use crate::args::PutArgs;
use crate::exit_code::Exit;
use crate::render::{OutputLines, estimate_json, estimate_line};
use crate::settings::usage;
use crate::standard_streams;

/// Prints the requests for each destination. Reads no input and makes no request.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if the length of the stream is unknown or too large.
pub(super) fn run(
    args: &PutArgs,
    places: &[&ObjectPlace],
    clients: &[Client],
    max_parts: u32,
) -> Result<Exit> {
    if args.fifo.fifo_dir.is_some() {
        return Err(usage(
            "estimate requests",
            "-n does not support --fifo-dir: estimate one stream with --length",
        ));
    }
    let len = args.length.or_else(|| length_of_input().filter(|_| args.command.is_empty()));
    let len =
        len.ok_or_else(|| usage("estimate requests", "the stream's length is unknown: add --length SIZE"))?;
    let lines = OutputLines::stdout();
    for (place, client) in places.iter().zip(clients) {
        let estimate = estimate(client, len, max_parts, args.no_clobber).ok_or_else(|| {
            usage("put the stream", format!("{len} bytes do not fit into {max_parts} parts"))
                .on(place.to_string())
        })?;
        let name = place.to_string();
        lines.write(&if args.output.json {
            estimate_json(&name, len, estimate)
        } else {
            estimate_line(&name, len, estimate)
        });
    }
    lines.end(Exit::Done)
}

/// The remaining bytes of standard input; `None` if it is not a file.
fn length_of_input() -> Option<u64> {
    let mut file = std::fs::File::from(standard_streams::input().ok()?);
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let at = std::io::Seek::stream_position(&mut file).ok()?;
    Some(metadata.len().saturating_sub(at))
}
