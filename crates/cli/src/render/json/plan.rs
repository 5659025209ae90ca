//! A plan as JSON.

use haul_core::RelPath;
use haul_plan::{DirectoryFigures, LinkedFiles, RankedEntry, Reason, SizeBucket, Tally, Unfit};
use haul_probe::model::Estimate;
use serde::Serialize;

use super::name::JsonName;
use crate::render::plan::Planned;

#[derive(Serialize)]
pub(super) struct PlanLine<'a> {
    tally: Tally,
    scan_seconds: f64,
    histogram: Vec<Size>,
    largest_files: Vec<RankedPath>,
    #[serde(rename = "largest_folders")]
    largest_directories: Vec<Below>,
    #[serde(rename = "widest_folders")]
    widest_directories: Vec<RankedPath>,
    #[serde(rename = "deepest_folders")]
    deepest_directories: Vec<RankedPath>,
    longest_name: Option<RankedPath>,
    longest_path: Option<RankedPath>,
    hard_links: LinksLine,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    unfit: Vec<NotFitting>,
    parts: Vec<PlanPart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<&'a Estimate>,
}

impl<'a> PlanLine<'a> {
    pub(super) fn new(planned: &'a Planned) -> Self {
        let plan = &planned.plan;
        let parts = plan.parts.iter().enumerate();
        Self {
            tally: plan.tally,
            scan_seconds: planned.scan_seconds,
            histogram: plan.histogram.iter().map(Size::new).collect(),
            largest_files: ranked(&plan.largest_files, Figure::Bytes),
            largest_directories: plan.largest_directories.iter().map(Below::new).collect(),
            widest_directories: ranked(&plan.widest_directories, Figure::Entries),
            deepest_directories: ranked(&plan.deepest_directories, Figure::Depth),
            longest_name: ranked(&plan.longest_name, Figure::Bytes).pop(),
            longest_path: ranked(&plan.longest_path, Figure::Bytes).pop(),
            hard_links: LinksLine::new(&plan.hard_links),
            target: planned.target.as_deref(),
            unfit: plan.unfit.iter().map(NotFitting::new).collect(),
            parts: parts
                .map(|(at, part)| PlanPart {
                    entries: part.entries,
                    bytes: part.bytes,
                    list: planned.lists.get(at).map(String::as_str),
                })
                .collect(),
            estimate: planned.estimate.as_ref().map(|one| &one.estimate),
        }
    }
}

#[derive(Serialize)]
struct Size {
    up_to: Option<u64>,
    files: u64,
    bytes: u64,
}

impl Size {
    fn new(bucket: &SizeBucket) -> Self {
        let up_to = (bucket.up_to < u64::MAX).then_some(bucket.up_to);
        Self { up_to, files: bucket.files, bytes: bucket.bytes }
    }
}

fn name(path: &RelPath) -> JsonName {
    JsonName::new(path.as_bytes())
}

/// A path with the figure that it is ranked by.
#[derive(Serialize)]
struct RankedPath {
    #[serde(flatten)]
    name: JsonName,
    #[serde(flatten)]
    figure: Figure,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Figure {
    Bytes(u64),
    Entries(u64),
    Depth(u64),
}

/// The paths of a ranking.
fn ranked<'a>(
    paths: impl IntoIterator<Item = &'a RankedEntry>,
    figure: fn(u64) -> Figure,
) -> Vec<RankedPath> {
    let path = |path: &RankedEntry| RankedPath { name: name(&path.path), figure: figure(path.figure) };
    paths.into_iter().map(path).collect()
}

#[derive(Serialize)]
struct Below {
    #[serde(flatten)]
    name: JsonName,
    bytes: u64,
    entries: u64,
}

impl Below {
    fn new(directory: &DirectoryFigures) -> Self {
        Self { name: name(&directory.path), bytes: directory.bytes, entries: directory.entries }
    }
}

#[derive(Serialize)]
struct LinksLine {
    files: u64,
    names: u64,
    saved_bytes: u64,
    outside: u64,
    largest: Vec<RankedPath>,
}

impl LinksLine {
    fn new(links: &LinkedFiles) -> Self {
        let LinkedFiles { files, names, saved_bytes, outside, .. } = *links;
        Self { files, names, saved_bytes, outside, largest: ranked(&links.largest, Figure::Bytes) }
    }
}

#[derive(Serialize)]
struct NotFitting {
    reason: Reason,
    count: u64,
    first: Vec<JsonName>,
}

impl NotFitting {
    fn new(unfit: &Unfit) -> Self {
        let first = unfit.examples.iter().map(name).collect();
        Self { reason: unfit.reason, count: unfit.count, first }
    }
}

#[derive(Serialize)]
struct PlanPart<'a> {
    entries: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<&'a str>,
}
