//! Offers that are answered together, step by step, as a server is asked about many names at a time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use haul_core::policy::Verdict;
use haul_core::sync::Mutex;
use haul_core::{
    Answer, Changes, Digest, Entry, Error, ErrorKind, Offer, RelPath, Result, SLICE_LEN, Side, SinkOptions,
    SkipReason,
};

/// Directories that this run created before they were offered, because of an entry in them.
#[derive(Default)]
pub struct MadeDirs(Mutex<HashSet<RelPath>>);

impl MadeDirs {
    /// Whether the directory is one. The answer is given once.
    pub fn take(&self, dir: &RelPath) -> bool {
        self.0.lock().remove(dir)
    }
}

/// An offer that is being answered.
pub struct PendingOffer<'a, A> {
    /// The offer.
    pub offer: &'a Offer,
    /// The attributes of the existing entry at its path, if there is one.
    pub now: Option<A>,
    /// The decision about the content.
    pub verdict: Verdict,
    /// The answer, once there is one.
    pub answer: Option<Result<Answer>>,
}

impl<A> PendingOffer<'_, A> {
    /// The offered entry.
    pub fn entry(&self) -> &Entry {
        &self.offer.entry
    }

    /// Whether there is no answer yet.
    pub fn is_open(&self) -> bool {
        self.answer.is_none()
    }

    /// Whether the content of a large file is needed.
    fn needs_slices(&self) -> bool {
        self.is_open() && self.entry().is_file() && self.entry().len > SLICE_LEN
    }

    /// Answers an offer that the options exclude. `lacking` are the missing directories, `true` if another entry has
    /// the name.
    pub fn leave_out(&mut self, options: &SinkOptions, lacking: &HashMap<RelPath, bool>) {
        if options.ignore_existing
            && self.now.is_none()
            && above(&self.offer.entry.path).any(|dir| lacking.get(&dir) == Some(&true))
        {
            self.verdict = Verdict::Left(SkipReason::Exists);
        }
        if let Verdict::Left(why) = &self.verdict {
            self.answer = Some(Ok(Answer::Left(*why)));
        }
    }
}

/// The directories above a path, innermost first.
fn above(path: &RelPath) -> impl Iterator<Item = RelPath> {
    std::iter::successors(path.parent(), RelPath::parent)
}

/// Compares the content of files by their digests, which `digest` gets.
///
/// # Errors
/// That of `digest`.
pub fn compare_digests<A>(
    cases: &mut [PendingOffer<'_, A>],
    digest: impl FnOnce(&[RelPath]) -> Result<Vec<Result<Digest>>>,
) -> Result<()> {
    let is_asked =
        |case: &PendingOffer<'_, A>| case.is_open() && matches!(case.verdict, Verdict::CompareDigest(_));
    let asked: Vec<&mut PendingOffer<'_, A>> = cases.iter_mut().filter(|case| is_asked(case)).collect();
    let paths: Vec<RelPath> = asked.iter().map(|case| case.entry().path.clone()).collect();
    let digests = if paths.is_empty() { Vec::new() } else { digest(&paths)? };
    for (case, digest) in asked.into_iter().zip(digests) {
        match digest {
            Ok(digest) => case.verdict = Verdict::of_comparison(Some(digest) == case.offer.digest),
            Err(error) => case.answer = Some(Err(error)),
        }
    }
    Ok(())
}

/// The directories to create: those that were offered, and the missing parents of all entries. `true` if an entry of
/// another kind has the name.
fn dirs_to_make<A>(
    cases: &[PendingOffer<'_, A>],
    lacking: &HashMap<RelPath, bool>,
) -> BTreeMap<RelPath, bool> {
    let mut dirs = BTreeMap::new();
    for case in cases.iter().filter(|case| case.is_open()) {
        for dir in above(&case.offer.entry.path).take_while(|dir| !dirs.contains_key(dir)).collect::<Vec<_>>()
        {
            dirs.extend(lacking.get(&dir).map(|in_the_way| (dir, *in_the_way)));
        }
    }
    let offered = cases.iter().filter(|case| case.is_open() && case.entry().is_dir());
    dirs.extend(offered.map(|case| (case.entry().path.clone(), case.now.is_some())));
    dirs
}

/// Creates the directories that were offered, and the missing parents of all entries. Answers for those that were offered,
/// and for all that lies below one that failed. `make` creates them and returns the errors, `made` is called for each
/// that was offered and created.
///
/// # Errors
/// Those of `make` and `made`.
pub fn make_dirs<A>(
    cases: &mut [PendingOffer<'_, A>],
    lacking: &HashMap<RelPath, bool>,
    made_before: &MadeDirs,
    make: impl FnOnce(&BTreeMap<RelPath, bool>) -> Result<HashMap<RelPath, Error>>,
    made: impl Fn(&PendingOffer<'_, A>) -> Result<Changes>,
) -> Result<()> {
    let dirs = dirs_to_make(cases, lacking);
    // Before the server makes them: another thread may find one at once.
    made_before.0.lock().extend(dirs.keys().cloned());
    let failed = make(&dirs)?;
    for dir in failed.keys() {
        made_before.take(dir);
    }
    for case in cases.iter_mut().filter(|case| case.is_open()) {
        let path = &case.offer.entry.path;
        if case.entry().is_dir() {
            made_before.take(path);
            let made = failed.get(path).map_or_else(|| made(case).map(Ok), |error| Ok(Err(error.clone())))?;
            case.answer = Some(made.map(Answer::Made));
        } else if let Some(error) = above(path).filter_map(|dir| failed.get(&dir)).last() {
            case.answer = Some(Err(error.clone()));
        }
    }
    Ok(())
}

/// Answers the offers that are still open: files need their content; a dry run would create the other entries.
/// `prepare` finds the slices that interrupted runs left of large files.
///
/// # Errors
/// That of `prepare`.
pub fn need<'a, A>(
    cases: &mut [PendingOffer<'a, A>],
    changes: impl Fn(&PendingOffer<'a, A>) -> Changes,
    prepare: impl FnOnce(&[&PendingOffer<'a, A>]) -> Result<Vec<Result<Vec<Range<u32>>>>>,
) -> Result<()> {
    let large: Vec<&PendingOffer<'a, A>> = cases.iter().filter(|case| case.needs_slices()).collect();
    let mut left = prepare(&large)?.into_iter();
    for case in cases.iter_mut().filter(|case| case.is_open()) {
        let changes = changes(case);
        let have = if case.needs_slices() { left.next() } else { None }.unwrap_or(Ok(Vec::new()));
        case.answer = Some(match case.entry().is_file() {
            true => have.map(|have| Answer::Need { changes, have }),
            false => Ok(Answer::Made(changes)),
        });
    }
    Ok(())
}

/// The answers of all offers, in order.
pub fn answers<A>(cases: Vec<PendingOffer<'_, A>>, side: Side) -> Vec<Result<Answer>> {
    let unsettled = || Err(Error::new(ErrorKind::Io, side, "compare", "an entry was not settled"));
    cases.into_iter().map(|case| case.answer.unwrap_or_else(unsettled)).collect()
}
