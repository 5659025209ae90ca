//! Answers offers: compares entries, creates directories, and finds the content that the sink needs.

use std::collections::{BTreeSet, HashMap};

use haul_core::policy::{self, Verdict};
use haul_core::staging::is_staging_name;
use haul_core::{Answer, Changes, Compare, Entry, Error, ErrorKind, Offer, RelPath, Result, SkipReason};
use haul_ends::hashed::HashedBytes;
use haul_ends::offers;
use haul_ends::server_tree::ServerTree;

use super::attrs::Attrs;
use super::directories::has_entries;
use super::entries::is_link;
use super::large;
use super::meta::SmbEntry;
use super::read::HASHERS;
use super::remove::remove_at;
use super::small::is_small;
use super::state::SmbSink;

type PendingOffer<'a> = haul_ends::offers::PendingOffer<'a, Attrs>;

/// How the existing entry differs.
fn changes_of(sink: &SmbSink, case: &PendingOffer<'_>) -> Changes {
    changes(sink, case.entry(), case.now.as_ref(), &case.verdict)
}

/// Whether a directory is in the place of the entry.
fn is_blocked(case: &PendingOffer<'_>) -> bool {
    case.is_open() && !case.entry().is_dir() && case.now.is_some_and(|now| now.is_dir())
}

/// Whether a directory or a link of that kind is in the place of the entry.
fn has_to_go(case: &PendingOffer<'_>) -> bool {
    let is_link = |now: Attrs| now.is_reparse_point() && now.is_dir_point();
    is_blocked(case) || case.is_open() && !case.entry().is_dir() && case.now.is_some_and(is_link)
}

/// Compares entries and creates those that have no content.
pub(super) fn answer(sink: &SmbSink, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
    let mut cases: Vec<PendingOffer<'_>> = Vec::with_capacity(offers.len());
    for offer in offers {
        let answer = sink.check(&offer.entry).err().map(Err);
        cases.push(PendingOffer { offer, now: None, verdict: Verdict::Missing, answer });
    }
    let good: Vec<usize> = (0..cases.len()).filter(|at| cases[*at].is_open()).collect();
    let paths: Vec<RelPath> = good.iter().map(|at| offers[*at].entry.path.clone()).collect();
    let looked = sink.directories.look(&sink.tree, &paths)?;
    for (at, found) in good.into_iter().zip(looked.found) {
        let case = &mut cases[at];
        let has_name = sink.directories.take(&case.offer.entry.path);
        match found {
            _ if !has_name => case.answer = Some(Err(sink.taken(&case.offer.entry.path))),
            Ok(now) => case.now = now,
            Err(fault) => case.answer = Some(Err(sink.tree.error("look at", &case.offer.entry.path, fault))),
        }
        let existing = case.now.as_ref().map(|attrs| SmbEntry { options: &sink.options, attrs });
        case.verdict = sink.cleared.decide(&sink.options, case.offer, existing.as_ref());
    }
    let hashed = HashedBytes::default();
    offers::compare_digests(&mut cases, |paths| sink.tree.digest(paths, HASHERS, &hashed))?;
    for case in cases.iter_mut().filter(|case| case.is_open()) {
        leave_out(sink, case, &looked.lacking);
    }
    sink.compare_points(&mut cases)?;
    same(sink, &mut cases)?;
    if sink.options.dry_run {
        look_into_dirs(sink, &mut cases)?;
    } else {
        sink.clean(&paths.iter().filter_map(RelPath::parent).collect::<BTreeSet<_>>())?;
        sink.leave_out_unmade(&mut cases, true)?;
        clear_dirs(sink, &mut cases)?;
        make_dirs(sink, &mut cases, &looked.lacking)?;
        sink.leave_out_unmade(&mut cases, false)?;
        sink.make_links(&mut cases, |case| changes_of(sink, case))?;
    }
    need(sink, &mut cases)?;
    Ok(offers::answers(cases, sink.tree.side))
}

/// How the entry at the place of `entry` differs from it.
pub(super) fn changes(sink: &SmbSink, entry: &Entry, now: Option<&Attrs>, verdict: &Verdict) -> Changes {
    let options = &sink.options;
    let existing = now.map(|attrs| SmbEntry { options, attrs });
    policy::changes(options, entry, existing.as_ref(), verdict, || {
        now.map_or(Changes::NONE, |now| sink.wish(entry).changes(now))
    })
}

fn can_hold(entry: &Entry) -> bool {
    entry.is_file() || entry.is_dir() || is_link(entry)
}

/// Answers the offers of entries that the options exclude or that a share cannot hold.
fn leave_out(sink: &SmbSink, case: &mut PendingOffer<'_>, lacking: &HashMap<RelPath, bool>) {
    case.leave_out(&sink.options, lacking);
    if !case.is_open() {
        return;
    }
    if !can_hold(case.entry()) {
        let path = &case.offer.entry.path;
        sink.notes.note("pipes, sockets and devices", "haul makes none on a share", path);
        case.answer = Some(Ok(Answer::Left(SkipReason::Unsupported)));
    }
    sink.leave_out_link(case);
}

/// Sets the metadata of entries that are equal otherwise.
fn same(sink: &SmbSink, cases: &mut [PendingOffer<'_>]) -> Result<()> {
    let options = &sink.options;
    let mut differing = Vec::new();
    let differing_extras = sink.differing_extras(cases)?;
    let extra = |at: usize| differing_extras.get(&at).copied().unwrap_or(Changes::NONE);
    for (at, case) in cases.iter_mut().enumerate() {
        let Some(now) = case.now.filter(|_| case.verdict == Verdict::Same && case.answer.is_none()) else {
            continue;
        };
        let entry = &*case.offer.entry;
        if options.compare == Compare::Metadata {
            case.answer = Some(Ok(compared(sink, entry, &now, extra(at))));
            continue;
        }
        if entry.is_dir() {
            sink.dirs.add(entry)?;
            if sink.made.take(&entry.path) {
                case.answer = Some(Ok(Answer::Made(Changes::NEW)));
                continue;
            }
        }
        if extra(at).is_empty() && sink.wish(entry).is_met_by(&now) {
            case.answer = Some(Ok(Answer::Same));
        } else if entry.is_dir() || options.dry_run {
            case.answer = Some(Ok(Answer::Updated(changes_of(sink, case) | extra(at))));
        } else {
            differing.push(at);
        }
    }
    let set = sink.tree.smb.all(&differing, async |at: &usize| {
        let case = &cases[*at];
        sink.set(case.entry(), case.now.as_ref()).await
    })?;
    for (at, set) in differing.into_iter().zip(set) {
        // Metadata that cannot be set became a warning.
        let updated = Answer::Updated(changes_of(sink, &cases[at]) | extra(at));
        cases[at].answer = Some(set.map(|set| if set == Some(true) { updated } else { Answer::Same }));
    }
    Ok(())
}

/// Compares metadata alone, as far as a share keeps it. The rest becomes warnings. `extra` has the differences that cost
/// requests.
pub(super) fn compared(sink: &SmbSink, entry: &Entry, now: &Attrs, extra: Changes) -> Answer {
    sink.warn(entry);
    let changes = sink.wish(entry).changes(now) | extra;
    let existing = SmbEntry { options: &sink.options, attrs: now };
    let is_same_time = policy::Existing::has_time(&existing, entry.mtime);
    let changes = changes.without(Changes::TIME.when(is_same_time));
    if changes.is_empty() { Answer::Same } else { Answer::Updated(changes) }
}

/// In a dry run, finds directories that would prevent an entry, as they are not empty.
fn look_into_dirs(sink: &SmbSink, cases: &mut [PendingOffer<'_>]) -> Result<()> {
    let blocked: Vec<usize> = (0..cases.len()).filter(|at| is_blocked(&cases[*at])).collect();
    let full = sink.tree.smb.all(&blocked, async |at: &usize| {
        has_entries(&sink.tree, &cases[*at].offer.entry.path, |name| !is_staging_name(name)).await
    })?;
    for (at, full) in blocked.into_iter().zip(full) {
        let path = &cases[at].offer.entry.path;
        match full {
            Ok(false) => {}
            Ok(true) => cases[at].answer = Some(Err(not_empty(sink, path))),
            Err(fault) => cases[at].answer = Some(Err(sink.tree.error("look into", path, fault))),
        }
    }
    Ok(())
}

fn not_empty(sink: &SmbSink, path: &RelPath) -> Error {
    Error::not_empty(sink.tree.side).on(sink.tree.shown(path))
}

/// Removes empty directories, and links that are directories, that have the name of another entry. One that is not empty is
/// an error.
fn clear_dirs(sink: &SmbSink, cases: &mut [PendingOffer<'_>]) -> Result<()> {
    let blocked: Vec<usize> = (0..cases.len()).filter(|at| has_to_go(&cases[*at])).collect();
    let removed = sink.tree.smb.all(&blocked, async |at: &usize| {
        let path = &cases[*at].offer.entry.path;
        sink.directories.forget(path);
        remove_at(&sink.tree, &sink.tree.remote(path)?).await
    })?;
    for (at, removed) in blocked.into_iter().zip(removed) {
        let path = &cases[at].offer.entry.path;
        match removed {
            Ok(()) => sink.cleared.add(&sink.options, path),
            Err(fault) if fault.is_missing() => {}
            Err(fault) => {
                let error = sink.tree.error("replace", path, fault);
                let is_full = error.kind() == ErrorKind::NotEmpty;
                cases[at].answer = Some(Err(if is_full { not_empty(sink, path) } else { error }));
            }
        }
    }
    Ok(())
}

/// Creates the directories that were offered, and the missing parents of all entries.
fn make_dirs(sink: &SmbSink, cases: &mut [PendingOffer<'_>], lacking: &HashMap<RelPath, bool>) -> Result<()> {
    if cases.iter().any(|case| case.is_open() && case.entry().path.is_root() && !case.entry().is_dir()) {
        // For a single file, the destination directory may be missing.
        sink.make_above()?;
    }
    offers::make_dirs(
        cases,
        lacking,
        &sink.made,
        |dirs| sink.make_dirs(dirs),
        |case| {
            sink.dirs.add(case.entry())?;
            Ok(changes_of(sink, case))
        },
    )
}

/// All other entries need their content, or would be created in a dry run.
fn need(sink: &SmbSink, cases: &mut [PendingOffer<'_>]) -> Result<()> {
    offers::need(cases, |case| changes_of(sink, case), |large| large::prepare(sink, large))?;
    let is_needed = |case: &PendingOffer<'_>| matches!(case.answer, Some(Ok(Answer::Need { .. })));
    let is_replaced = |case: &PendingOffer<'_>| case.now.is_some_and(|now| now.is_file());
    for case in cases.iter().filter(|case| is_needed(case) && is_replaced(case)) {
        if is_small(case.entry()) && !sink.options.dry_run {
            sink.will_replace(&case.offer.entry.path);
        }
    }
    Ok(())
}
