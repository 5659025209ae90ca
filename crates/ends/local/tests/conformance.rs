//! The local file system, held to the promises of sources and sinks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use haul_core::{BufferPool, Links, Ops};
use haul_testkit::conformance::{Keeps, OnDisk, Subject, TestedEnd};

fn local() -> TestedEnd {
    TestedEnd::new("local", Keeps::everything(), || {
        let (world, pool, ops) = (OnDisk::new(), BufferPool::new(64 << 20), Arc::<Ops>::default());
        let at = world.place();
        let (from, buffers, limit) = (at.clone(), pool.clone(), Arc::clone(&ops));
        Subject {
            world: Box::new(world),
            source: Box::new(move || {
                haul_local::open_source(&from, Links::Kept, false, &buffers, &limit).unwrap()
            }),
            sink: Box::new(move |options| haul_local::open_sink(&at, false, options, &pool, &ops).unwrap()),
        }
    })
}

#[test]
fn source() {
    local().check_source();
}

#[test]
fn sink() {
    local().check_sink();
}
