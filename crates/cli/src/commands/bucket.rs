//! `haul mb` and `haul rb`.

use std::ffi::OsString;

use haul_core::{ObjectPlace, Result, Side};
use haul_object::{Client, check_bucket_name};

use super::selected::remove_keys;
use super::start;
use super::stream::open_alone;
use crate::args::{FamilyArgs, GivenArgs, MbArgs, RbArgs, StoreArgs};
use crate::exit_code::Exit;
use crate::render::{OutputLines, bucket_line, removed_line, upload_line};
use crate::settings::{parse_place, usage};

/// Makes buckets.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if a location is no bucket, or its name breaks the rules; else the errors of the
/// store.
pub(super) fn make(args: &MbArgs) -> Result<Exit> {
    let lines = OutputLines::stdout();
    for text in &args.places {
        let place = parse_place(text, &args.given)?;
        check_bucket_name(&place).map_err(|rule| usage("make", rule).on(place.to_string()))?;
    }
    each(&args.places, &args.given, (&args.store, args.family), &|client| {
        let is_new = client.make_bucket(args.ignore_existing)?;
        if !args.quiet {
            lines.write(&bucket_line(if is_new { "made" } else { "exists" }, &client.name("")));
        }
        lines.end(Exit::Done)
    })
}

/// Removes buckets.
///
/// # Errors
/// As [`make`].
pub(super) fn remove(args: &RbArgs) -> Result<Exit> {
    let lines = OutputLines::stdout();
    each(&args.places, &args.given, (&args.store, args.family), &|client| {
        if args.force && !empty(client, args, &lines)? {
            return Ok(Exit::Incomplete);
        }
        match (args.dry_run, args.force) {
            (true, true) => {}
            (true, false) => client.check_empty()?,
            (false, _) => client.remove_bucket()?,
        }
        if !args.quiet {
            lines.write(&removed_line(&client.name(""), args.dry_run));
        }
        lines.end(Exit::Done)
    })
}

/// Removes all objects and uploads of a bucket. Returns whether all are gone.
fn empty(client: &Client, args: &RbArgs, lines: &OutputLines) -> Result<bool> {
    let mut is_empty = true;
    for page in client.pages("", false) {
        let keys: Vec<String> = page?.objects.into_iter().map(|object| object.key).collect();
        is_empty &= remove_keys(client, &keys, (args.dry_run, args.quiet), lines)? == 0;
    }
    if !client.terms().lists_uploads {
        return Ok(is_empty);
    }
    for upload in client.uploads("")? {
        if !args.dry_run {
            client.abort(&upload)?;
        }
        if !args.quiet {
            lines.write(&upload_line(&client.name(&upload.key), &upload.begun, None, args.dry_run));
        }
    }
    Ok(is_empty)
}

/// Does `work` for each bucket. If there are several, the failure of one is printed.
fn each(
    places: &[OsString],
    given: &GivenArgs,
    (store, family): (&StoreArgs, FamilyArgs),
    work: &dyn Fn(&Client) -> Result<Exit>,
) -> Result<Exit> {
    let places = places.iter().map(|text| parse_place(text, given)).collect::<Result<Vec<ObjectPlace>>>()?;
    if let Some(place) = places.iter().find(|place| !place.key.is_empty()) {
        let error = usage("use the location", "a bucket is expected, without a key").on(place.to_string());
        return Err(error.with_hint(format!("the bucket is {}://{}", place.kind.scheme(), place.bucket)));
    }
    start::each(&places, |place| work(&open_alone(place, Side::Destination, store, family.chosen(), given)?))
}
