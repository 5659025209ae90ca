//! The destinations of a put: objects and files.

use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::Arc;

use haul_core::{BufferPool, Compress, Location, ObjectPlace, Pace, Result, Side};
use haul_engine::Cancel;
use haul_job::{Ends, create_file, create_only_file};
use haul_object::{Client, PutOptions};
use haul_streams::put::{ObjectTarget, PutTarget};

use super::start::ends_of_run;
use super::stream::open;
use crate::args::PutArgs;
use crate::locations::parse_location;
use crate::render::Console;
use crate::settings::{LinkSettings, check_object, store_settings_of, usage};

/// The destinations: objects and files, or prefixes and directories for several streams.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if two are equal, or one is the sidecar object of another.
pub(super) fn destinations(args: &PutArgs) -> Result<Vec<Location>> {
    let several = args.fifo.fifo_dir.is_some();
    let parse = |text: &OsString| {
        let location = parse_location(text, &args.reach.given)?;
        match &location {
            Location::Object(place) if !several => check_object(place)?,
            _ => {}
        }
        Ok(location)
    };
    let places = args.destinations.iter().map(parse).collect::<Result<Vec<_>>>()?;
    let mut seen = HashSet::new();
    if let Some(twice) = places.iter().find(|place| !seen.insert(place.to_string())) {
        return Err(usage("put the stream", "the destination is given twice").on(twice.to_string()));
    }
    let objects: HashSet<&ObjectPlace> = objects(&places).collect();
    let is_beside = |place: &&&ObjectPlace| {
        let owner = place.key.strip_suffix(".haul");
        owner.is_some_and(|key| {
            objects.contains(&ObjectPlace { key: key.to_owned(), ..ObjectPlace::clone(place) })
        })
    };
    if let Some(taken) = objects.iter().find(is_beside) {
        let cause = "the name is reserved for the sidecar object of another destination";
        return Err(usage("put the stream", cause).on(taken.to_string()));
    }
    Ok(places)
}

/// Those of the destinations that are objects.
pub(super) fn objects(places: &[Location]) -> impl Iterator<Item = &ObjectPlace> {
    places.iter().filter_map(|place| match place {
        Location::Object(place) => Some(place),
        _ => None,
    })
}

/// Opens the destinations of streams.
pub(super) struct Opener<'a> {
    args: &'a PutArgs,
    places: &'a [Location],
    cancel: &'a Cancel,
    pace: &'a Pace,
    /// Whether there are files.
    has_files: bool,
    /// The memory for all files.
    memory: u64,
}

impl<'a> Opener<'a> {
    /// With `memory` bytes for the content of each of `streams` streams. Use [`Opener::left`] for the rest.
    pub(super) fn new(
        args: &'a PutArgs,
        places: &'a [Location],
        (cancel, pace): (&'a Cancel, &'a Pace),
        memory: u64,
        streams: u64,
    ) -> Self {
        let has_files = objects(places).count() < places.len();
        Self { args, places, cancel, pace, has_files, memory: memory / 3 * streams }
    }

    /// The memory of each stream that files leave: a third is for slices on their way.
    pub(super) fn left(&self, memory: u64) -> u64 {
        if self.has_files { memory - memory / 3 } else { memory }
    }

    /// The clients of the objects, in the order of the destinations.
    ///
    /// # Errors
    /// Those of [`open`], or that a store does not take an option.
    pub(super) fn clients(
        &self,
        options: &PutOptions,
        console: Option<&Arc<Console>>,
    ) -> Result<Vec<Client>> {
        let open_one = |place: &ObjectPlace| {
            let stores = store_settings_of(&self.args.reach, place, self.pace);
            let client = open(place, Side::Destination, &stores, self.cancel.flag(), console)?;
            client.check_options(options).map(|()| client)
        };
        objects(self.places).map(open_one).collect()
    }

    /// The sessions with hosts, which have to outlive the targets; `None` if no destination is a file.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if the options cannot be used.
    pub(super) fn ends(&self, console: &Arc<Console>) -> Result<Option<Ends>> {
        if !self.has_files {
            return Ok(None);
        }
        let args = self.args;
        let mut config = LinkSettings::resolve(&args.reach.link(), &args.reach.given)?.config;
        config.pool = BufferPool::new(self.memory);
        config.set_pace(self.pace.clone());
        config.peer.compress = args.encode.compress.unwrap_or(Compress::Auto);
        Ok(Some(ends_of_run(config, console, self.cancel)))
    }

    /// The targets of the stream that comes from `pipe`; empty for a single stream.
    ///
    /// # Errors
    /// Those of opening the destinations.
    pub(super) fn targets(
        &self,
        pipe: &str,
        options: &PutOptions,
        ends: Option<&mut Ends>,
        console: &Arc<Console>,
    ) -> Result<Vec<PutTarget>> {
        let mut clients = self.clients(options, Some(console))?.into_iter();
        let mut targets = Vec::with_capacity(self.places.len());
        let mut ends = ends;
        for place in self.places {
            let target = match (place, &mut ends) {
                (Location::Object(place), _) => clients.next().map(|client| {
                    let key = if pipe.is_empty() { place.key.clone() } else { below(&place.key, pipe) };
                    PutTarget::Object(Box::new(ObjectTarget { client, key }))
                }),
                (file, Some(ends)) if pipe.is_empty() && self.places.len() == 1 => {
                    Some(PutTarget::File(create_only_file(ends, file)?))
                }
                (file, Some(ends)) if pipe.is_empty() => Some(PutTarget::File(create_file(ends, file)?)),
                (directory, Some(ends)) => {
                    let text = below(&directory.to_string(), pipe);
                    Some(PutTarget::File(create_file(ends, &Location::parse(text.as_bytes())?)?))
                }
                (_, None) => None,
            };
            targets.extend(target);
        }
        Ok(targets)
    }
}

/// The key of an object below a prefix.
fn below(key: &str, name: &str) -> String {
    let slash = if key.is_empty() || key.ends_with('/') || key.ends_with(':') { "" } else { "/" };
    format!("{key}{slash}{name}")
}
