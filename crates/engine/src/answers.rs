//! The answers of an end to several questions.

use haul_core::{Error, ErrorKind, Result, Side};

/// Checks that `side` has given one answer to each of `questions` questions about `operation`.
///
/// # Errors
/// `Protocol` if not.
pub fn one_each<A>(answers: Vec<A>, questions: usize, side: Side, operation: &'static str) -> Result<Vec<A>> {
    if answers.len() == questions {
        return Ok(answers);
    }
    let cause = "the answer is not as long as the question";
    Err(Error::new(ErrorKind::Protocol, side, operation, cause))
}
