//! `haul rm`.

use haul_core::{Error, ErrorKind, ObjectPlace, Result, Side};
use haul_engine::Cancel;
use haul_object::Client;
use haul_streams::sidecar::{self, Beside};
use haul_streams::uploads::{self, Owner};

use super::selected::{Streams, selected};
use super::stream::open;
use crate::args::RmArgs;
use crate::exit_code::Exit;
use crate::render::{Lines, print_error, removed_line, upload_line};
use crate::settings::{Selection, parse_object, parse_place, store_settings, usage};

/// Removes objects or uploads.
///
/// # Errors
/// Errors before the run starts, and refused requests; the failures of single objects are printed.
pub(super) fn run(args: &RmArgs) -> Result<Exit> {
    let prefixes = args.recursive || args.incomplete;
    let given = &args.given;
    let parse = |text| if prefixes { parse_place(text, given) } else { parse_object(text, given) };
    let places = args.places.iter().map(|text| parse(text)).collect::<Result<Vec<_>>>()?;
    if let Some(all) = places.iter().find(|place| args.recursive && place.key.is_empty()) {
        let error = usage("remove", "this would empty the bucket").on(all.to_string());
        return Err(error.with_hint("give a prefix; to empty a bucket, use the tools of its provider"));
    }
    let selection = Selection::new(&args.select)?;
    if !args.recursive && !selection.takes_all() {
        let error = usage("select objects", "sizes and ages select the objects below a prefix");
        return Err(error.with_hint("add -r, and -n to see what would be removed"));
    }
    let lines = Lines::stdout();
    let mut failed = 0;
    for place in &places {
        let stores = store_settings(&args.store, given, place);
        let client = open(place, Side::Destination, &stores, Cancel::default().flag(), None)?;
        failed += if args.incomplete {
            give_up(&client, place, args, &lines)?
        } else if args.recursive {
            remove_below(&client, place, &selection, args, &lines)?
        } else {
            remove_one(&client, place, args, &lines)?
        };
    }
    lines.flush();
    Ok(if failed > 0 { Exit::Incomplete } else { Exit::Done })
}

/// Removes an object and its sidecar object. Returns the number of failures.
fn remove_one(client: &Client, place: &ObjectPlace, args: &RmArgs, lines: &Lines) -> Result<usize> {
    if client.head(&place.key)?.is_none() {
        return Err(client.missing(&place.key, "remove"));
    }
    let mut keys = vec![place.key.clone()];
    if sidecar::beside(client, &place.key)? == Beside::Sidecar {
        keys.push(sidecar::key_of(&place.key));
    }
    remove(client, &keys, args, lines)
}

/// Removes the selected objects with a prefix. Returns the number of failures.
fn remove_below(
    client: &Client,
    place: &ObjectPlace,
    selection: &Selection<'_>,
    args: &RmArgs,
    lines: &Lines,
) -> Result<usize> {
    let (mut next, mut failed, mut found) = (None, 0, false);
    let mut streams = Streams::default();
    loop {
        let page = client.list(&place.key, false, next.as_deref())?;
        found |= !page.objects.is_empty();
        let keys: Vec<String> = if selection.takes_all() {
            page.objects.into_iter().map(|object| object.key).collect()
        } else {
            selected(client, &page.objects, selection, &mut streams)?
        };
        failed += remove(client, &keys, args, lines)?;
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    if !found {
        let error = Error::new(ErrorKind::NotFound, Side::Destination, "remove", "no object has this prefix");
        return Err(error.on(place.to_string()));
    }
    Ok(failed)
}

fn remove(client: &Client, keys: &[String], args: &RmArgs, lines: &Lines) -> Result<usize> {
    let left = if args.dry_run || keys.is_empty() { Vec::new() } else { client.remove(keys)? };
    for (_, error) in &left {
        print_error(error);
    }
    for key in keys {
        if !args.quiet && !left.iter().any(|(other, _)| other == key) {
            lines.write(&removed_line(&client.name(key), args.dry_run));
        }
    }
    Ok(left.len())
}

/// Aborts incomplete uploads. Returns the number of failures.
fn give_up(client: &Client, place: &ObjectPlace, args: &RmArgs, lines: &Lines) -> Result<usize> {
    if let Some(kept) = client.terms().keeps_uploads {
        let cause = format!("the store has no such request: {kept}");
        return Err(usage("abort uploads", cause).on(place.to_string()));
    }
    let mut failed = 0;
    for upload in client.uploads(&place.key)? {
        let owner = uploads::owner(client, &upload);
        let goes = args.any || owner == Owner::Ours;
        if goes && !args.dry_run {
            if let Err(error) = client.abort(&upload) {
                print_error(&error);
                failed += 1;
                continue;
            }
            uploads::forget(client, &upload);
        }
        if !args.quiet {
            let why = match owner {
                _ if goes => None,
                Owner::Busy => Some("in use by a haul on this host"),
                Owner::Ours | Owner::Unknown => Some("not started by haul on this host: use --any"),
            };
            lines.write(&upload_line(&client.name(&upload.key), &upload.begun, why, args.dry_run));
        }
    }
    Ok(failed)
}
