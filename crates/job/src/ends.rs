//! Opens sources and destinations. One session per remote host serves all roots on it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::location::{SmbServer, SshHost};
use haul_core::{
    BufferPool, Error, ErrorKind, Links, Location, Note, ObjectPlace, Ops, Pace, PageChecks, Place, Result,
    Side, Sink, SinkOptions, Source, SourceOptions,
};
use haul_engine::MetadataChanges;
use haul_index::Index;
use haul_object::Client;
use haul_remote::{Broker, Peer, PeerConfig};
use haul_sftp::Sftp;
use haul_smb::Smb;
use haul_ssh::bootstrap;
use haul_store::{Bill, Detail};

use super::ends_config::EndsConfig;
use super::errors::usage;
use super::reach::HostAccess;
use super::requests::RequestCounts;
use super::shares;

/// Called for each new session with a remote haul.
pub(crate) type OnSession = Box<dyn FnMut(&SshHost, &Arc<Peer>) -> Result<()>>;

/// A session with a remote host.
#[derive(Clone)]
enum Remote {
    /// A remote haul.
    Peer(Arc<Peer>),
    /// An SFTP server.
    Sftp(Arc<Sftp>),
}

/// Opens sources and destinations, and holds the sessions with remote hosts.
pub struct Ends {
    config: EndsConfig,
    note: Note,
    /// The index of the source.
    index: Option<Arc<Index>>,
    /// Which pages of database files the sources check.
    pages: Option<PageChecks>,
    /// Cancels requests to stores.
    cancel: Arc<AtomicBool>,
    /// Whether a store copies objects within a bucket itself.
    copies_within_store: bool,
    /// Whether all sources and destinations are shares.
    keeps_reparse_points: bool,
    /// Open buckets, one client per side.
    stores: Vec<(ObjectPlace, Side, Arc<Client>)>,
    // Dropped before the sessions.
    /// Pairs of remote hauls with a direct connection, by their hosts.
    pairs: HashMap<(SshHost, SshHost), Broker>,
    /// Whether the user was told that data passes through this host.
    relay_reported: bool,
    // Dropped before the sessions.
    on_session: Option<OnSession>,
    /// Sessions by host, and whether SFTP was requested.
    remote: HashMap<(SshHost, bool), Remote>,
    /// Sessions by share and user.
    shares: HashMap<SmbServer, Arc<Smb>>,
}

impl Ends {
    /// Opens nothing yet. `cancel` cancels requests to stores.
    pub fn new(config: EndsConfig, note: Note, cancel: Arc<AtomicBool>) -> Self {
        let (pairs, remote) = (HashMap::new(), HashMap::new());
        Self {
            config,
            note,
            index: None,
            pages: None,
            cancel,
            copies_within_store: true,
            keeps_reparse_points: false,
            stores: Vec::new(),
            pairs,
            relay_reported: false,
            on_session: None,
            remote,
            shares: HashMap::new(),
        }
    }

    /// Uses this index for the local source.
    pub(crate) fn use_index(&mut self, index: Option<Arc<Index>>) {
        self.index = index;
    }

    /// The sources that are opened from now on check pages of database files.
    pub fn check_pages(&mut self, pages: Option<PageChecks>) {
        self.pages = pages;
    }

    /// Reads all content, so that each file has a digest: lets no store copy objects itself.
    pub(crate) fn read_all_content(&mut self) {
        self.copies_within_store = false;
    }

    /// Requests made to stores; `None` if no store was opened.
    pub fn requests(&self) -> Option<RequestCounts> {
        let mut counts = (!self.stores.is_empty()).then(RequestCounts::default)?;
        self.stores.iter().for_each(|(.., client)| counts.join(RequestCounts::of(client.requests())));
        Some(counts)
    }

    /// A counter of the requests that a run between two open locations needs; `None` if neither is in a store.
    pub(crate) fn bill(&self, source: &Location, at: &Location) -> Option<Bill> {
        let open = |end: &Location, side: Side| {
            let Location::Object(place) = end else { return None };
            let mut open = self.stores.iter();
            open.find(|(other, of, _)| other.is_reached_with(place) && *of == side).map(|(.., client)| client)
        };
        let (source_client, client) = (open(source, Side::Source), open(at, Side::Destination));
        (source_client.is_some() || client.is_some())
            .then(|| Bill::new(source_client.cloned(), client.cloned(), is_same_bucket(source, at)))
    }

    /// The limit of operations at the source.
    pub(crate) fn source_ops(&self) -> Arc<Ops> {
        Arc::clone(&self.config.ops.source)
    }

    /// The limit of operations at the destination.
    pub(crate) fn destination_ops(&self) -> Arc<Ops> {
        Arc::clone(&self.config.ops.destination)
    }

    /// The memory for content.
    pub(crate) fn pool(&self) -> &BufferPool {
        &self.config.pool
    }

    /// Receives messages for the user.
    pub(crate) fn note(&self) -> &Note {
        &self.note
    }

    /// The client of the bucket of a place.
    pub(crate) fn store(&mut self, place: &ObjectPlace, side: Side) -> Result<Arc<Client>> {
        let bucket = ObjectPlace { key: String::new(), ..place.clone() };
        let known = self.stores.iter().find(|(other, of, _)| *other == bucket && *of == side);
        if let Some((.., client)) = known {
            return Ok(Arc::clone(client));
        }
        let (cancel, note) = (Arc::clone(&self.cancel), Arc::clone(&self.note));
        let client = Arc::new(haul_object::open(place, side, self.config.store(place), cancel, note)?);
        // Reports refused credentials once instead of for each object. Without permission to list, writes may still
        // work.
        match client.list(&place.key, true, None) {
            Err(error) if error.kind() != ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
        self.stores.push((bucket, side, Arc::clone(&client)));
        Ok(client)
    }

    /// Announces that all sources and the destination are remote: data need not pass through this host.
    pub(crate) fn expect_third_party_copy(&mut self) {
        self.config.peer.defer = true;
    }

    /// Announces that all sources and destinations are shares: they hold entries of a share that nothing else can hold.
    pub fn keep_reparse_points(&mut self) {
        self.keeps_reparse_points = true;
    }

    /// Opens a source.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] and the like if the host cannot be reached; errors of resolving the path.
    pub fn source(&mut self, at: &Location, place: &Place, links: Links) -> Result<Arc<dyn Source>> {
        let ops = Arc::clone(&self.config.ops.source);
        self.check_reader(at)?;
        if let Location::Object(object) = at {
            if links.are_followed() {
                let cause = "a store only records where links point, so none can be followed";
                return Err(usage("use --copy-links", cause).on(at.to_string()).with_hint("omit the option"));
            }
            let client = self.store(object, Side::Source)?;
            return haul_store::open_source(&client, place, Detail::Full, &self.config.pool);
        }
        if let (Location::Local(_), Some(index), Links::Kept) = (at, &self.index, links) {
            return haul_local::open_indexed_source(place, &self.config.pool, &ops, index, self.pages);
        }
        self.read(at, place, SourceOptions { links, pages: self.pages, ..SourceOptions::default() }, &ops)
    }

    /// Refuses to check pages where haul does not read the files itself.
    fn check_reader(&mut self, at: &Location) -> Result<()> {
        if self.pages.is_none() || matches!(at, Location::Local(_)) || self.is_peer(at)? {
            return Ok(());
        }
        let cause = "haul checks pages only where it reads the files itself: here, or on a host with haul";
        let hint = "install haul on that host, or omit the option";
        Err(usage("use --pages", cause).on(at.to_string()).with_hint(hint))
    }

    /// Opens a destination as a source, to list its entries.
    ///
    /// # Errors
    /// As [`Ends::source`].
    pub(crate) fn view(&mut self, at: &Location, place: &Place) -> Result<Arc<dyn Source>> {
        let ops = Arc::clone(&self.config.ops.destination);
        if let Location::Object(object) = at {
            let client = self.store(object, Side::Destination)?;
            return haul_store::open_source(&client, place, Detail::Names, &self.config.pool);
        }
        self.read(at, place, Links::Kept.into(), &ops)
    }

    pub(crate) fn read(
        &mut self,
        at: &Location,
        place: &Place,
        options: SourceOptions,
        ops: &Arc<Ops>,
    ) -> Result<Arc<dyn Source>> {
        if let Location::Smb { server, .. } = at {
            return self.share(server)?.open_source(place, options.links, self.keeps_reparse_points);
        }
        match self.remote(at)? {
            None => haul_local::open_source(place, options, false, &self.config.pool, ops),
            Some(Remote::Peer(peer)) => peer.open_source(place, options),
            Some(Remote::Sftp(sftp)) => sftp.open_source(place, options.links),
        }
    }

    /// Opens a destination in a file system.
    pub(crate) fn sink(
        &mut self,
        at: &Location,
        place: &Place,
        options: &SinkOptions,
    ) -> Result<Arc<dyn Sink>> {
        if let Location::Smb { server, .. } = at {
            return self.share(server)?.open_sink(place, options, self.keeps_reparse_points);
        }
        match self.remote(at)? {
            None => {
                haul_local::open_sink(place, false, options, &self.config.pool, &self.config.ops.destination)
            }
            Some(Remote::Peer(peer)) => peer.open_sink(place, options),
            Some(Remote::Sftp(sftp)) => sftp.open_sink(place, options),
        }
    }

    /// Opens a destination to compare its metadata ([`haul_core::Compare::Metadata`]).
    ///
    /// # Errors
    /// As [`Ends::source`].
    pub fn compared(&mut self, at: &Location, place: &Place, options: &SinkOptions) -> Result<Arc<dyn Sink>> {
        let Location::Object(object) = at else { return self.sink(at, place, options) };
        let client = self.store(object, Side::Destination)?;
        haul_store::open_sink(&client, place, options, None, &self.config.stored, &self.config.pool)
    }

    /// Opens the destination of a copy from the place `from` of `source`. If both are remote hauls, they connect to
    /// each other if they can.
    ///
    /// # Errors
    /// As [`Ends::source`].
    pub(crate) fn sink_of(
        &mut self,
        (source, from, links): (&Location, &Place, Links),
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
                    let (config, note) = (&self.config.peer, Arc::clone(&self.note));
                    new.insert(Broker::introduce(number, &reader, &writer, config, note)?)
                }
            };
            let read = SourceOptions { links, pages: self.pages, ..SourceOptions::default() };
            return writer.open_sink_of(place, options, pair, (from, read));
        }
        if let Location::Object(to) = at {
            let same_bucket = self.copies_within_store && is_same_bucket(source, at);
            if !same_bucket {
                self.report_relay(source, at);
            }
            let client = self.store(to, Side::Destination)?;
            let (stored, pool) = (&self.config.stored, &self.config.pool);
            return haul_store::open_sink(&client, place, options, same_bucket.then_some(from), stored, pool);
        }
        self.report_relay(source, at);
        for end in [source, at] {
            if let Some(Remote::Peer(peer)) = self.remote(end)? {
                peer.look_around();
            }
        }
        self.sink(at, place, options)
    }

    /// Reports once that data between two remote locations passes through this host.
    fn report_relay(&mut self, source: &Location, at: &Location) {
        let both = !matches!(source, Location::Local(_)) && !matches!(at, Location::Local(_));
        if both && !std::mem::replace(&mut self.relay_reported, true) {
            (self.note)("source and destination are remote: the data passes through this host");
        }
    }

    /// Calls `on_session` for each session that opens from now on. It is dropped before the sessions.
    pub(crate) fn on_session(&mut self, on_session: OnSession) {
        self.on_session = Some(on_session);
    }

    /// Whether a location is on a host with a remote haul. Opens the session.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] and the like if the host cannot be reached.
    pub(crate) fn is_peer(&mut self, at: &Location) -> Result<bool> {
        Ok(matches!(self.remote(at)?, Some(Remote::Peer(_))))
    }

    /// The limits of the rate, and the flag that cancels the run.
    pub(crate) fn limits(&self) -> (&Pace, &Arc<AtomicBool>) {
        (&self.config.peer.pace, &self.cancel)
    }

    /// The changes with the numbers that names of owners and groups have at the destination.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if a name is not known there, or an end cannot look up names; errors of opening the session.
    pub fn resolve(
        &mut self,
        changes: &MetadataChanges,
        source: &Location,
        at: &Location,
    ) -> Result<MetadataChanges> {
        let refuse = |side, cause: &str, hint: &str| {
            Err(Error::new(ErrorKind::Usage, side, "map owners", cause).with_hint(hint))
        };
        if changes.owners.needs_names() && !matches!(source, Location::Local(_)) && !self.is_peer(source)? {
            let cause = "the source reports owners by number only";
            return refuse(Side::Source, cause, "map numbers or ranges of numbers, or *");
        }
        let names = changes.owners.names();
        if names.is_empty() {
            return Ok(changes.clone());
        }
        let ids = match self.remote(at)? {
            None if matches!(at, Location::Local(_)) => names.iter().map(haul_local::id_of).collect(),
            Some(Remote::Peer(peer)) => peer.owner_ids(&names)?,
            _ => {
                let cause = "the destination has no names of owners";
                return refuse(Side::Destination, cause, "map to numbers");
            }
        };
        let mut known = Vec::with_capacity(ids.len());
        for (name, id) in names.iter().zip(ids) {
            let what = if name.is_user { "user" } else { "group" };
            let Some(id) = id else {
                let cause = format!("the destination has no {what} of this name");
                let error = Error::new(ErrorKind::Usage, Side::Destination, "map owners", cause);
                return Err(error.on(&name.name));
            };
            known.push(id);
        }
        let owners = changes.owners.clone().resolved(&known);
        Ok(MetadataChanges { owners, ..changes.clone() })
    }

    /// The session with the share of a location; `None` if it is on none.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] and the like if the share cannot be reached.
    pub fn share_of(&mut self, at: &Location) -> Result<Option<Arc<Smb>>> {
        match at {
            Location::Smb { server, .. } => self.share(server).map(Some),
            _ => Ok(None),
        }
    }

    /// The remote haul of a location; `None` if it is local or on a share.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] and the like if the host cannot be reached; [`ErrorKind::Unsupported`] if it has no
    /// haul.
    pub fn peer_of(&mut self, at: &Location) -> Result<Option<Arc<Peer>>> {
        match self.remote(at)? {
            None => Ok(None),
            Some(Remote::Peer(peer)) => Ok(Some(peer)),
            Some(Remote::Sftp(_)) => {
                let why = "the remote host needs haul; an SFTP server is not enough";
                Err(Error::new(ErrorKind::Unsupported, Side::Wire, "measure", why).on(at.to_string()))
            }
        }
    }

    /// The session with the host of a location; `None` if it is local, on a share or in a store.
    fn remote(&mut self, at: &Location) -> Result<Option<Remote>> {
        let (host, sftp) = match at {
            Location::Local(_) | Location::Smb { .. } | Location::Object(_) => return Ok(None),
            Location::Ssh { host, .. } => (host, false),
            Location::Sftp { host, .. } => (host, true),
        };
        let key = (host.clone(), sftp);
        if let Some(remote) = self.remote.get(&key) {
            return Ok(Some(remote.clone()));
        }
        let opened = if sftp { self.sftp(host).map(Remote::Sftp) } else { self.peer(host) };
        let remote = opened.map_err(|error| self.unless_stopped(error))?;
        if let (Some(on_session), Remote::Peer(peer)) = (&mut self.on_session, &remote) {
            on_session(host, peer)?;
        }
        self.remote.insert(key, remote.clone());
        Ok(Some(remote))
    }

    /// The session with a share.
    fn share(&mut self, server: &SmbServer) -> Result<Arc<Smb>> {
        if let Some(session) = self.shares.get(server) {
            return Ok(Arc::clone(session));
        }
        let session = shares::open(&self.config, server, &self.note, &self.cancel)?;
        self.shares.insert(server.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// The error of opening a session. ssh also ends at Ctrl-C while it asks the user, and reports a failed login.
    fn unless_stopped(&self, error: Error) -> Error {
        if !self.cancel.load(Ordering::Relaxed) {
            return error;
        }
        let stopped =
            Error::new(ErrorKind::Cancelled, error.side(), error.operation(), "the run was stopped");
        stopped.on(error.subject())
    }

    fn sftp(&self, host: &SshHost) -> Result<Arc<Sftp>> {
        let HostAccess { host, peer, .. } = HostAccess::of(&self.config, host);
        let limits = haul_sftp::Limits { streams: peer.streams, iops: peer.iops };
        Sftp::connect(&host, &peer.ssh, limits, &self.config.pool, Arc::clone(&self.note))
    }

    /// Connects to a remote haul. If the host has none, or one of another version, uploads it with `--bootstrap`. If it
    /// has none, otherwise uses SFTP, unless the user gave the path of haul.
    fn peer(&self, named: &SshHost) -> Result<Remote> {
        let HostAccess { host, peer, bootstrap: uploads, haul_named } = HostAccess::of(&self.config, named);
        let error = match self.connect(&host, &peer) {
            Ok(peer) => return Ok(Remote::Peer(peer)),
            Err(error) => error,
        };
        let missing = haul_ssh::is_missing(&error);
        if uploads && (missing || haul_remote::is_other_version(&error)) {
            let why =
                if missing { format!("haul is not installed at {host}") } else { error.cause().to_string() };
            let remote_haul = bootstrap(&host, &peer.ssh, &why, &self.note)?;
            return self.connect(&host, &PeerConfig { remote_haul, ..peer }).map(Remote::Peer);
        }
        if !missing || haul_named {
            return Err(error);
        }
        (self.note)(&format!(
            "haul is not installed on {host}: using SFTP, without compression, deltas, attributes and ACLs; \
             install haul there, or add `--bootstrap`"
        ));
        self.sftp(named).map(Remote::Sftp).map_err(|other| {
            let hint = "install haul on the remote host, or use --bootstrap; SFTP failed too";
            error.with_hint(format!("{hint}: {}", other.cause()))
        })
    }

    fn connect(&self, host: &SshHost, config: &PeerConfig) -> Result<Arc<Peer>> {
        Peer::connect(host, config, &self.config.pool, Arc::clone(&self.note))
    }
}

/// Whether both locations are in one bucket.
fn is_same_bucket(source: &Location, at: &Location) -> bool {
    let (Location::Object(from), Location::Object(to)) = (source, at) else { return false };
    from.is_reached_with(to)
}
