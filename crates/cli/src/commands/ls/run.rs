//! Lists the locations one after the other.

use haul_core::{Location, Result};
use haul_job::Ends;

use super::{buckets, objects, tree};
use crate::args::LsArgs;
use crate::commands::start::each;
use crate::exit_code::Exit;
use crate::locations::parse_location_or_store;
use crate::render::{heading_json, heading_line};

/// Lists the content of the locations. If there are several, it prints the failure of one and goes on.
///
/// # Errors
/// [`haul_core::ErrorKind::NotFound`] if there is nothing; errors of the options, the store or the host.
pub(in crate::commands) fn run(args: &LsArgs) -> Result<Exit> {
    let places = args.places.iter().map(|text| parse_location_or_store(text, &args.given));
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

/// Lists one location, below a heading.
fn one(place: &Location, args: &LsArgs, heading: &[u8], ends: &mut Option<Ends>) -> Result<Exit> {
    match place {
        Location::Object(place) if place.bucket.is_empty() => buckets::list(place, args, heading),
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
