//! `haul rm`.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;

use haul_core::{Error, ErrorKind, Location, ObjectPlace, Result, Side};
use haul_job::{KeyPattern, exists_key, is_key_pattern};
use haul_object::{Client, Object};
use haul_streams::index_file;
use haul_streams::sidecar::{self, SidecarObject};
use haul_streams::uploads::{self, Owner};

use super::rm_share;
use super::selected::{ListedStreams, remove_keys, selected};
use super::stream::open_alone;
use crate::args::{GivenArgs, RmArgs};
use crate::exit_code::Exit;
use crate::locations::parse_location;
use crate::render::{OutputLines, print_error, upload_line};
use crate::settings::{ObjectSelection, check_object, usage};

/// The cause and the hint for a prefix that needs `-r`.
const WITHOUT_R: &str = "it is a prefix, and -r is not given";
const WITH_R: &str = "-r removes all objects below it; -rn lists them";

/// Removes objects, entries of shares, or uploads.
///
/// # Errors
/// Errors before the run starts, and refused requests; the failures of single objects are printed.
pub(super) fn run(args: &RmArgs) -> Result<Exit> {
    let prefixes = args.recursive || args.incomplete;
    let given = &args.given;
    let parse = |text| removable(text, given, prefixes);
    let is_share = |text: &&OsString| matches!(parse_location(text, given), Ok(Location::Smb { .. }));
    let (shares, objects): (Vec<&OsString>, Vec<&OsString>) = args.places.iter().partition(is_share);
    let places = objects.iter().map(|text| parse(text)).collect::<Result<Vec<_>>>()?;
    let shares = shares.iter().map(|text| parse_location(text, given)).collect::<Result<Vec<_>>>()?;
    let is_all = |key: &str| key.bytes().all(|byte| matches!(byte, b'*' | b'/'));
    let selection = ObjectSelection::new(&args.select)?;
    let takes_all = args.recursive && selection.takes_all();
    if let Some(all) = places.iter().find(|place| takes_all && is_all(&place.key)) {
        let error = usage("remove", "this would empty the bucket").on(all.to_string());
        let bucket = format!("{}://{}", all.kind.scheme(), all.bucket);
        return Err(error.with_hint(format!(
            "give a prefix; `haul rb --force {bucket}` removes all objects and the bucket itself"
        )));
    }
    if !args.recursive && !selection.takes_all() {
        let error = usage("select objects", "sizes and ages select the objects below a prefix");
        return Err(error.with_hint("add -r, and -n to list the objects first"));
    }
    let lines = OutputLines::stdout();
    let mut failed = rm_share::remove(&shares, args, &selection, &lines)?;
    for place in &places {
        let client = open_alone(place, Side::Destination, &args.store, args.family.chosen(), given)?;
        failed += if args.incomplete {
            give_up(&client, place, args, &lines)?
        } else if is_key_pattern(&place.key) && !exists_key(&client, &place.key)? {
            remove_matches(&client, &place.key, &selection, args, &lines)?
        } else if args.recursive {
            remove_tree(&client, &place.key, &selection, args, &lines)?
        } else {
            remove_one(&client, place, args, &lines)?
        };
    }
    lines.end(if failed > 0 { Exit::Incomplete } else { Exit::Done })
}

/// Reads the location of an object, or of a prefix if `prefixes` may be given. For any other location the hint names the
/// program that removes it.
fn removable(text: &OsStr, given: &GivenArgs, prefixes: bool) -> Result<ObjectPlace> {
    let program = match parse_location(text, given)? {
        Location::Object(place) if prefixes => return Ok(place),
        Location::Object(place) if !place.key.is_empty() && place.key.ends_with('/') => {
            return Err(usage("remove", WITHOUT_R).on(place.to_string()).with_hint(WITH_R));
        }
        Location::Object(place) => return check_object(&place).map(|()| place),
        Location::Local(_) => "use rm(1)",
        _ => "run rm(1) there, as in `ssh HOST rm PATH`",
    };
    let cause = "`haul rm` removes objects of stores and files of shares only";
    Err(usage("remove", cause).on(text.as_encoded_bytes()).with_hint(program))
}

/// Removes the object of the place, which must exist. Returns the number of failures.
fn remove_one(client: &Client, place: &ObjectPlace, args: &RmArgs, lines: &OutputLines) -> Result<usize> {
    if client.head(&place.key)?.is_some() {
        return remove_stream(client, &place.key, args, lines);
    }
    if exists_key(client, &format!("{}/", place.key)).is_ok_and(|exists| exists) {
        return Err(is_prefix(client, &place.key).with_hint(WITH_R));
    }
    Err(client.missing(&place.key, "remove"))
}

/// Removes an object, its sidecar object and its index. Returns the number of failures.
fn remove_stream(client: &Client, key: &str, args: &RmArgs, lines: &OutputLines) -> Result<usize> {
    let mut keys = vec![key.to_owned()];
    if sidecar::beside(client, key)? == SidecarObject::Sidecar {
        keys.push(sidecar::key_of(key));
    }
    // Only haul has use for this name.
    let index = index_file::key_of(key);
    if client.head(&index)?.is_some() {
        keys.push(index);
    }
    remove(client, &keys, args, lines)
}

/// Removes the selected objects below a key, and that of the key itself, as rm(1) does: none whose name only begins with
/// the key. Returns the number of failures.
fn remove_tree(
    client: &Client,
    key: &str,
    selection: &ObjectSelection<'_>,
    args: &RmArgs,
    lines: &OutputLines,
) -> Result<usize> {
    if key.is_empty() || key.ends_with('/') {
        let removed = remove_below(client, key, selection, args, lines)?;
        return removed.ok_or_else(|| nothing(client, key, "no object is below it"));
    }
    let own = client.head(key)?;
    let below = remove_below(client, &format!("{key}/"), selection, args, lines)?;
    match (own, below) {
        (None, None) => {
            let error = nothing(client, key, "it is no object, and none is below it");
            Err(error.with_hint("a pattern, as in 'KEY*', names all objects whose names begin with KEY"))
        }
        (Some(object), below) if selection.takes(&object)? => {
            Ok(below.unwrap_or_default() + remove_stream(client, key, args, lines)?)
        }
        (_, below) => Ok(below.unwrap_or_default()),
    }
}

/// Removes the selected objects with a prefix. Returns the number of failures; `None` if no object has the prefix.
fn remove_below(
    client: &Client,
    prefix: &str,
    selection: &ObjectSelection<'_>,
    args: &RmArgs,
    lines: &OutputLines,
) -> Result<Option<usize>> {
    let (mut failed, mut found) = (0, false);
    let mut streams = ListedStreams::default();
    for page in client.pages(prefix, false) {
        let page = page?;
        found |= !page.objects.is_empty();
        let keys: Vec<String> = if selection.takes_all() {
            page.objects.into_iter().map(|object| object.key).collect()
        } else {
            selected(client, &page.objects, &|object| selection.takes(object), &mut streams)?
        };
        failed += remove(client, &keys, args, lines)?;
    }
    Ok(found.then_some(failed))
}

/// Removes the selected objects that match a pattern, and with -r those below the directories that do. Returns the
/// number of failures.
fn remove_matches(
    client: &Client,
    key: &str,
    selection: &ObjectSelection<'_>,
    args: &RmArgs,
    lines: &OutputLines,
) -> Result<usize> {
    let pattern = KeyPattern::new(client, key)?;
    let (mut failed, mut found) = (0, false);
    let mut streams = ListedStreams::default();
    pattern.each_page(&mut |page| {
        let selects = |object: &Object| Ok(pattern.matches(&object.key) && selection.takes(object)?);
        let keys = selected(client, &page.objects, &selects, &mut streams)?;
        found |= page.objects.iter().any(|object| pattern.matches(&object.key)) || !page.prefixes.is_empty();
        failed += remove(client, &keys, args, lines)?;
        for prefix in &page.prefixes {
            failed += if args.recursive {
                // Some stores list a prefix whose last object is gone.
                remove_below(client, prefix, selection, args, lines)?.unwrap_or_default()
            } else {
                print_error(&is_prefix(client, prefix));
                1
            };
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if found { Ok(failed) } else { Err(nothing(client, key, "no object matches the pattern")) }
}

/// The error of a prefix that is removed with `-r` only.
fn is_prefix(client: &Client, prefix: &str) -> Error {
    Error::new(ErrorKind::NotEmpty, Side::Destination, "remove", WITHOUT_R).on(client.name(prefix))
}

/// The error of a location where nothing is.
fn nothing(client: &Client, key: &str, cause: &str) -> Error {
    Error::new(ErrorKind::NotFound, Side::Destination, "remove", cause).on(client.name(key))
}

fn remove(client: &Client, keys: &[String], args: &RmArgs, lines: &OutputLines) -> Result<usize> {
    remove_keys(client, keys, (args.dry_run, args.quiet), lines)
}

/// Aborts incomplete uploads. Returns the number of failures.
fn give_up(client: &Client, place: &ObjectPlace, args: &RmArgs, lines: &OutputLines) -> Result<usize> {
    if let Some(kept) = client.terms().keeps_uploads {
        let cause = format!("the store has no such request: {kept}");
        return Err(usage("abort uploads", cause).on(place.to_string()));
    }
    let mut failed = 0;
    for upload in client.uploads_below(&place.key)? {
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
