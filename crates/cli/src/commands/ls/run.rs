//! Chooses how a location is listed.

use haul_core::{Location, Result};

use super::{objects, tree};
use crate::args::LsArgs;
use crate::exit_code::Exit;
use crate::locations::parse_location;

/// Lists what is at a location.
///
/// # Errors
/// [`haul_core::ErrorKind::NotFound`] if there is nothing; errors of the options, the store or the host.
pub(in crate::commands) fn run(args: &LsArgs) -> Result<Exit> {
    match parse_location(&args.place, &args.given)? {
        Location::Object(place) => objects::list(&place, args),
        at => tree::list(&at, args),
    }
}
