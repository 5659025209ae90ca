//! Offers that are answered together, step by step, as a server is asked about many names at a time.

use std::collections::{BTreeMap, HashMap};

use haul_core::policy::Verdict;
use haul_core::{
    Answer, Changes, Digest, Entry, Error, ErrorKind, Left, Offer, RelPath, Result, Side, SinkOptions,
};

/// An offer that is being answered.
pub struct Case<'a, A> {
    /// The offer.
    pub offer: &'a Offer,
    /// What the end knows of the entry at its place, if there is one.
    pub now: Option<A>,
    /// What is to be done about the content.
    pub verdict: Verdict,
    /// The answer, once there is one.
    pub answer: Option<Result<Answer>>,
}

impl<A> Case<'_, A> {
    /// The offered entry.
    pub fn entry(&self) -> &Entry {
        &self.offer.entry
    }

    /// Whether there is no answer yet.
    pub fn is_open(&self) -> bool {
        self.answer.is_none()
    }

    /// Answers an offer that the options exclude. `lacking` are the missing directories, `true` if another entry has
    /// the name.
    pub fn leave_out(&mut self, options: &SinkOptions, lacking: &HashMap<RelPath, bool>) {
        if options.ignore_existing
            && self.now.is_none()
            && above(&self.offer.entry.path).any(|dir| lacking.get(&dir) == Some(&true))
        {
            self.verdict = Verdict::Left(Left::Exists);
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
    cases: &mut [Case<'_, A>],
    digest: impl FnOnce(&[RelPath]) -> Result<Vec<Result<Digest>>>,
) -> Result<()> {
    let is_asked = |case: &Case<'_, A>| case.is_open() && matches!(case.verdict, Verdict::CompareDigest(_));
    let asked: Vec<&mut Case<'_, A>> = cases.iter_mut().filter(|case| is_asked(case)).collect();
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
pub fn dirs_to_make<A>(cases: &[Case<'_, A>], lacking: &HashMap<RelPath, bool>) -> BTreeMap<RelPath, bool> {
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

/// Answers offers of directories that were created, and of all that lies below one that was not. `made` is called for
/// each that was.
///
/// # Errors
/// That of `made`.
pub fn answer_dirs<A>(
    cases: &mut [Case<'_, A>],
    failed: &HashMap<RelPath, Error>,
    made: impl Fn(&Case<'_, A>) -> Result<Changes>,
) -> Result<()> {
    for case in cases.iter_mut().filter(|case| case.is_open()) {
        let path = &case.offer.entry.path;
        if case.entry().is_dir() {
            let made = failed.get(path).map_or_else(|| made(case).map(Ok), |error| Ok(Err(error.clone())))?;
            case.answer = Some(made.map(Answer::Made));
        } else if let Some(error) = above(path).filter_map(|dir| failed.get(&dir)).last() {
            case.answer = Some(Err(error.clone()));
        }
    }
    Ok(())
}

/// The answers of all offers, in order.
pub fn answers<A>(cases: Vec<Case<'_, A>>, side: Side) -> Vec<Result<Answer>> {
    let unsettled = || Err(Error::new(ErrorKind::Io, side, "compare", "an entry was not settled"));
    cases.into_iter().map(|case| case.answer.unwrap_or_else(unsettled)).collect()
}
