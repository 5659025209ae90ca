//! One comparer thread: asks the sink for the page hashes of the files that are to be replaced.

use crate::run::Run;

/// Answers questions of the queue until the queue is closed. `number` counts the comparers from 0.
pub(crate) fn compare(run: &Run<'_>, number: usize) {
    while let Some(question) = run.queue.take_question(number) {
        // An error also stops the writing, and is reported there.
        let pages = run.sink.pages(&question.entry, question.slices.clone()).unwrap_or_default();
        run.queue.answer(question, pages);
    }
}
