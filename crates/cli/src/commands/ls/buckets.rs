//! Lists the buckets of a store.

use haul_core::{ObjectPlace, Result, Side};

use crate::args::LsArgs;
use crate::commands::stream::open_alone;
use crate::exit_code::Exit;
use crate::render::{OutputLines, listed_bucket_json, listed_bucket_line};
use crate::settings::{ObjectSelection, usage};

/// Lists the buckets that the credentials may see, below a heading.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] with options for objects; errors of the store.
pub(super) fn list(place: &ObjectPlace, args: &LsArgs, heading: &[u8]) -> Result<Exit> {
    let is_plain = ObjectSelection::new(&args.select)?.takes_all() && !args.recursive && !args.summarize;
    if !is_plain || args.totals_only {
        let way_out = format!("name one bucket, as in {}://BUCKET/", place.kind.scheme());
        let cause = format!("sizes, ages and totals are those of objects, and this lists buckets: {way_out}");
        return Err(usage("list", cause).on(place.to_string()));
    }
    let client = open_alone(place, Side::Source, &args.store, args.host.family(), &args.given)?;
    let lines = OutputLines::stdout();
    lines.write(heading);
    for page in client.buckets() {
        for bucket in page? {
            let line = if args.json { listed_bucket_json(&bucket) } else { listed_bucket_line(&bucket) };
            lines.write(&line);
        }
        lines.flush();
        if lines.is_closed() {
            break;
        }
    }
    lines.end(Exit::Done)
}
