//! Repeats the questions to an end whose answers are not final, as those that are temporary errors.

use std::time::Duration;

use haul_core::{Result, Retry};

/// How long to wait before each repetition.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(100), Duration::from_secs(1)];

/// Asks, and asks again about each question whose answer is an error that allows it ([`Retry::Again`]), as often as
/// there are pauses. `pause` is `false` when the run has ended.
///
/// # Errors
/// The error of `ask`.
pub(crate) fn ask<Q: Clone, A>(
    questions: &[Q],
    pause: impl Fn(Duration) -> bool,
    ask: impl Fn(&[Q]) -> Result<Vec<Result<A>>>,
) -> Result<Vec<Result<A>>> {
    let is_temporary = |answer: &Result<A>| answer.as_ref().is_err_and(|error| error.retry() == Retry::Again);
    let mut answers = ask(questions)?;
    for wait in PAUSES {
        let open = open(&answers, is_temporary);
        if open.is_empty() || !pause(wait) {
            break;
        }
        ask_again(questions, &mut answers, &open, &ask)?;
    }
    Ok(answers)
}

/// The numbers of the answers that are not final.
pub(crate) fn open<A>(answers: &[A], is_open: impl Fn(&A) -> bool) -> Vec<usize> {
    (0..answers.len()).filter(|at| is_open(&answers[*at])).collect()
}

/// Asks the questions of these numbers again, and replaces their answers.
///
/// # Errors
/// The error of `ask`.
pub(crate) fn ask_again<Q: Clone, A>(
    questions: &[Q],
    answers: &mut [Result<A>],
    open: &[usize],
    ask: impl Fn(&[Q]) -> Result<Vec<Result<A>>>,
) -> Result<()> {
    let again: Vec<Q> = open.iter().filter_map(|at| questions.get(*at).cloned()).collect();
    for (at, answer) in open.iter().zip(ask(&again)?) {
        answers[*at] = answer;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use haul_core::{Error, ErrorKind, Side};

    use super::*;

    /// Asks about 1, 2 and 3. Number 2 fails `times` times with `retry`. Returns the answers and the number of requests.
    fn asked(times: usize, retry: Retry, goes_on: bool) -> (Vec<Option<u32>>, usize) {
        let requests = Cell::new(0);
        let answer = |number: &u32| {
            if *number == 2 && requests.get() <= times {
                return Err(Error::new(ErrorKind::Io, Side::Destination, "compare", "EIO").with_retry(retry));
            }
            Ok(number * 10)
        };
        let answers = ask(
            &[1, 2, 3],
            |_| goes_on,
            |numbers| {
                requests.set(requests.get() + 1);
                assert!(requests.get() == 1 || numbers == [2], "only the open question is repeated");
                Ok(numbers.iter().map(answer).collect())
            },
        );
        (answers.unwrap().into_iter().map(Result::ok).collect(), requests.get())
    }

    #[test]
    fn a_temporary_error_is_asked_about_three_times_more() {
        assert_eq!(asked(0, Retry::Again, true), (vec![Some(10), Some(20), Some(30)], 1));
        assert_eq!(asked(3, Retry::Again, true), (vec![Some(10), Some(20), Some(30)], 4));
        assert_eq!(asked(9, Retry::Again, true), (vec![Some(10), None, Some(30)], 4));
    }

    #[test]
    fn nothing_is_repeated_after_another_error_or_the_end_of_the_run() {
        for (retry, goes_on) in [(Retry::Never, true), (Retry::Anew, true), (Retry::Again, false)] {
            assert_eq!(asked(1, retry, goes_on), (vec![Some(10), None, Some(30)], 1));
        }
    }

    #[test]
    fn the_error_of_a_repetition_is_that_of_the_whole() {
        let first = Cell::new(true);
        let error = || Error::new(ErrorKind::Unreachable, Side::Destination, "compare", "gone");
        let result = ask(
            &[1],
            |_| true,
            |_| {
                if first.take() {
                    Ok(vec![Err::<(), _>(error().with_retry(Retry::Again))])
                } else {
                    Err(error())
                }
            },
        );
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Unreachable);
    }
}
