//! Runs the cases on an end and reports all that failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::bench::{Subject, TestBench};
use super::case::ConformanceCase;
use super::keeps::Keeps;
use super::{
    arriving, capabilities, sink_changes, sink_content, sink_names, sink_offers, sink_resume, sink_streams,
    source_read, source_scan,
};

/// A case that runs for longer is reported as hung.
const LONGEST: Duration = Duration::from_secs(90);

/// A promise that an end is known to break, and why. The check fails if the end keeps it, so that the list stays true.
pub type KnownFailure = (&'static str, &'static str);

/// An end to be held to its promises.
#[derive(Clone)]
pub struct TestedEnd {
    /// Its name in the message.
    pub name: &'static str,
    /// The properties that it keeps.
    pub keeps: Keeps,
    /// The promises that it is known to break.
    pub known: &'static [KnownFailure],
    /// Makes an empty place for each case.
    pub make: Arc<dyn Fn() -> Subject + Send + Sync>,
}

impl TestedEnd {
    /// An end that keeps all its promises.
    #[must_use]
    pub fn new(name: &'static str, keeps: Keeps, make: impl Fn() -> Subject + Send + Sync + 'static) -> Self {
        Self { name, keeps, known: &[], make: Arc::new(make) }
    }

    /// The same end, which is known to break these promises.
    #[must_use]
    pub fn except(self, known: &'static [KnownFailure]) -> Self {
        Self { known, ..self }
    }

    /// The promises of a source.
    #[must_use]
    pub fn source_cases() -> Vec<&'static ConformanceCase> {
        all([source_scan::CASES, source_read::CASES, arriving::SOURCE_CASES, capabilities::SOURCE_CASES])
    }

    /// The promises of a sink.
    #[must_use]
    pub fn sink_cases() -> Vec<&'static ConformanceCase> {
        all([
            sink_offers::CASES,
            sink_changes::CASES,
            sink_content::CASES,
            arriving::SINK_CASES,
            sink_resume::CASES,
            sink_streams::CASES,
            sink_names::CASES,
            capabilities::SINK_CASES,
        ])
    }

    /// Holds the source to all its promises.
    ///
    /// # Panics
    /// If a case fails, with the names of all that do.
    pub fn check_source(&self) {
        self.check("source", &Self::source_cases());
    }

    /// Holds the sink to all its promises.
    ///
    /// # Panics
    /// If a case fails, with the names of all that do.
    pub fn check_sink(&self) {
        self.check("sink", &Self::sink_cases());
    }

    fn check(&self, side: &str, cases: &[&'static ConformanceCase]) {
        let asked: Vec<_> = cases.iter().filter(|case| (case.needs)(&self.keeps)).collect();
        let mut broken = Vec::new();
        for case in &asked {
            let known = self.known.iter().find(|(name, _)| *name == case.name);
            match (self.run(case), known) {
                (Err(why), None) => broken.push(format!("{}: {why}", case.name)),
                (Ok(()), Some((_, reason))) => {
                    broken
                        .push(format!("{}: holds, though the list of exceptions says: {reason}", case.name));
                }
                _ => {}
            }
        }
        let count = asked.len();
        let head = format!("the {side} of `{}` breaks {} of {count} promises", self.name, broken.len());
        assert!(broken.is_empty(), "{head}:\n  {}", broken.join("\n  "));
    }

    /// A case on a thread of its own, so that one that hangs is reported like one that fails.
    fn run(&self, case: &ConformanceCase) -> Result<(), String> {
        let (sender, receiver) = channel();
        let (make, keeps, run) = (Arc::clone(&self.make), self.keeps, case.run);
        let thread = thread::Builder::new().name(case.name.to_owned());
        let started = thread.spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| run(&TestBench::new(make(), keeps))));
            let _ = sender.send(result.map_err(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap_or_default()
            }));
        });
        started.map_err(|error| error.to_string())?;
        receiver.recv_timeout(LONGEST).unwrap_or_else(|_| Err(format!("hangs for {LONGEST:?}")))
    }
}

fn all<const N: usize>(groups: [&'static [ConformanceCase]; N]) -> Vec<&'static ConformanceCase> {
    groups.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_promise_has_a_name_of_its_own() {
        let mut names: Vec<_> = TestedEnd::source_cases()
            .into_iter()
            .chain(TestedEnd::sink_cases())
            .map(|case| case.name)
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count >= 60, "{count}");
    }
}
