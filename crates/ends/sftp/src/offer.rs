//! Answers offers: compares entries, creates those without content, and finds the content that the sink needs. Each
//! step is one pipeline for all offers.

use std::collections::{BTreeMap, HashMap};

use haul_core::policy::{self, Existing, Verdict};
use haul_core::{
    Answer, Changes, Compare, Entry, EntryKind, ErrorKind, Offer, RelPath, Result, SinkOptions, SkipReason,
};

use super::compare::SftpEntry;
use super::listing::have_entries;
use super::meta::{self, MetaChange, Wish};
use super::packet::{Attrs, SftpRequest};
use super::pipeline::Pipeline;
use super::read::hashers;
use super::reply::{Fault, unless_lost};
use super::state::SftpSink;
use super::tree::is_dir;
use super::{kept, large, unwritable};
use haul_core::staging::is_staging_name;
use haul_ends::hashed::HashedBytes;
use haul_ends::offers;
use haul_ends::server_tree::ServerTree;

type PendingOffer<'a> = haul_ends::offers::PendingOffer<'a, Attrs>;

/// How the existing entry differs.
fn changes_of(sink: &SftpSink, case: &PendingOffer<'_>) -> Changes {
    changes(&sink.options, case.entry(), case.now.as_ref(), &case.verdict)
}

/// Compares entries and creates those that have no content.
pub(super) fn answer(sink: &SftpSink, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
    let paths: Vec<RelPath> = offers.iter().map(|offer| offer.entry.path.clone()).collect();
    let looked = sink.tree.look(&paths)?;
    let mut cases: Vec<PendingOffer<'_>> = Vec::with_capacity(offers.len());
    for (offer, found) in offers.iter().zip(looked.found) {
        let (now, answer) = match found {
            Ok(now) => (now, None),
            Err(fault) => (None, Some(Err(sink.tree.error("look at", &offer.entry.path, fault)))),
        };
        let answer = answer.or_else(|| sink.check(&offer.entry).err().map(Err));
        let existing = now.as_ref().map(|attrs| SftpEntry { options: &sink.options, attrs });
        let refusal = existing.as_ref().and_then(Existing::kind).and_then(|kind| kind.refusal(&offer.entry));
        let refusal =
            refusal.map(|refusal| refusal.with_side(sink.tree.side).on(sink.tree.remote(&offer.entry.path)));
        let answer = answer.or_else(|| refusal.map(Err));
        let verdict = sink.cleared.decide(&sink.options, offer, existing.as_ref());
        cases.push(PendingOffer { offer, now, verdict, answer });
    }
    compare_targets(sink, &mut cases)?;
    let hashed = HashedBytes::default();
    offers::compare_digests(&mut cases, |paths| sink.tree.digest(paths, hashers(&sink.tree), &hashed))?;
    for case in cases.iter_mut().filter(|case| case.is_open()) {
        case.leave_out(&sink.options, &looked.lacking);
        if case.is_open() && case.verdict != Verdict::Same && !can_hold(case.entry()) {
            sink.notes.note("pipes, sockets and devices", "SFTP makes none", &case.offer.entry.path);
            case.answer = Some(Ok(Answer::Left(SkipReason::Unsupported)));
        }
    }
    same(sink, &mut cases)?;
    if sink.options.dry_run {
        look_into_dirs(sink, &mut cases)?;
    } else {
        if let Some(case) = cases.iter().find(|case| case.entry().path.is_root() && !case.entry().is_dir()) {
            sink.clean(&[sink.tree.beside(&case.entry().path, b".")])?;
        }
        clear_dirs(sink, &mut cases)?;
        make(sink, &mut cases, &looked.lacking)?;
    }
    need(sink, &mut cases)?;
    let answers = offers::answers(cases, sink.tree.side);
    if sink.options.dry_run {
        return Ok(answers);
    }
    unwritable::refused(sink, offers, &answers)?.map_or(Ok(answers), Err)
}

/// How the entry at the place of `entry` differs from it.
pub(super) fn changes(
    options: &SinkOptions,
    entry: &Entry,
    now: Option<&Attrs>,
    verdict: &Verdict,
) -> Changes {
    let existing = now.map(|attrs| SftpEntry { options, attrs });
    policy::changes(options, entry, existing.as_ref(), verdict, || {
        now.map_or(Changes::NONE, |now| Wish::of(&options.preserve, entry).changes(now, entry))
    })
}

fn can_hold(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::File | EntryKind::Dir | EntryKind::Symlink(_))
}

/// Compares the targets of links.
fn compare_targets(sink: &SftpSink, cases: &mut [PendingOffer<'_>]) -> Result<()> {
    let asked = |case: &PendingOffer<'_>| case.verdict == Verdict::CompareTarget;
    let reported = sink.tree.pool().on_one(|conn| {
        let mut pipeline = Pipeline::new(conn);
        for case in cases.iter().filter(|case| asked(case)) {
            pipeline.ask(&SftpRequest::Readlink { path: &sink.tree.remote(&case.entry().path) });
        }
        let mut reported = Vec::new();
        while let Some(reply) = pipeline.next() {
            reported.push(unless_lost(reply.name())?.ok());
        }
        Ok(reported)
    })?;
    for (case, there) in cases.iter_mut().filter(|case| asked(case)).zip(reported) {
        let same = matches!(&case.entry().kind, EntryKind::Symlink(to) if there.as_deref() == Some(&to[..]));
        case.verdict = Verdict::of_comparison(same);
    }
    Ok(())
}

/// Sets the metadata of entries that are equal otherwise.
fn same(sink: &SftpSink, cases: &mut [PendingOffer<'_>]) -> Result<()> {
    let mut listed = Vec::new();
    let (mut dirs, mut differing) = (Vec::new(), Vec::new());
    for (at, case) in cases.iter_mut().enumerate() {
        if case.verdict != Verdict::Same || !case.is_open() {
            continue;
        }
        let entry = &*case.offer.entry;
        if sink.options.compare == Compare::Metadata {
            let now = case.now.as_ref().filter(|_| can_hold(entry));
            case.answer = Some(now.map_or(Ok(Answer::Same), |now| kept::answer(sink, entry, now)));
            continue;
        }
        if entry.is_dir() {
            let is_made = sink.made.take(&entry.path);
            sink.add_dir(entry, case.now.as_ref().filter(|_| !is_made))?;
            if is_made {
                case.answer = Some(Ok(Answer::Made(Changes::NEW)));
                continue;
            }
            listed.push(sink.tree.remote(&entry.path));
        }
        let wish = Wish::of(&sink.options.preserve, entry);
        let same = case.now.as_ref().is_some_and(|now| wish.is_met_by(now, entry));
        if same || !can_hold(entry) {
            case.answer = Some(Ok(Answer::Same));
        } else if sink.options.dry_run {
            case.answer = Some(Ok(Answer::Updated(changes_of(sink, case))));
        } else if entry.is_dir() {
            dirs.push(at);
        } else {
            differing.push(at);
        }
    }
    let known = |at: &usize| (&cases[*at].offer.entry.path, cases[*at].now);
    let may_change = meta::may_change(&sink.tree, &dirs.iter().map(known).collect::<Vec<_>>())?;
    for (at, may_change) in dirs.into_iter().zip(may_change) {
        // At the end of the run, a warning names the metadata that could not be set.
        let updated = Answer::Updated(changes_of(sink, &cases[at]));
        cases[at].answer = Some(Ok(if may_change { updated } else { Answer::Same }));
    }
    let change = |at: &usize| {
        let (entry, now) = (&*cases[*at].offer.entry, cases[*at].now);
        MetaChange { entry, wish: Wish::of(&sink.options.preserve, entry), now }
    };
    let changes: Vec<MetaChange<'_>> = differing.iter().map(change).collect();
    let changed = if changes.is_empty() { Vec::new() } else { sink.set_all(&changes)? };
    for (at, changed) in differing.into_iter().zip(changed) {
        // Metadata that cannot be set became a warning.
        let updated = Answer::Updated(changes_of(sink, &cases[at]));
        let answer = if changed == Some(true) { updated } else { Answer::Same };
        cases[at].answer = Some(Ok(answer));
    }
    if !sink.options.dry_run {
        sink.clean(&listed)?;
    }
    Ok(())
}

/// In a dry run, finds directories that would prevent an entry, as they are not empty.
fn look_into_dirs(sink: &SftpSink, cases: &mut [PendingOffer<'_>]) -> Result<()> {
    let in_the_way = |case: &PendingOffer<'_>| {
        case.is_open() && !case.entry().is_dir() && case.now.as_ref().is_some_and(is_dir)
    };
    let asked: Vec<usize> = (0..cases.len()).filter(|at| in_the_way(&cases[*at])).collect();
    let dirs: Vec<Vec<u8>> = asked.iter().map(|at| sink.tree.remote(&cases[*at].entry().path)).collect();
    if dirs.is_empty() {
        return Ok(());
    }
    let full = sink.tree.pool().on_one(|conn| have_entries(conn, &dirs, |name| !is_staging_name(name)))?;
    for at in asked.into_iter().zip(full).filter_map(|(at, full)| full.then_some(at)) {
        cases[at].answer = Some(Err(sink.tree.not_empty(&cases[at].offer.entry.path)));
    }
    Ok(())
}

/// Removes empty directories that have the name of another entry. One that is not empty is an error.
fn clear_dirs(sink: &SftpSink, cases: &mut [PendingOffer<'_>]) -> Result<()> {
    let in_the_way = |case: &PendingOffer<'_>| {
        case.is_open() && !case.entry().is_dir() && case.now.as_ref().is_some_and(is_dir)
    };
    let said = sink.tree.pool().on_one(|conn| {
        let mut pipeline = Pipeline::new(conn);
        for case in cases.iter().filter(|case| in_the_way(case)) {
            pipeline.ask(&SftpRequest::Rmdir { path: &sink.tree.remote(&case.entry().path) });
        }
        let mut said = Vec::new();
        while let Some(reply) = pipeline.next() {
            said.push(unless_lost(reply.ok())?);
        }
        Ok(said)
    })?;
    for (case, said) in cases.iter_mut().filter(|case| in_the_way(case)).zip(said) {
        sink.tree.forget(&case.offer.entry.path);
        match said {
            Ok(()) => sink.cleared.add(&sink.options, &case.offer.entry.path),
            Err(fault) if fault.is_missing() => {}
            Err(Fault::Status(super::packet::FAILURE, _)) => {
                case.answer = Some(Err(sink.tree.not_empty(&case.offer.entry.path)));
            }
            Err(fault) => {
                case.answer = Some(Err(sink.tree.error("replace", &case.offer.entry.path, fault)));
            }
        }
    }
    Ok(())
}

/// Creates directories and links. If a directory forbids its owner to write, changes its mode meanwhile and tries once
/// more.
fn make(sink: &SftpSink, cases: &mut [PendingOffer<'_>], lacking: &HashMap<RelPath, bool>) -> Result<()> {
    let open: Vec<usize> = (0..cases.len()).filter(|at| cases[*at].is_open()).collect();
    make_dirs(sink, cases, lacking)?;
    make_links(sink, cases)?;
    let denied =
        |answer: &Result<Answer>| matches!(answer, Err(error) if error.kind() == ErrorKind::PermissionDenied);
    let again: Vec<usize> =
        open.into_iter().filter(|at| cases[*at].answer.as_ref().is_some_and(denied)).collect();
    let paths: Vec<&RelPath> = again.iter().map(|at| &cases[*at].offer.entry.path).collect();
    if paths.is_empty() {
        return Ok(());
    }
    sink.tree.pool().on_one(|conn| sink.tree.unlock(conn, paths.iter().copied()))?;
    again.iter().for_each(|at| cases[*at].answer = None);
    make_dirs(sink, cases, lacking)?;
    make_links(sink, cases)
}

/// Creates the directories that were offered, and the missing parents of all entries.
fn make_dirs(
    sink: &SftpSink,
    cases: &mut [PendingOffer<'_>],
    lacking: &HashMap<RelPath, bool>,
) -> Result<()> {
    if cases.iter().any(|case| case.is_open() && case.entry().path.is_root() && !case.entry().is_dir()) {
        // For a single file, the destination directory may be missing.
        sink.tree.make_above()?;
    }
    let offered = cases.iter().filter(|case| case.entry().is_dir());
    let modes: HashMap<&RelPath, u32> =
        offered.map(|case| (&case.offer.entry.path, case.offer.entry.mode)).collect();
    let make = |dirs: &BTreeMap<RelPath, bool>| {
        let failed = sink.tree.make_dirs(dirs, &|dir| sink.first_dir_mode(modes.get(dir).copied()))?;
        let failed = failed.into_iter();
        Ok(failed.map(|(dir, fault)| (dir.clone(), sink.tree.error("make", &dir, fault))).collect())
    };
    offers::make_dirs(cases, lacking, &sink.made, make, |case| {
        sink.add_dir(case.entry(), None)?;
        Ok(changes_of(sink, case))
    })
}

/// Creates links under staging names and renames them into place.
fn make_links(sink: &SftpSink, cases: &mut [PendingOffer<'_>]) -> Result<()> {
    let is_link =
        |case: &PendingOffer<'_>| case.is_open() && matches!(case.entry().kind, EntryKind::Symlink(_));
    if !cases.iter().any(is_link) {
        return Ok(());
    }
    let made = sink.tree.pool().on_one(|conn| {
        let mut pipeline = Pipeline::new(conn);
        let mut staged = Vec::new();
        for case in cases.iter().filter(|case| is_link(case)) {
            let EntryKind::Symlink(target) = &case.entry().kind else { continue };
            let part = sink.stage(&case.entry().path);
            pipeline.ask(&SftpRequest::Symlink { target, path: part.remote() });
            let wish = Wish::of(&sink.options.preserve, case.entry());
            let asked = meta::ask_link(&mut pipeline, conn, part.remote(), &wish);
            sink.ask_publish(&mut pipeline, conn, part.remote(), &case.entry().path);
            staged.push((part, asked));
        }
        let mut made = Vec::new();
        for (case, (part, asked)) in cases.iter().filter(|case| is_link(case)).zip(staged) {
            let entry = case.entry();
            let linked = pipeline.next_reply().ok();
            let set = match &linked {
                Ok(()) => meta::take_link(&mut pipeline, asked, entry, &sink.notes, &sink.options),
                Err(_) if asked => Ok(pipeline.next_reply().ok().is_ok()),
                Err(_) => Ok(false),
            };
            let published = sink.take_publish(&mut pipeline, conn);
            set?;
            match unless_lost(linked.and(published))? {
                Ok(()) => {
                    part.done();
                    made.push(Ok(Answer::Made(changes_of(sink, case))));
                }
                Err(fault) => made.push(Err(sink.tree.error("make", &entry.path, fault))),
            }
        }
        Ok(made)
    })?;
    for (case, answer) in cases.iter_mut().filter(|case| is_link(case)).zip(made) {
        case.answer = Some(answer);
    }
    Ok(())
}

/// All other entries need their content, or would be created in a dry run.
fn need(sink: &SftpSink, cases: &mut [PendingOffer<'_>]) -> Result<()> {
    let needs_content = cases.iter().any(|case| case.is_open() && case.entry().is_file());
    offers::need(cases, |case| changes_of(sink, case), |large| large::prepare(sink, large))?;
    if needs_content && !sink.options.dry_run {
        sink.tree.pool().want();
    }
    Ok(())
}
