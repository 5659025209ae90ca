//! Measuring a link and its remote end.

use std::time::Duration;

use haul_core::ErrorKind;
use haul_core::probe::ProbeTask;
use haul_remote::ContentDirection;

use super::cable::Cables;
use super::{connect, place};

const TIME: Duration = Duration::from_millis(600);

#[test]
fn a_link_is_measured_both_ways() {
    let remote = Cables::new();
    let peer = connect(&remote, 3).unwrap();
    assert!(peer.round_trip().unwrap() < Duration::from_secs(5));
    assert!(peer.clock_ahead().unwrap().abs() < 5.0, "it is the same clock");
    for direction in [ContentDirection::There, ContentDirection::Back] {
        assert!(peer.carries_large(direction).unwrap());
        let one = peer.throughput_of_one(direction, TIME).unwrap();
        assert!(one.bytes_per_second > 0.0 && one.connections == 1, "{one:?}");
        let all = peer.throughput(direction, TIME, one.bytes_per_second).unwrap();
        assert!(all.bytes_per_second > 0.0 && (1..=3).contains(&all.connections), "{all:?}");
    }
    assert!(remote.count() > 1, "further connections were opened under the load");
}

#[test]
fn a_link_that_dies_is_an_error() {
    let remote = Cables::new();
    let peer = connect(&remote, 1).unwrap();
    remote.refuse.store(true, std::sync::atomic::Ordering::Relaxed);
    remote.cable(0).cut();
    let failed = peer.throughput(ContentDirection::There, TIME, 1e6).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unreachable);
}

#[test]
fn the_remote_end_says_why_it_cannot_measure() {
    let peer = connect(&Cables::new(), 1).unwrap();
    let failed = peer.probe(&ProbeTask::Write { place: place("/nowhere") }).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::NotFound);
}
