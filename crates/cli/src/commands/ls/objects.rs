//! Lists objects.

use haul_core::{Error, ErrorKind, ObjectPlace, Result, Side};
use haul_engine::Cancel;
use haul_object::Object;

use crate::args::LsArgs;
use crate::commands::stream::open;
use crate::exit_code::Exit;
use crate::render::{Lines, object_json, object_line, prefix_json, prefix_line, total_json, total_line};
use crate::settings::{Selection, store_settings};

/// Lists objects.
///
/// # Errors
/// [`ErrorKind::NotFound`] if no object has the prefix; [`ErrorKind::Usage`] if nothing can match the selection; errors
/// of the store.
pub(super) fn list(place: &ObjectPlace, args: &LsArgs) -> Result<Exit> {
    let stores = store_settings(&args.store, &args.given, place);
    let client = open(place, Side::Source, &stores, Cancel::default().flag(), None)?;
    let selection = Selection::new(&args.select)?;
    let recursive = args.recursive || args.totals_only;
    let lines = Lines::stdout();
    let (mut next, mut found) = (None, false);
    let (mut count, mut len) = (0, 0u64);
    loop {
        let page = client.list(&place.key, !recursive, next.as_deref())?;
        for prefix in &page.prefixes {
            lines.write(&if args.json { prefix_json(prefix) } else { prefix_line(prefix) });
        }
        for object in &page.objects {
            if !selection.takes(object)? {
                continue;
            }
            count += 1;
            len = len.saturating_add(object.len);
            let line = |object: &Object| if args.json { object_json(object) } else { object_line(object) };
            if !args.totals_only {
                lines.write(&line(object));
            }
        }
        found |= !page.prefixes.is_empty() || !page.objects.is_empty();
        lines.flush();
        if lines.is_closed() {
            return match lines.failure() {
                // A reader that closed the pipe needs no message.
                None => Ok(Exit::Incomplete),
                Some(cause) => Err(Error::new(ErrorKind::Io, Side::Local, "write to standard output", cause)),
            };
        }
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    if !found && !place.key.is_empty() {
        let error = Error::new(ErrorKind::NotFound, Side::Source, "list", "no object has this prefix");
        return Err(error.on(place.to_string()));
    }
    if args.summarize || args.totals_only {
        lines.write(&if args.json {
            total_json("objects", count, len)
        } else {
            total_line("object", count, len)
        });
        lines.flush();
    }
    Ok(if lines.is_closed() { Exit::Incomplete } else { Exit::Done })
}
