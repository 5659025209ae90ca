//! Which sinks need which slices of the files that are being copied.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use haul_core::{Answer, Digest, Error, ErrorKind, Outcome, RelPath, Result, Retries, Retry};

/// How often a slice is sent to one sink again because its connection was lost, before the sink counts as lost.
const CONNECTION_RETRIES: u32 = haul_core::retry::CONNECTION_RETRIES / 2;

/// The files that at least one sink needs.
#[derive(Default)]
pub(super) struct NeededFiles(HashMap<RelPath, NeededFile>);

struct NeededFile {
    at_ends: Vec<FileAtEnd>,
    /// The digest at an end that has the whole file.
    digest: Option<Digest>,
    /// Slices that an end has refused, and that are sent again: their state at each end.
    partly: BTreeMap<u32, Vec<SliceAtEnd>>,
}

#[derive(Clone, Default)]
struct SliceAtEnd {
    is_stored: bool,
    retries: Retries,
}

/// One file at one end.
enum FileAtEnd {
    /// The end has these slices.
    Needs {
        have: Vec<Range<u32>>,
    },
    /// The end has the file, or needs it no more.
    Done,
    Failed(Error),
}

/// The result of one slice at one end; `None` if it was not written there.
pub(super) type SliceResult = Option<Result<Outcome>>;

impl NeededFiles {
    /// Notes the answers for a file, of which at least one is a need. `None`: the end is lost.
    pub(super) fn answered(&mut self, path: &RelPath, answers: &[Option<Result<Answer>>]) {
        let at_end = |answer: &Option<Result<Answer>>| match answer {
            Some(Ok(Answer::Need { have, .. })) => FileAtEnd::Needs { have: have.clone() },
            Some(Err(error)) => FileAtEnd::Failed(error.clone()),
            Some(Ok(_)) | None => FileAtEnd::Done,
        };
        let at_ends = answers.iter().map(at_end).collect();
        let _ = self.0.insert(path.clone(), NeededFile { at_ends, digest: None, partly: BTreeMap::new() });
    }

    /// The file is given up.
    pub(super) fn discard(&mut self, path: &RelPath) {
        let _ = self.0.remove(path);
    }

    /// Whether an end needs a slice. A file that all have may be written again.
    pub(super) fn needs(&self, path: &RelPath, index: u32, end: usize) -> bool {
        let Some(file) = self.0.get(path) else { return true };
        let Some(FileAtEnd::Needs { have }) = file.at_ends.get(end) else { return false };
        let slice = file.partly.get(&index).and_then(|ends| ends.get(end));
        !slice.is_some_and(|slice| slice.is_stored) && !have.iter().any(|range| range.contains(&index))
    }

    /// The end takes nothing more.
    pub(super) fn lose(&mut self, end: usize) {
        for file in self.0.values_mut() {
            if let Some(at_end) = file.at_ends.get_mut(end) {
                *at_end = FileAtEnd::Done;
            }
        }
    }

    /// Notes the results of a slice at all ends, and joins them. `lost` gets the ends that an error ends as a whole.
    pub(super) fn settle(
        &mut self,
        path: &RelPath,
        index: u32,
        results: Vec<SliceResult>,
        lost: &mut dyn FnMut(usize, &Error),
    ) -> Result<Outcome> {
        let Some(file) = self.0.get_mut(path) else { return written_again(results) };
        let mut again = None::<Error>;
        let mut states =
            file.partly.remove(&index).unwrap_or_else(|| vec![SliceAtEnd::default(); results.len()]);
        for (end, result) in results.into_iter().enumerate() {
            let (Some(at_end), Some(state)) = (file.at_ends.get_mut(end), states.get_mut(end)) else {
                continue;
            };
            let (Some(result), FileAtEnd::Needs { .. }) = (result, &*at_end) else { continue };
            match result {
                Ok(Outcome::Committed(digest)) => {
                    file.digest = file.digest.or(digest);
                    *at_end = FileAtEnd::Done;
                }
                Ok(Outcome::Stored) => state.is_stored = true,
                Err(error) if error.kind() == ErrorKind::NoSpace => {
                    lost(end, &error);
                    *at_end = FileAtEnd::Done;
                }
                Err(error)
                    if error.retry() == Retry::Anew
                        || state.retries.may_repeat(error.retry(), CONNECTION_RETRIES) =>
                {
                    again.get_or_insert(error);
                }
                Err(error) if error.kind() == ErrorKind::Unreachable => {
                    lost(end, &error);
                    *at_end = FileAtEnd::Done;
                }
                Err(error) => *at_end = FileAtEnd::Failed(error),
            }
        }
        if let Some(error) = again {
            let _ = file.partly.insert(index, states);
            return Err(error);
        }
        if file.at_ends.iter().any(|at_end| matches!(at_end, FileAtEnd::Needs { .. })) {
            return Ok(Outcome::Stored);
        }
        let Some(file) = self.0.remove(path) else { return Ok(Outcome::Stored) };
        let failed = file.at_ends.into_iter().find_map(|at_end| match at_end {
            FileAtEnd::Failed(error) => Some(error.with_retry(Retry::Never)),
            FileAtEnd::Needs { .. } | FileAtEnd::Done => None,
        });
        failed.map_or(Ok(Outcome::Committed(file.digest)), Err)
    }
}

/// The result of a slice of a file that all ends have.
fn written_again(results: Vec<SliceResult>) -> Result<Outcome> {
    let mut outcome = Outcome::Stored;
    for result in results.into_iter().flatten() {
        if let committed @ Outcome::Committed(_) = result? {
            outcome = committed;
        }
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use haul_core::{Changes, Side};

    use super::*;

    fn path() -> RelPath {
        RelPath::new(b"f").unwrap()
    }

    fn files(have: [&[Range<u32>]; 2]) -> NeededFiles {
        let need =
            |have: &[Range<u32>]| Some(Ok(Answer::Need { changes: Changes::NEW, have: have.to_vec() }));
        let mut files = NeededFiles::default();
        files.answered(&path(), &[need(have[0]), need(have[1]), Some(Ok(Answer::Same))]);
        files
    }

    fn error(kind: ErrorKind, retry: Retry) -> SliceResult {
        Some(Err(Error::new(kind, Side::Destination, "write", "no").with_retry(retry)))
    }

    const STORED: SliceResult = Some(Ok(Outcome::Stored));

    fn committed() -> SliceResult {
        Some(Ok(Outcome::Committed(Some(Digest([1; 32])))))
    }

    fn settle(files: &mut NeededFiles, index: u32, results: [SliceResult; 2]) -> Result<Outcome> {
        let [one, other] = results;
        files.settle(&path(), index, vec![one, other, None], &mut |_, _| panic!("no end is lost"))
    }

    #[test]
    fn a_file_is_committed_once_all_ends_have_it() {
        let mut files = files([&[0..1, 1..2], &[]]);
        assert!(!files.needs(&path(), 1, 0) && files.needs(&path(), 1, 1) && !files.needs(&path(), 1, 2));
        assert_eq!(settle(&mut files, 0, [None, STORED]), Ok(Outcome::Stored));
        assert_eq!(settle(&mut files, 2, [committed(), STORED]), Ok(Outcome::Stored));
        let digest = Some(Digest([1; 32]));
        assert_eq!(settle(&mut files, 1, [None, committed()]), Ok(Outcome::Committed(digest)));
        assert!(files.needs(&path(), 1, 1), "it may be written again");
        assert_eq!(settle(&mut files, 1, [STORED, committed()]), Ok(Outcome::Committed(digest)));
    }

    #[test]
    fn a_slice_goes_again_only_to_the_end_that_lacks_it() {
        let mut files = files([&[], &[]]);
        let again = error(ErrorKind::Corrupt, Retry::Again);
        assert!(settle(&mut files, 0, [STORED, again]).is_err());
        assert!(!files.needs(&path(), 0, 0) && files.needs(&path(), 0, 1));
        assert_eq!(settle(&mut files, 0, [None, STORED]), Ok(Outcome::Stored));
        assert!(settle(&mut files, 1, [committed(), error(ErrorKind::Corrupt, Retry::OtherStream)]).is_err());
        assert!(!files.needs(&path(), 1, 0));
        assert!(matches!(settle(&mut files, 1, [None, committed()]), Ok(Outcome::Committed(_))));
    }

    #[test]
    fn an_error_at_one_end_is_told_when_the_others_have_the_file() {
        let mut files = files([&[], &[]]);
        let denied = || error(ErrorKind::PermissionDenied, Retry::Never);
        assert_eq!(settle(&mut files, 0, [denied(), STORED]), Ok(Outcome::Stored));
        assert!(!files.needs(&path(), 1, 0));
        let ended = settle(&mut files, 1, [None, committed()]).unwrap_err();
        assert_eq!((ended.kind(), ended.retry()), (ErrorKind::PermissionDenied, Retry::Never));
    }

    #[test]
    fn an_end_that_is_full_or_cannot_be_reached_is_lost_and_the_others_go_on() {
        for kind in [ErrorKind::NoSpace, ErrorKind::Unreachable] {
            let (mut files, mut lost) = (files([&[], &[]]), Vec::new());
            let results = vec![STORED, error(kind, Retry::Never), None];
            let outcome = files.settle(&path(), 0, results, &mut |end, error| lost.push((end, error.kind())));
            assert_eq!((outcome, &lost[..]), (Ok(Outcome::Stored), &[(1, kind)][..]));
            assert!(matches!(settle(&mut files, 1, [committed(), None]), Ok(Outcome::Committed(_))));
        }
    }
}
