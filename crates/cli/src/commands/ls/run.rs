//! Lists the locations one after the other.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_core::{Location, Result};
use haul_job::Ends;

use super::{objects, tree};
use crate::args::LsArgs;
use crate::commands::start::each;
use crate::exit_code::Exit;
use crate::locations::parse_location;
use crate::render::{heading_json, heading_line};
use crate::settings::usage;

/// Lists the content of the locations. If there are several, it prints the failure of one and goes on.
///
/// # Errors
/// [`haul_core::ErrorKind::NotFound`] if there is nothing; errors of the options, the store or the host.
pub(in crate::commands) fn run(args: &LsArgs) -> Result<Exit> {
    if let Some(scheme) = args.places.iter().find(|text| is_scheme(text)) {
        let cause =
            "haul lists no buckets, because keys often give access to one alone: name it, as in s3://BUCKET/";
        return Err(usage("list", cause).on(scheme.as_bytes()));
    }
    let places = args.places.iter().map(|text| parse_location(text, &args.given));
    let places = places.collect::<Result<Vec<Location>>>()?;
    let (mut ends, mut is_first) = (None, true);
    each(&places, |place| {
        let name = place.to_string();
        let is_first = std::mem::take(&mut is_first);
        let heading = match places.len() {
            1 => Vec::new(),
            _ if args.json => heading_json(&name),
            _ => heading_line(&name, is_first),
        };
        one(place, args, &heading, &mut ends)
    })
}

/// Whether this is a store without a bucket.
fn is_scheme(text: &OsStr) -> bool {
    ["s3:", "gs:", "az:"].iter().any(|scheme| {
        text.as_bytes().strip_prefix(scheme.as_bytes()).is_some_and(|rest| rest == b"//" || rest == b"///")
    })
}

/// Lists one location, below a heading.
fn one(place: &Location, args: &LsArgs, heading: &[u8], ends: &mut Option<Ends>) -> Result<Exit> {
    match place {
        Location::Object(place) => objects::list(place, args, heading),
        at => {
            let ends = match ends {
                Some(ends) => ends,
                None => ends.insert(tree::ends(args)?),
            };
            tree::list(at, args, heading, ends)
        }
    }
}
