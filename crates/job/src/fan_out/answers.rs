//! The answers of several sinks as one.

use std::cmp::Ordering;
use std::ops::Range;

use haul_core::{Answer, Changes, Result};

/// The answer for an entry: the content is needed if one sink needs it, without the slices that all of these have. Else
/// an error counts, and else the answer that tells of most work. `None` if there is no answer.
pub(super) fn join(answers: Vec<Result<Answer>>) -> Option<Result<Answer>> {
    let mut need = None::<(Changes, Vec<Range<u32>>)>;
    for answer in &answers {
        if let Ok(Answer::Need { changes, have }) = answer {
            need = Some(match need {
                None => (*changes, have.clone()),
                Some((others, common)) => (others | *changes, common_ranges(&common, have)),
            });
        }
    }
    if let Some((changes, have)) = need {
        return Some(Ok(Answer::Need { changes, have }));
    }
    answers.into_iter().max_by_key(rank)
}

fn rank(answer: &Result<Answer>) -> u8 {
    match answer {
        Ok(Answer::Left(_)) => 0,
        Ok(Answer::Same) => 1,
        Ok(Answer::Updated(_)) => 2,
        Ok(Answer::Made(_)) => 3,
        Ok(Answer::Need { .. }) => 4,
        Err(_) => 5,
    }
}

/// The numbers that are in a range of both lists, which are in ascending order.
fn common_ranges(one: &[Range<u32>], other: &[Range<u32>]) -> Vec<Range<u32>> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut common = Vec::new();
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        let (start, end) = (a.start.max(b.start), a.end.min(b.end));
        if start < end {
            common.push(start..end);
        }
        let _ = match a.end.cmp(&b.end) {
            Ordering::Less => one.next(),
            Ordering::Equal | Ordering::Greater => other.next(),
        };
    }
    common
}

#[cfg(test)]
mod tests {
    use haul_core::{Error, ErrorKind, Side, SkipReason};

    use super::*;

    #[test]
    fn the_content_is_needed_if_one_needs_it_without_what_all_have() {
        let need = |changes, have: &[Range<u32>]| Ok(Answer::Need { changes, have: have.to_vec() });
        let error = || Err(Error::new(ErrorKind::Io, Side::Destination, "open", "no"));
        let joined = join(vec![
            Ok(Answer::Same),
            need(Changes::NEW, &[0..4, 6..9]),
            error(),
            need(Changes::SIZE, &[1..2, 3..7, 8..20]),
        ]);
        assert_eq!(joined, Some(need(Changes::NEW | Changes::SIZE, &[1..2, 3..4, 6..7, 8..9])));
        assert_eq!(join(vec![Ok(Answer::Same), error()]), Some(error()));
        let (left, made) = (Answer::Left(SkipReason::Exists), Answer::Made(Changes::NEW));
        assert_eq!(join(vec![Ok(left.clone()), Ok(Answer::Same)]), Some(Ok(Answer::Same)));
        assert_eq!(join(vec![Ok(Answer::Same), Ok(made.clone()), Ok(left)]), Some(Ok(made)));
        assert_eq!(join(Vec::new()), None);
    }
}
