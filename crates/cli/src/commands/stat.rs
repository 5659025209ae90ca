//! `haul stat`.

use std::ops::ControlFlow;
use std::sync::Arc;

use haul_core::sync::Mutex;
use haul_core::{Entry, Error, ErrorKind, Links, Location, ObjectPlace, Result, ScanOptions, Side};
use haul_engine::Cancel;
use haul_job::{Ends, KeyPattern, OpenedSource, exists_key, is_key_pattern, open_sources};
use haul_object::Client;

use super::start::each;
use super::stream::open_alone;
use crate::args::{LinkArgs, StatArgs};
use crate::exit_code::Exit;
use crate::locations::parse_location;
use crate::render::{EntryStat, OutputLines, print_error, print_line};
use crate::settings::LinkSettings;

/// Shows the metadata of each location. If there are several, it prints the failure of one and goes on.
///
/// # Errors
/// [`ErrorKind::NotFound`] if there is nothing; errors of the options, the store or the host.
pub(super) fn run(args: &StatArgs) -> Result<Exit> {
    let places = args.places.iter().map(|text| parse_location(text, &args.given));
    let places = places.collect::<Result<Vec<Location>>>()?;
    let link = LinkSettings::resolve(&LinkArgs::listing(args.host.clone(), args.store.timeout), &args.given)?;
    let mut ends = Ends::new(link.config, Arc::new(print_line), Cancel::default().flag());
    let mut shown = Shown { json: args.json, lines: OutputLines::stdout(), any: false };
    let exit = each(&places, |at| {
        let all = match at {
            Location::Object(place) => objects(place, args, &mut shown)?,
            at => entries(at, &mut ends, &mut shown)?,
        };
        Ok(if all { Exit::Done } else { Exit::Incomplete })
    })?;
    shown.lines.end(exit)
}

/// Where the output goes.
struct Shown {
    json: bool,
    lines: OutputLines,
    any: bool,
}

impl Shown {
    fn show(&mut self, stat: &EntryStat) {
        if self.json {
            self.lines.write(&stat.json());
            return;
        }
        if std::mem::replace(&mut self.any, true) {
            self.lines.write(b"\n");
        }
        self.lines.write(&stat.text());
    }
}

/// Shows an entry of a file system, or those that match. Returns whether all could be examined.
fn entries(at: &Location, ends: &mut Ends, shown: &mut Shown) -> Result<bool> {
    let mut all = true;
    for source in open_sources(ends, at, Links::default())? {
        let found = Mutex::new((Vec::new(), Vec::new()));
        source.scan(&options(&source), &|batch| {
            let mut found = found.lock();
            found.0.extend(batch.entries);
            found.1.extend(batch.errors);
            ControlFlow::Continue(())
        })?;
        let (mut found, failed) = found.into_inner();
        found.sort_by(|a: &Entry, b: &Entry| a.path.cmp(&b.path));
        found.iter().for_each(|entry| shown.show(&EntryStat::of_entry(&source.name_of(entry), entry)));
        all &= failed.is_empty();
        failed.into_iter().for_each(|failure| print_error(&failure.error));
    }
    Ok(all)
}

/// The scan options: the root alone, or the matches in it.
fn options(source: &OpenedSource) -> ScanOptions {
    let max_depth = Some(u32::from(!source.names.is_empty()));
    // These tell no names, and would say so.
    let owner_names = !matches!(source.at, Location::Smb { .. } | Location::Sftp { .. });
    ScanOptions { max_depth, owner_names, ..ScanOptions::default() }
}

/// Shows an object, a prefix, a bucket, or the matches of a pattern.
fn objects(place: &ObjectPlace, args: &StatArgs, shown: &mut Shown) -> Result<bool> {
    let client = open_alone(place, Side::Source, &args.store, args.host.family(), &args.given)?;
    let key = &place.key;
    if is_key_pattern(key) && !exists_key(&client, key)? {
        let pattern = KeyPattern::new(&client, key)?;
        let mut found = false;
        pattern.each_page(&mut |page| {
            for object in page.objects.iter().filter(|object| pattern.matches(&object.key)) {
                found |= object_at(&client, &object.key, shown)?;
            }
            for prefix in &page.prefixes {
                found = true;
                shown.show(&EntryStat::of_prefix(&client.name(prefix)));
            }
            Ok(if shown.lines.is_closed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let cause = "no object matches the pattern";
        let nothing = || Error::new(ErrorKind::NotFound, Side::Source, "find", cause).on(place.to_string());
        return if found { Ok(true) } else { Err(nothing()) };
    }
    if key.is_empty() {
        let _ = client.list("", true, None)?;
        shown.show(&EntryStat::of_bucket(&client.name("")));
    } else if key.ends_with('/') || !object_at(&client, key, shown)? {
        // Some stores describe a prefix as an object, too.
        if !exists_key(&client, key)? {
            return Err(client.missing(key, "find"));
        }
        shown.show(&EntryStat::of_prefix(&place.to_string()));
    }
    Ok(true)
}

/// Shows an object. Returns whether there is one.
fn object_at(client: &Client, key: &str, shown: &mut Shown) -> Result<bool> {
    let Some((object, details)) = client.describe(key)? else { return Ok(false) };
    shown.show(&EntryStat::of_object(&client.name(key), &object, &details));
    Ok(true)
}
