//! A bucket of an S3 store, held to the promises of sources and sinks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use haul_core::location::{ObjectKind, ObjectPlace, StoreNumber};
use haul_core::{BufferPool, Place, PlaceRoot, Side};
use haul_object::{Client, PutOptions, StoreSettings};
use haul_store::Detail;
use haul_testkit::conformance::{Keeps, Subject, TestedEnd, ThroughEnds};
use haul_testkit::store::{Habits, SmallStore};

/// A bucket keeps the metadata of each object, but neither inodes nor holes.
fn keeps() -> Keeps {
    Keeps {
        sparse: false,
        inodes: false,
        resumes: false,
        resumes_streams: false,
        hard_links: false,
        ..Keeps::everything()
    }
}

fn client(store: &SmallStore, side: Side) -> Arc<Client> {
    let settings = StoreSettings {
        endpoint: Some(store.endpoint()),
        region: Some("us-east-1".to_owned()),
        insecure_http: true,
        timeout: Duration::from_secs(20),
        ..StoreSettings::default()
    };
    let bucket = ObjectPlace {
        kind: ObjectKind::S3,
        bucket: "bucket".to_owned(),
        key: String::new(),
        store: StoreNumber::default(),
    };
    let cancel = Arc::new(AtomicBool::new(false));
    Arc::new(haul_object::open(&bucket, side, &settings, cancel, Arc::new(|_: &str| {})).unwrap())
}

fn store() -> TestedEnd {
    let store = SmallStore::start(Habits::default());
    let roots = AtomicU32::new(0);
    TestedEnd::new("store", keeps(), move || {
        let number = roots.fetch_add(1, Ordering::Relaxed);
        let at = Place { path: format!("root{number}").into_bytes(), root: PlaceRoot::Exactly };
        let (reading, writing) = (client(&store, Side::Source), client(&store, Side::Destination));
        let pool = BufferPool::new(64 << 20);
        let source = move || {
            let (client, at, pool) = (Arc::clone(&reading), at.clone(), pool.clone());
            move || haul_store::open_source(&client, &at, Detail::Full, &pool).unwrap()
        };
        let at = Place { path: format!("root{number}").into_bytes(), root: PlaceRoot::Exactly };
        let pool = BufferPool::new(64 << 20);
        let sink = move || {
            let (client, at, pool) = (Arc::clone(&writing), at.clone(), pool.clone());
            move |options: &_| {
                haul_store::open_sink(&client, &at, options, None, &PutOptions::default(), &pool).unwrap()
            }
        };
        let world = ThroughEnds { source: Box::new(source()), sink: Box::new(sink()) };
        Subject { world: Box::new(world), source: Box::new(source()), sink: Box::new(sink()) }
    })
}

/// Runs a test of this program in a process that has credentials, as the environment of this one cannot be changed safely.
fn with_credentials(test: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test, "--nocapture"]);
    command.env("AWS_ACCESS_KEY_ID", "x").env("AWS_SECRET_ACCESS_KEY", "x");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn source() {
    with_credentials("source_with_credentials");
}

#[test]
fn sink() {
    with_credentials("sink_with_credentials");
}

#[test]
#[ignore = "`source` runs it"]
fn source_with_credentials() {
    store().check_source();
}

#[test]
#[ignore = "`sink` runs it"]
fn sink_with_credentials() {
    store().check_sink();
}
