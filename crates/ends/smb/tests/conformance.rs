//! A share of Samba, held to the promises of sources and sinks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::sync::Arc;
use std::time::Duration;

use haul_core::location::SmbServer;
use haul_core::{BufferPool, Entry, Links, Place, PlaceRoot, RelPath};
use haul_smb::{Limits, ShareCredentials, ShareLogin, ShareOptions, Smb};
use haul_testkit::conformance::{
    Keeps, OnDisk, OpenSink, SourceOpener, Subject, TestedEnd, ThroughEnds, World,
};
use haul_testkit::smbd::{NEEDS, PASSWORD, REPARSE_SMBD, SHARE, USER};
use haul_testkit::{Need, Smbd, SmbdOptions};

/// A server whose share is the directory of all temporary files. It ends with the test.
fn start(program: Option<&'static str>) -> Arc<Smbd> {
    Arc::new(Smbd::start(&std::env::temp_dir(), &SmbdOptions { program, ..SmbdOptions::default() }))
}

fn connect(server: &Smbd, map_names: bool) -> Arc<Smb> {
    let port = Some(server.port());
    let server =
        SmbServer { domain: None, user: None, host: "127.0.0.1".to_owned(), port, share: SHARE.to_owned() };
    let (user, password) = (Some(USER.to_owned()), Some(PASSWORD.to_owned()));
    let credentials = ShareCredentials { user, password, domain: None };
    let timeout = Duration::from_secs(30);
    let options = ShareOptions { map_names, ..ShareOptions::default() };
    let login = ShareLogin { server, credentials, tickets: None, options, timeout };
    let limits = Limits { streams: 2, iops: None };
    Smb::connect(login, limits, &BufferPool::new(64 << 20), Arc::new(|_| {})).unwrap()
}

/// SMB has times of 100 ns, and neither modes nor owners; Samba follows links itself. A put on a share begins anew.
fn keeps() -> Keeps {
    Keeps {
        nanoseconds: false,
        modes: false,
        xattrs: false,
        symlinks: false,
        fifos: false,
        sparse: false,
        symlink_times: false,
        inodes: false,
        hard_links: false,
        resumes_streams: false,
        ..Keeps::everything()
    }
}

/// The functions that open the ends at a place on the disk.
fn ends(session: &Arc<Smb>, world: &OnDisk) -> (SourceOpener, OpenSink) {
    let root = world.root();
    let below = root.strip_prefix(std::env::temp_dir()).unwrap();
    let place = Place { path: below.to_str().unwrap().into(), root: PlaceRoot::Exactly };
    let (reader, from) = (Arc::clone(session), place.clone());
    let writer = Arc::clone(session);
    (
        Box::new(move || reader.open_source(&from, Links::Kept, false).unwrap()),
        Box::new(move |options| writer.open_sink(&place, options, false).unwrap()),
    )
}

/// The files are put and looked at on the disk of the server.
fn on_disk() -> TestedEnd {
    let server = start(None);
    TestedEnd::new("smb", keeps(), move || {
        let (session, world) = (connect(&server, false), OnDisk::new());
        let (source, sink) = ends(&session, &world);
        Subject { world: Box::new(world), source, sink }
    })
}

/// The files are put and looked at through the share, as the disk has other names.
fn mapped() -> TestedEnd {
    through_the_share("smb with mapped names", keeps(), start(None), true)
}

/// The same with a server that has links which its disk does not have.
fn linked() -> TestedEnd {
    let keeps = Keeps { symlinks: true, symlink_times: true, ..keeps() };
    through_the_share("smb with links", keeps, start(Some(REPARSE_SMBD)), false)
}

fn through_the_share(name: &'static str, keeps: Keeps, server: Arc<Smbd>, map_names: bool) -> TestedEnd {
    TestedEnd::new(name, keeps, move || {
        let (session, disk) = (connect(&server, map_names), OnDisk::new());
        let (source, sink) = ends(&session, &disk);
        let (reader, writer) = ends(&session, &disk);
        let world = ThroughShare { ends: ThroughEnds { source: reader, sink: writer }, _disk: disk };
        Subject { world: Box::new(world), source, sink }
    })
}

struct ThroughShare {
    ends: ThroughEnds,
    _disk: OnDisk,
}

impl World for ThroughShare {
    fn put(&self, entry: &Entry, content: &[u8]) {
        self.ends.put(entry, content);
    }

    fn link(&self, path: &RelPath, to: &RelPath) {
        self.ends.link(path, to);
    }

    fn remove(&self, path: &RelPath) {
        self.ends.remove(path);
    }

    fn look(&self, path: &RelPath) -> Option<(Entry, Vec<u8>)> {
        self.ends.look(path)
    }

    fn names(&self) -> Vec<RelPath> {
        self.ends.names()
    }
}

const NO_PLACE: &str = "SMB has no place for such characters, unless they are mapped";
const NO_TEXT: &str = "SMB has only names that are text";
const ABSOLUTE: &str = "SMB has only links that are relative";

fn is_skipped() -> bool {
    lacks(&NEEDS)
}

fn lacks(needs: &[Need]) -> bool {
    let missing = needs.iter().copied().find_map(Need::missing);
    if let Some(why) = &missing {
        assert!(std::env::var_os("E2E_NO_SKIPS").is_none_or(|value| value != "1"), "{why}");
        eprintln!("skipped: {why}");
    }
    missing.is_some()
}

#[test]
fn source() {
    if !is_skipped() {
        on_disk()
            .except(&[
                ("a_scan_reports_odd_names", NO_PLACE),
                ("a_scan_reports_invalid_utf8", NO_TEXT),
                ("odd_names_are_read", NO_PLACE),
            ])
            .check_source();
    }
}

#[test]
fn sink() {
    if !is_skipped() {
        on_disk()
            .except(&[
                ("odd_names_are_written", NO_PLACE),
                ("invalid_utf8_is_written", NO_TEXT),
                ("odd_names_are_removed", NO_PLACE),
            ])
            .check_sink();
    }
}

#[test]
fn source_with_mapped_names() {
    if !is_skipped() {
        mapped()
            .except(&[("a_scan_reports_invalid_utf8", NO_TEXT), ("odd_names_are_read", NO_TEXT)])
            .check_source();
    }
}

#[test]
fn sink_with_mapped_names() {
    if !is_skipped() {
        mapped().except(&[("invalid_utf8_is_written", NO_TEXT)]).check_sink();
    }
}

/// The names that no disk has, and links that are absolute.
const UNLIKE_A_DISK: [(&str, &str); 8] = [
    ("a_scan_reports_odd_names", NO_PLACE),
    ("a_scan_reports_invalid_utf8", NO_TEXT),
    ("odd_names_are_read", NO_PLACE),
    ("odd_names_are_written", NO_PLACE),
    ("invalid_utf8_is_written", NO_TEXT),
    ("odd_names_are_removed", NO_PLACE),
    ("a_scan_reports_symlinks_and_does_not_follow_them", ABSOLUTE),
    ("a_symlink_is_made", ABSOLUTE),
];

#[test]
fn source_with_links() {
    if !is_skipped() && !lacks(&[Need::Program(REPARSE_SMBD)]) {
        linked().except(&UNLIKE_A_DISK).check_source();
    }
}

#[test]
fn sink_with_links() {
    if !is_skipped() && !lacks(&[Need::Program(REPARSE_SMBD)]) {
        linked().except(&UNLIKE_A_DISK).check_sink();
    }
}
