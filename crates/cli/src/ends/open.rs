//! Opening ends. One session with each other machine serves all roots there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_core::location::SshHost;
use haul_core::{
    Error, ErrorKind, Location, ObjectPlace, Ops, Place, Result, Side, Sink, SinkOptions, Source,
};
use haul_index::Index;
use haul_object::Client;
use haul_remote::{Pair, Peer, PeerConfig};
use haul_sftp::Sftp;
use haul_ssh::bootstrap;
use haul_store::{Bill, Detail};

use crate::render::RequestCounts;
use crate::settings::LinkSettings;

/// Takes sentences that the person should see.
pub(crate) type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// Hears of each session that was opened with another machine.
pub(crate) type Greeter = Box<dyn FnMut(&SshHost, &Arc<Peer>) -> Result<()>>;
/// A session with another machine.
#[derive(Clone)]
enum Remote {
    /// A haul there.
    Peer(Arc<Peer>),
    /// Its SFTP server.
    Sftp(Arc<Sftp>),
}

/// Opens ends, and holds the sessions with other machines.
pub(crate) struct Ends {
    link: LinkSettings,
    note: Note,
    /// What is known of the source.
    index: Option<Arc<Index>>,
    /// Ends what is asked of stores.
    cancel: Arc<AtomicBool>,
    /// Buckets, each once for either side.
    stores: Vec<(ObjectPlace, Side, Arc<Client>)>,
    // Dropped before the sessions.
    /// Far hauls that talk to each other, by their hosts.
    pairs: HashMap<(SshHost, SshHost), Pair>,
    /// Whether it was said that content passes through this machine.
    said: bool,
    // Dropped before the sessions.
    greeter: Option<Greeter>,
    /// By host, and whether SFTP was asked for.
    remote: HashMap<(SshHost, bool), Remote>,
}

impl Ends {
    /// Nothing is opened yet.
    pub(crate) fn new(link: LinkSettings, note: Note, cancel: Arc<AtomicBool>) -> Self {
        let (pairs, remote) = (HashMap::new(), HashMap::new());
        Self {
            link,
            note,
            index: None,
            cancel,
            stores: Vec::new(),
            pairs,
            said: false,
            greeter: None,
            remote,
        }
    }

    /// Uses this index of the source, which is on this machine.
    pub(crate) fn remember(&mut self, index: Option<Arc<Index>>) {
        self.index = index;
    }

    /// The requests that were made to stores; `None` if no end is in one.
    pub(crate) fn requests(&self) -> Option<RequestCounts> {
        let mut counts = (!self.stores.is_empty()).then(RequestCounts::default)?;
        self.stores.iter().for_each(|(.., client)| counts.add(client.requests()));
        Some(counts)
    }

    /// Counts what a run between two ends, which are open, will ask of stores; `None` if neither is in one.
    pub(crate) fn bill(&self, source: &Location, at: &Location) -> Option<Bill> {
        let open = |end: &Location, side: Side| {
            let Location::Object(place) = end else { return None };
            let same = |other: &ObjectPlace| (other.kind, &other.bucket) == (place.kind, &place.bucket);
            self.stores.iter().find(|(other, of, _)| same(other) && *of == side).map(|(.., client)| client)
        };
        let (source_client, client) = (open(source, Side::Source), open(at, Side::Destination));
        (source_client.is_some() || client.is_some())
            .then(|| Bill::new(source_client.cloned(), client.cloned(), is_within(source, at)))
    }

    /// The bucket of a place.
    fn store(&mut self, place: &ObjectPlace, side: Side) -> Result<Arc<Client>> {
        let bucket = ObjectPlace { key: String::new(), ..place.clone() };
        let known = self.stores.iter().find(|(other, of, _)| *other == bucket && *of == side);
        if let Some((.., client)) = known {
            return Ok(Arc::clone(client));
        }
        let (cancel, note) = (Arc::clone(&self.cancel), Arc::clone(&self.note));
        let client = Arc::new(haul_object::open(place, side, &self.link.stores, cancel, note)?);
        // That nobody may come in is told once, not for each object. Who may not list may still write.
        match client.list(&place.key, true, None) {
            Err(error) if error.kind() != ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
        self.stores.push((bucket, side, Arc::clone(&client)));
        Ok(client)
    }

    /// All content is on its way from one other machine to another one: it need not come through here.
    pub(crate) fn between_others(&mut self) {
        self.link.peer.defer = true;
    }

    /// Opens an end to read from.
    ///
    /// # Errors
    /// If its machine cannot be reached or the path not be resolved.
    pub(crate) fn source(&mut self, at: &Location, place: &Place) -> Result<Arc<dyn Source>> {
        let ops = Arc::clone(&self.link.ops.source);
        if let Location::Object(object) = at {
            let client = self.store(object, Side::Source)?;
            return haul_store::open_source(&client, place, Detail::Full, &self.link.pool);
        }
        if let (Location::Local(_), Some(index)) = (at, &self.index) {
            return haul_local::open_indexed_source(place, &self.link.pool, &ops, index);
        }
        self.read(at, place, &ops)
    }

    /// Opens a destination to look at what is there.
    ///
    /// # Errors
    /// If its machine cannot be reached or the path not be resolved.
    pub(crate) fn view(&mut self, at: &Location, place: &Place) -> Result<Arc<dyn Source>> {
        let ops = Arc::clone(&self.link.ops.destination);
        if let Location::Object(object) = at {
            let client = self.store(object, Side::Destination)?;
            return haul_store::open_source(&client, place, Detail::Names, &self.link.pool);
        }
        self.read(at, place, &ops)
    }

    fn read(&mut self, at: &Location, place: &Place, ops: &Arc<Ops>) -> Result<Arc<dyn Source>> {
        match self.remote(at)? {
            None => haul_local::open_source(place, false, &self.link.pool, ops),
            Some(Remote::Peer(peer)) => peer.open_source(place),
            Some(Remote::Sftp(sftp)) => sftp.open_source(place),
        }
    }

    /// Opens an end to write to.
    fn sink(&mut self, at: &Location, place: &Place, options: &SinkOptions) -> Result<Arc<dyn Sink>> {
        match self.remote(at)? {
            None => haul_local::open_sink(place, false, options, &self.link.pool, &self.link.ops.destination),
            Some(Remote::Peer(peer)) => peer.open_sink(place, options),
            Some(Remote::Sftp(sftp)) => sftp.open_sink(place, options),
        }
    }

    /// Opens an end to write to what is read at the place `from` of `source`. Where both are remote hauls, these two talk to
    /// each other if they can.
    ///
    /// # Errors
    /// If its machine cannot be reached or the path not be resolved.
    pub(crate) fn sink_of(
        &mut self,
        (source, from): (&Location, &Place),
        at: &Location,
        place: &Place,
        options: &SinkOptions,
    ) -> Result<Arc<dyn Sink>> {
        if let (Location::Ssh { host: a, .. }, Location::Ssh { host: b, .. }) = (source, at)
            && let (Some(Remote::Peer(reader)), Some(Remote::Peer(writer))) =
                (self.remote(source)?, self.remote(at)?)
            && !options.dry_run
        {
            let number = u32::try_from(self.pairs.len()).unwrap_or(u32::MAX);
            let pair = match self.pairs.entry((a.clone(), b.clone())) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let (config, note) = (&self.link.peer, Arc::clone(&self.note));
                    new.insert(Pair::introduce(number, &reader, &writer, config, note)?)
                }
            };
            return writer.open_sink_of(place, options, pair, from);
        }
        if let Location::Object(to) = at {
            let within = is_within(source, at);
            if !within {
                self.say_relayed(source, at);
            }
            let client = self.store(to, Side::Destination)?;
            let (stored, pool) = (&self.link.stored, &self.link.pool);
            return haul_store::open_sink(&client, place, options, within.then_some(from), stored, pool);
        }
        self.say_relayed(source, at);
        for end in [source, at] {
            if let Some(Remote::Peer(peer)) = self.remote(end)? {
                peer.look_around();
            }
        }
        self.sink(at, place, options)
    }

    /// Says once that content between two remote ends passes through this machine.
    fn say_relayed(&mut self, source: &Location, at: &Location) {
        let both = !matches!(source, Location::Local(_)) && !matches!(at, Location::Local(_));
        if both && !std::mem::replace(&mut self.said, true) {
            (self.note)("both ends are remote: the data passes through this machine");
        }
    }

    /// Has each session that is opened from now on told to `greeter`. What that holds ends before the sessions do.
    pub(crate) fn greet(&mut self, greeter: Greeter) {
        self.greeter = Some(greeter);
    }

    /// Whether there is a haul at the remote side of an end.
    ///
    /// # Errors
    /// If its machine cannot be reached.
    pub(crate) fn is_peer(&mut self, at: &Location) -> Result<bool> {
        Ok(matches!(self.remote(at)?, Some(Remote::Peer(_))))
    }

    /// The remote haul of an end; `None` for an end on this machine.
    ///
    /// # Errors
    /// If its machine cannot be reached, or has no haul.
    pub(crate) fn peer_of(&mut self, at: &Location) -> Result<Option<Arc<Peer>>> {
        match self.remote(at)? {
            None => Ok(None),
            Some(Remote::Peer(peer)) => Ok(Some(peer)),
            Some(Remote::Sftp(_)) => {
                let why = "it takes a haul there, which an SFTP server is not";
                Err(Error::new(ErrorKind::Unsupported, Side::Wire, "measure", why).on(at.to_string()))
            }
        }
    }

    /// The session with the machine of an end; `None` for this one, and for stores.
    fn remote(&mut self, at: &Location) -> Result<Option<Remote>> {
        let (host, sftp) = match at {
            Location::Local(_) | Location::Object(_) => return Ok(None),
            Location::Ssh { host, .. } => (host, false),
            Location::Sftp { host, .. } => (host, true),
        };
        let key = (host.clone(), sftp);
        if let Some(remote) = self.remote.get(&key) {
            return Ok(Some(remote.clone()));
        }
        let remote = if sftp { Remote::Sftp(self.sftp(host)?) } else { self.peer(host)? };
        if let (Some(greeter), Remote::Peer(peer)) = (&mut self.greeter, &remote) {
            greeter(host, peer)?;
        }
        self.remote.insert(key, remote.clone());
        Ok(Some(remote))
    }

    fn sftp(&self, host: &SshHost) -> Result<Arc<Sftp>> {
        let (streams, iops) = (self.link.peer.streams, self.link.peer.iops);
        let limits = haul_sftp::Limits { streams, iops };
        Sftp::connect(host, &self.link.peer.ssh, limits, &self.link.pool, Arc::clone(&self.note))
    }

    /// A remote haul. Where there is none it is put there if that was asked for; else, unless one was named, its SFTP
    /// server must do.
    fn peer(&self, host: &SshHost) -> Result<Remote> {
        let error = match self.connect(host, &self.link.peer) {
            Ok(peer) => return Ok(Remote::Peer(peer)),
            Err(error) if haul_ssh::is_missing(&error) => error,
            Err(error) => return Err(error),
        };
        if self.link.bootstrap {
            let remote_haul = bootstrap(host, &self.link.peer.ssh, &self.note)?;
            return self
                .connect(host, &PeerConfig { remote_haul, ..self.link.peer.clone() })
                .map(Remote::Peer);
        }
        if self.link.haul_named {
            return Err(error);
        }
        (self.note)(&format!("haul is not installed at {host}: going on over SFTP"));
        self.sftp(host).map(Remote::Sftp).map_err(|other| {
            let hint = "install haul there, or use --bootstrap; SFTP did not work either";
            error.with_hint(format!("{hint}: {}", other.cause()))
        })
    }

    fn connect(&self, host: &SshHost, config: &PeerConfig) -> Result<Arc<Peer>> {
        Peer::connect(host, config, &self.link.pool, Arc::clone(&self.note))
    }
}

/// Whether both ends are in one bucket.
fn is_within(source: &Location, at: &Location) -> bool {
    let (Location::Object(from), Location::Object(to)) = (source, at) else { return false };
    (from.kind, &from.bucket) == (to.kind, &to.bucket)
}
