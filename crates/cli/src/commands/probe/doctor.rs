//! `probe --doctor`: examines each location and link, and checks that the tree fits.

use std::time::Duration;

use haul_core::probe::{Facts, ProbeResult, ProbeTask};
use haul_core::{Error, ErrorKind, Links, Location, Place, PlaceRoot, Result};
use haul_job::source_place;
use haul_probe::doctor::{Finding, Level, LinkFacts, Role, examine_end, examine_link, examine_space};
use haul_probe::survey::TreeCounts;
use haul_remote::{ContentDirection, Peer};

use super::measure::host;
use super::state::{Probe, Spot, resolve_here, strange};
use crate::render::Diagnosis;

/// Duration of the load on a link; only the order of magnitude of its rate matters.
const LOAD: Duration = Duration::from_millis(800);
/// Maximum number of connections without `--streams`.
const STREAMS: u32 = 16;

impl Probe {
    /// Examines the locations and shows the findings; `true` if there is a problem.
    ///
    /// # Errors
    /// Errors of reaching a location; the findings so far have been shown.
    pub(super) fn examine(&mut self, source: &Location, destination: Option<&Location>) -> Result<bool> {
        let mut found = Diagnosis::default();
        let ended = match destination {
            Some(destination) => self.examine_pair(&mut found, source, destination),
            None => self.examine_one(&mut found, source),
        };
        if let Err(error) = &ended
            && error.kind() != ErrorKind::Cancelled
        {
            found.add("haul", vec![broken(error)]);
        }
        let bad = found.rows.iter().any(|(_, finding)| finding.level == Level::Bad);
        self.console.diagnosis(&found);
        ended.map(|()| bad)
    }

    fn examine_one(&mut self, found: &mut Diagnosis, at: &Location) -> Result<()> {
        let spot = self.spot(at, source_place(at))?;
        let facts = facts(&spot)?;
        found.add(&host(at), examine_end(Role::Either, &facts));
        self.examine_links(found, &[(&spot, &facts, ContentDirection::There)])
    }

    fn examine_pair(
        &mut self,
        found: &mut Diagnosis,
        source: &Location,
        destination: &Location,
    ) -> Result<()> {
        // Examines each location even if the other cannot be reached.
        let opened = self.open(source, destination);
        let from = opened.as_ref().ok().map(|_| self.spot(source, source_place(source))).transpose()?;
        let place = opened.as_ref().map_or_else(|_| source_place(destination), |(_, place)| place.clone());
        let to = self.spot(destination, place.clone());
        let mut links = Vec::new();
        let from_facts = from.as_ref().map(facts).transpose()?;
        if let Some(facts) = &from_facts {
            found.add("source", examine_end(Role::Source, facts));
        }
        let to_facts = to.as_ref().ok().map(facts).transpose()?;
        if let Some(facts) = &to_facts {
            found.add("destination", examine_end(Role::Destination, facts));
        }
        let (opened, _) = opened?;
        let to = to?;
        if let (Some(from), Some(facts)) = (&from, &from_facts) {
            links.push((from, facts, ContentDirection::Back));
        }
        links.extend(to_facts.as_ref().map(|facts| (&to, facts, ContentDirection::There)));
        self.examine_links(found, &links)?;
        self.go_on()?;
        let counted = self.count(&*opened)?;
        if let Some(space) = to_facts.and_then(|facts| facts.space) {
            let nothing = TreeCounts::default();
            let judge = |there: &TreeCounts| examine_space(&space, &counted.counts, there, counted.complete);
            let mut findings = judge(&nothing);
            if findings.iter().any(|finding| finding.level == Level::Bad) {
                // Part of the tree may already be at the destination.
                let there = self.ends.source(destination, &place, Links::Kept)?;
                findings = judge(&self.count(&*there)?.counts);
            }
            found.add("destination", findings);
        }
        Ok(())
    }

    fn examine_links(
        &self,
        found: &mut Diagnosis,
        links: &[(&Spot, &Facts, ContentDirection)],
    ) -> Result<()> {
        for (spot, remote, direction) in links {
            self.go_on()?;
            let Some(peer) = &spot.peer else { continue };
            let local = local_facts(remote)?;
            let (sender, receiver) = match direction {
                ContentDirection::There => (&local, *remote),
                ContentDirection::Back => (*remote, &local),
            };
            let findings = self.examine_link(peer, *direction, sender, receiver)?;
            found.add(&format!("link to {}", host(&spot.at)), findings);
        }
        Ok(())
    }

    fn examine_link(
        &self,
        peer: &Peer,
        direction: ContentDirection,
        sender: &Facts,
        receiver: &Facts,
    ) -> Result<Vec<Finding>> {
        let back = if direction == ContentDirection::There {
            ContentDirection::Back
        } else {
            ContentDirection::There
        };
        let round_trip = peer.round_trip()?.as_secs_f64();
        let clock_ahead = peer.clock_ahead()?;
        let large_messages = [peer.carries_large(direction)?, peer.carries_large(back)?];
        let rate = if large_messages == [true, true] {
            peer.throughput(direction, LOAD, 1e6)?.bytes_per_second
        } else {
            0.0
        };
        let streams = self.streams.unwrap_or(STREAMS);
        Ok(examine_link(&LinkFacts {
            sender,
            receiver,
            round_trip,
            rate,
            streams,
            clock_ahead,
            large_messages,
        }))
    }
}

fn facts(spot: &Spot) -> Result<Facts> {
    facts_of(spot.run(&ProbeTask::Facts { place: spot.place.clone(), other: None })?)
}

/// The facts of this host about the path to the remote host.
fn local_facts(remote: &Facts) -> Result<Facts> {
    let other = remote.ssh.as_ref().map(|(_, to)| to.clone());
    let place = Place { path: b".".to_vec(), root: PlaceRoot::Exactly };
    facts_of(haul_probe::run(&ProbeTask::Facts { place, other }, &resolve_here)?)
}

fn facts_of(result: ProbeResult) -> Result<Facts> {
    if let ProbeResult::Facts(facts) = result { Ok(*facts) } else { Err(strange()) }
}

/// The error that ended the examination, as a finding.
fn broken(error: &Error) -> Finding {
    let what = match error.kind() {
        ErrorKind::Unreachable | ErrorKind::Protocol => "connection",
        _ => "access",
    };
    Finding { level: Level::Bad, what, found: error.to_string(), fix: error.hint().map(str::to_owned) }
}
