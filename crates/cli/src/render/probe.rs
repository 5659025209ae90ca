//! The results of a probe as tables.

use std::fmt::Write;

use haul_core::probe::{CompressFigures, CpuFigures, ReadFigures, WriteFigures};
use haul_probe::doctor::{Finding, Level};
use haul_probe::model::{Estimate, LinkRate, Stage};
use haul_probe::survey::TreeCounts;
use haul_remote::ContentDirection;
use indicatif::HumanCount;
use serde::{Serialize, Serializer};

use super::wording::{bytes, count, duration, rate};

/// A link to a remote host.
#[derive(Serialize)]
pub(crate) struct NamedLink {
    /// The host.
    pub(crate) host: String,
    /// The direction of the data.
    #[serde(serialize_with = "way_word")]
    pub(crate) direction: ContentDirection,
    /// The measured rate.
    #[serde(flatten)]
    pub(crate) rate: LinkRate,
}

/// The result of a probe.
pub(crate) struct Measurement {
    pub(crate) source: ReadFigures,
    pub(crate) destination: WriteFigures,
    /// Whether the source and the destination are on shares, whose figures include the network.
    pub(crate) shares: [bool; 2],
    pub(crate) links: Vec<NamedLink>,
    pub(crate) counts: TreeCounts,
    pub(crate) scan_seconds: f64,
    /// Whether the whole source was counted.
    pub(crate) complete: bool,
    pub(crate) estimate: Estimate,
    /// The compression that a copy would use.
    pub(crate) compress: Option<CompressFigures>,
    /// The command of the copy.
    pub(crate) command: String,
}

/// The findings of `probe --doctor`, each with its location.
#[derive(Default)]
pub(crate) struct Diagnosis {
    pub(crate) rows: Vec<(String, Finding)>,
}

impl Diagnosis {
    /// Adds the findings of one location.
    pub(crate) fn add(&mut self, end: &str, findings: Vec<Finding>) {
        self.rows.extend(findings.into_iter().map(|finding| (end.to_owned(), finding)));
    }

    /// The table.
    pub(super) fn text(&self) -> String {
        let mut rows = vec![["", "where", "what", "found"].map(str::to_owned)];
        for (end, finding) in &self.rows {
            let level = level(finding.level).to_owned();
            rows.push([level, end.clone(), finding.what.to_owned(), finding.found.clone()]);
        }
        let lines = table(&rows);
        let mut text = String::new();
        let mut lines = lines.into_iter();
        text.extend(lines.next());
        for (line, (_, finding)) in lines.zip(&self.rows) {
            text.push_str(&line);
            if let Some(fix) = &finding.fix {
                let _ = writeln!(text, "      fix: {fix}");
            }
        }
        let of = |level: Level| self.rows.iter().filter(|(_, finding)| finding.level == level).count() as u64;
        let warnings = count(of(Level::Warn), "warning", "warnings");
        let _ = writeln!(text, "{} bad, {warnings}", HumanCount(of(Level::Bad)));
        text
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::Warn => "warn",
        Level::Bad => "bad",
    }
}

fn way(direction: ContentDirection) -> &'static str {
    if direction == ContentDirection::There { "to" } else { "from" }
}

fn way_word<S: Serializer>(direction: &ContentDirection, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(way(*direction))
}

pub(super) fn stage_words(stage: Stage) -> &'static str {
    match stage {
        Stage::Scan => "the scan of the source",
        Stage::SourceDisk => "the source's disk",
        Stage::SourceCpu => "the source's CPU",
        Stage::Link => "the link",
        Stage::DestinationCpu => "the destination's CPU",
        Stage::DestinationDisk => "the destination's disk",
    }
}

impl Measurement {
    /// The table and the conclusions.
    pub(super) fn text(&self) -> String {
        let mut text: String = table(&self.rows()).concat();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name} {value}");
        };
        line("\nlimit:", self.limit());
        line("haul would use:", self.choice());
        line("the tree:", self.tree());
        if let Some(why) = &self.destination.skipped {
            let what = if self.shares[1] { "share" } else { "disk" };
            line("not measured:", format!("the destination's {what} ({why})"));
        }
        line("run:", self.command.clone());
        text
    }

    /// Rows of the name, the measured value, and the load that it suffices for.
    fn rows(&self) -> Vec<[String; 3]> {
        let mut rows = vec![["what", "measured", "sufficient for"].map(str::to_owned)];
        let mut row = |what: String, measured: String, enough: String| rows.push([what, measured, enough]);
        let files = |number: u64| format!("{} files/s", HumanCount(number));
        let million = |number: u64| format!("a million in {}", duration(1e6 / number as f64));
        let Self { source, destination, .. } = self;
        if let Some(read) = source.bytes_per_second {
            row("source: read large files".into(), rate(read as f64), bits(read as f64));
        }
        if let Some(read) = source.files_per_second {
            row("source: read small files".into(), files(read), million(read));
        }
        let cpu = |row: &mut dyn FnMut(String, String, String), end: &str, cpu: &CpuFigures| {
            let cores = count(u64::from(cpu.cores), "core", "cores");
            let all = |per_core: u64| per_core as f64 * f64::from(cpu.cores);
            for (name, figure) in [("BLAKE3", cpu.hash), ("AES-128-GCM", cpu.aes)] {
                let measured = format!("{} a core, {cores}", rate(figure as f64));
                row(format!("{end}: {name}"), measured, bits(all(figure)));
            }
            for way in &cpu.compress {
                let percent = f64::from(way.permille) / 10.0;
                let per_core = way.bytes_per_second;
                let measured = format!("{} a core, to {percent:.0} %", rate(per_core as f64));
                row(format!("{end}: {}", way.method), measured, bits(all(per_core)));
            }
        };
        cpu(&mut row, "source", &source.cpu);
        for NamedLink { host, direction, rate: link } in &self.links {
            let way = way(*direction);
            row(format!("link {way} {host}: round trip"), millis(link.round_trip), String::new());
            row(format!("link {way} {host}: one stream"), rate(link.one), bits(link.one));
            let streams = count(u64::from(link.streams), "stream", "streams");
            row(format!("link {way} {host}: {streams}"), rate(link.all), bits(link.all));
            let [local, remote] = [link.busy_here, link.busy_there].map(|share| share * 100.0);
            let busy = format!("{local:.0} % local, {remote:.0} % remote");
            row(format!("link {way} {host}: CPUs busy"), busy, String::new());
        }
        if let Some(written) = destination.bytes_per_second {
            row("destination: write and sync".into(), rate(written as f64), bits(written as f64));
        }
        if let Some(micros) = destination.sync_micros {
            row("destination: one sync".into(), millis(micros as f64 / 1e6), String::new());
        }
        if let Some(made) = destination.files_per_second {
            row("destination: create small files".into(), files(made), million(made));
        }
        cpu(&mut row, "destination", &destination.cpu);
        rows
    }

    fn limit(&self) -> String {
        let Some(limit) = self.estimate.limit else { return "nothing was measured".to_owned() };
        let of = self.estimate.stages.iter().filter(|(stage, _)| *stage == limit);
        let seconds = of.map(|(_, seconds)| *seconds).fold(0.0, f64::max);
        let busy = self.links.iter().any(|link| link.rate.is_busy());
        let why = if limit == Stage::Link && busy { ", with CPUs that it keeps busy" } else { "" };
        let what = match (limit, self.shares) {
            (Stage::SourceDisk, [true, _]) => "the source's share, with its network",
            (Stage::DestinationDisk, [_, true]) => "the destination's share, with its network",
            _ => stage_words(limit),
        };
        format!("{what}{why} ({} on its own)", duration(seconds))
    }

    fn choice(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        for link in &self.links {
            words.push(format!(
                "{} with {}",
                count(u64::from(link.rate.streams), "stream", "streams"),
                link.host
            ));
        }
        if self.shares.contains(&true) {
            words.push("up to 4 connections with a share (--streams)".to_owned());
        }
        if self.links.is_empty() && words.is_empty() {
            words.push("no streams: source and destination are local".to_owned());
        }
        if !self.links.is_empty() {
            words.push(match &self.compress {
                Some(way) => format!("compression with {}", way.method),
                None => "no compression: it would not help".to_owned(),
            });
        }
        words.join(", ")
    }

    fn tree(&self) -> String {
        let TreeCounts { entries, files, bytes: size, largest, errors, .. } = self.counts;
        let least = if self.complete { "" } else { "at least " };
        let mut text = format!(
            "{least}{} in {} of {}, the largest {}; ",
            bytes(size),
            count(files, "file", "files"),
            count(entries, "entry", "entries"),
            bytes(largest)
        );
        let Estimate { low_seconds, high_seconds, .. } = self.estimate;
        let [low, high] = [low_seconds, high_seconds].map(duration);
        if self.complete {
            let _ = write!(text, "{low} to {high}");
        } else {
            let _ = write!(text, "more than {low}: the tree was counted in part only");
        }
        if errors > 0 {
            let _ = write!(text, " ({} could not be read)", count(errors, "entry", "entries"));
        }
        text
    }
}

fn millis(seconds: f64) -> String {
    format!("{:.2} ms", seconds * 1000.0)
}

/// Bytes per second as the speed of a link in bits.
fn bits(bytes_per_second: f64) -> String {
    let megabits = bytes_per_second * 8.0 / 1e6;
    match megabits {
        10_000.0.. => format!("{:.0} Gbit/s", megabits / 1000.0),
        1000.0.. => format!("{:.1} Gbit/s", megabits / 1000.0),
        10.0.. => format!("{megabits:.0} Mbit/s"),
        _ => format!("{megabits:.1} Mbit/s"),
    }
}

/// Aligns the columns of rows.
pub(super) fn table<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        format!("{}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_shown_in_bits() {
        assert_eq!(bits(125e6), "1.0 Gbit/s");
        assert_eq!(bits(1.25e9), "10 Gbit/s");
        assert_eq!(bits(12.5e6), "100 Mbit/s");
        assert_eq!(bits(0.0), "0.0 Mbit/s");
    }

    #[test]
    fn findings_are_followed_by_their_fix() {
        let finding = |level, fix: Option<&str>| Finding {
            level,
            what: "free space",
            found: "none".to_owned(),
            fix: fix.map(str::to_owned),
        };
        let mut diagnosis = Diagnosis::default();
        diagnosis.add("source", vec![finding(Level::Ok, None)]);
        diagnosis.add("destination", vec![finding(Level::Bad, Some("make room"))]);
        let expected = "      where        what        found\n\
                        ok    source       free space  none\n\
                        bad   destination  free space  none\n      fix: make room\n\
                        1 bad, 0 warnings\n";
        let squeezed = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(squeezed(&diagnosis.text()), squeezed(expected));
    }
}
