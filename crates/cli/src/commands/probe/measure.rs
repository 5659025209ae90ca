//! Measures source, link and destination one after the other, so that they do not disturb each other.

use std::time::Duration;

use haul_core::probe::{CpuTicks, ProbeResult, ProbeTask};
use haul_core::{Location, Result};
use haul_job::{Observer, source_place};
use haul_probe::model::{self, LinkRate, Measured};
use haul_remote::{ContentDirection, Peer};

use super::rerun;
use super::state::{Probe, resolve_here, strange};
use crate::render::{Measurement, NamedLink};

/// Duration of the load on one connection, and on all of them once their number is stable.
const ONE: Duration = Duration::from_millis(1500);
const ALL: Duration = Duration::from_secs(2);

impl Probe {
    /// Measures for a copy of `source` to `destination`, and shows the result.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::NotFound`] if the source does not exist; errors of reaching a location.
    pub(super) fn measure(&mut self, source: &Location, destination: &Location) -> Result<()> {
        let (opened, place) = self.open(source, destination)?;
        let from = self.spot(source, source_place(source))?;
        let to = self.spot(destination, place)?;
        let counted = self.count(&*opened)?;
        self.console.note("measuring both ends and the link: about 15 seconds");
        let samples = counted.survey.samples();
        let task = ProbeTask::Read { place: from.place.clone(), samples };
        let ProbeResult::Read(read) = from.run(&task)? else { return Err(strange()) };
        let mut links = Vec::new();
        for (spot, direction) in [(&from, ContentDirection::Back), (&to, ContentDirection::There)] {
            self.go_on()?;
            if let Some(peer) = &spot.peer {
                links.push(NamedLink { host: host(&spot.at), direction, rate: link(peer, direction)? });
            }
        }
        self.go_on()?;
        let ProbeResult::Write(write) = to.run(&ProbeTask::Write { place: to.place.clone() })? else {
            return Err(strange());
        };
        let rates: Vec<LinkRate> = links.iter().map(|link| link.rate).collect();
        let measured = Measured { source: &read, destination: &write, links: &rates };
        let slowest = rates.iter().map(|rate| rate.all).min_by(f64::total_cmp);
        let best = slowest.and_then(|rate| model::best_compression(&read.cpu, rate));
        let compress = best.map(|(way, _)| way);
        let estimate = model::estimate(&counted.counts, counted.seconds, &measured, compress);
        self.console.measurement(&Measurement {
            source: read,
            destination: write,
            shares: [from.share.is_some(), to.share.is_some()],
            links,
            counts: counted.counts,
            scan_seconds: counted.seconds,
            complete: counted.complete,
            estimate,
            compress,
            command: rerun::copy_command(std::env::args_os()),
        });
        Ok(())
    }
}

fn link(peer: &Peer, direction: ContentDirection) -> Result<LinkRate> {
    let round_trip = peer.round_trip()?.as_secs_f64();
    let one = peer.throughput_of_one(direction, ONE)?;
    let work = || -> Result<[CpuTicks; 2]> {
        let here = haul_probe::run(&ProbeTask::Work, &resolve_here)?;
        Ok([of_work(&here)?, of_work(&peer.probe(&ProbeTask::Work)?)?])
    };
    let before = work()?;
    let all = peer.throughput(direction, ALL, one.bytes_per_second)?;
    let after = work()?;
    let [busy_here, busy_there] = [0, 1].map(|at: usize| after[at].share_since(&before[at]));
    Ok(LinkRate {
        round_trip,
        one: one.bytes_per_second,
        // All connections carry at least as much as one.
        all: all.bytes_per_second.max(one.bytes_per_second),
        streams: all.connections,
        ramp: all.ramp,
        busy_here,
        busy_there,
    })
}

fn of_work(result: &ProbeResult) -> Result<CpuTicks> {
    if let ProbeResult::Work(work) = result { Ok(*work) } else { Err(strange()) }
}

/// The host of a location, as given.
pub(super) fn host(at: &Location) -> String {
    match at {
        Location::Local(_) => "here".to_owned(),
        Location::Ssh { host, .. } | Location::Sftp { host, .. } => host.to_string(),
        Location::Smb { server, .. } => server.host.clone(),
        Location::Object(place) => place.bucket.clone(),
    }
}
