//! A plan as JSON.

use haul_core::RelPath;
use haul_plan::{Bucket, Folder, HardLinks, Ranked, Tally, Unfit};
use serde::Serialize;

use super::name::Name;
use super::probe;
use crate::render::plan::{Planned, reason_word};

#[derive(Serialize)]
pub(super) struct Line<'a> {
    tally: Counts,
    scan_seconds: f64,
    histogram: Vec<Size>,
    largest_files: Vec<WithBytes>,
    largest_folders: Vec<Below>,
    widest_folders: Vec<WithEntries>,
    deepest_folders: Vec<WithDepth>,
    longest_name: Option<WithBytes>,
    longest_path: Option<WithBytes>,
    hard_links: Links,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    unfit: Vec<NotFitting>,
    parts: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<probe::Estimate>,
}

impl<'a> Line<'a> {
    pub(super) fn new(planned: &'a Planned) -> Self {
        let plan = &planned.plan;
        let parts = plan.parts.iter().enumerate();
        Self {
            tally: Counts::new(&plan.tally),
            scan_seconds: planned.scan_seconds,
            histogram: plan.histogram.iter().map(Size::new).collect(),
            largest_files: plan.largest_files.iter().map(WithBytes::new).collect(),
            largest_folders: plan.largest_folders.iter().map(Below::new).collect(),
            widest_folders: plan.widest_folders.iter().map(WithEntries::new).collect(),
            deepest_folders: plan.deepest_folders.iter().map(WithDepth::new).collect(),
            longest_name: plan.longest_name.as_ref().map(WithBytes::new),
            longest_path: plan.longest_path.as_ref().map(WithBytes::new),
            hard_links: Links::new(&plan.hard_links),
            target: planned.target.as_deref(),
            unfit: plan.unfit.iter().map(NotFitting::new).collect(),
            parts: parts
                .map(|(at, part)| Part {
                    entries: part.entries,
                    bytes: part.bytes,
                    list: planned.lists.get(at).map(String::as_str),
                })
                .collect(),
            estimate: planned.estimate.as_ref().map(|one| probe::Estimate::new(&one.estimate)),
        }
    }
}

#[derive(Serialize)]
struct Counts {
    entries: u64,
    files: u64,
    bytes: u64,
    folders: u64,
    symlinks: u64,
    specials: u64,
    excluded: u64,
    errors: u64,
    sparse_files: u64,
    hole_bytes: u64,
    small_files: u64,
    small_bytes: u64,
}

impl Counts {
    fn new(tally: &Tally) -> Self {
        let Tally { entries, files, bytes, folders, symlinks, specials, excluded, errors, .. } = *tally;
        let Tally { sparse_files, hole_bytes, small_files, small_bytes, .. } = *tally;
        Self {
            entries,
            files,
            bytes,
            folders,
            symlinks,
            specials,
            excluded,
            errors,
            sparse_files,
            hole_bytes,
            small_files,
            small_bytes,
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
    fn new(bucket: &Bucket) -> Self {
        let up_to = (bucket.up_to < u64::MAX).then_some(bucket.up_to);
        Self { up_to, files: bucket.files, bytes: bucket.bytes }
    }
}

fn name(path: &RelPath) -> Name {
    Name::new(path.as_bytes())
}

#[derive(Serialize)]
struct WithBytes {
    #[serde(flatten)]
    name: Name,
    bytes: u64,
}

impl WithBytes {
    fn new(ranked: &Ranked) -> Self {
        Self { name: name(&ranked.path), bytes: ranked.figure }
    }
}

#[derive(Serialize)]
struct WithEntries {
    #[serde(flatten)]
    name: Name,
    entries: u64,
}

impl WithEntries {
    fn new(ranked: &Ranked) -> Self {
        Self { name: name(&ranked.path), entries: ranked.figure }
    }
}

#[derive(Serialize)]
struct WithDepth {
    #[serde(flatten)]
    name: Name,
    depth: u64,
}

impl WithDepth {
    fn new(ranked: &Ranked) -> Self {
        Self { name: name(&ranked.path), depth: ranked.figure }
    }
}

#[derive(Serialize)]
struct Below {
    #[serde(flatten)]
    name: Name,
    bytes: u64,
    entries: u64,
}

impl Below {
    fn new(folder: &Folder) -> Self {
        Self { name: name(&folder.path), bytes: folder.bytes, entries: folder.entries }
    }
}

#[derive(Serialize)]
struct Links {
    files: u64,
    names: u64,
    saved_bytes: u64,
    outside: u64,
    largest: Vec<WithBytes>,
}

impl Links {
    fn new(links: &HardLinks) -> Self {
        let HardLinks { files, names, saved_bytes, outside, .. } = *links;
        let largest = links.largest.iter().map(WithBytes::new).collect();
        Self { files, names, saved_bytes, outside, largest }
    }
}

#[derive(Serialize)]
struct NotFitting {
    reason: &'static str,
    count: u64,
    first: Vec<Name>,
}

impl NotFitting {
    fn new(unfit: &Unfit) -> Self {
        let first = unfit.examples.iter().map(name).collect();
        Self { reason: reason_word(unfit.reason), count: unfit.count, first }
    }
}

#[derive(Serialize)]
struct Part<'a> {
    entries: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<&'a str>,
}
